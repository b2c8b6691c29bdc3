"""Command line of an edge device: serve, bench and verify."""
