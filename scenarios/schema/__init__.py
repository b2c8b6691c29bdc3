"""What a scenario or world file can say: frozen sections that check themselves, and TOML read safely."""
