"""Everything that learns: encoders, fusion, heads, sheaf, gossip, algorithms, export. No clock, no socket."""
