"""A scenario file with the scenarios that it builds on, and the file and line of every value."""
