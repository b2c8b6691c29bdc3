"""The command line: all commands, their options, and the tables that they print."""
