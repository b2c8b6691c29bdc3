"""Animation of a run: streets with beams and warnings, and messages on their way between clients."""
