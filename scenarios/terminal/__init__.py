"""The command line: every command, and every table that a command prints."""
