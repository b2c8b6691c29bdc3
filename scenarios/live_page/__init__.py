"""A page on loopback that shows a run while it goes on: drawn and served by a process of its own."""
