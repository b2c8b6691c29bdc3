"""From a world to one recording file, kept for the runs that need it, and what such a file holds."""
