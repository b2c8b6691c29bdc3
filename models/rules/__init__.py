"""What a client does between two exchanges: local rules, each with what of it is exchanged."""
