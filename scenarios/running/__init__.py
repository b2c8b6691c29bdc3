"""One run: played round by round, kept in a folder, checkpointed, and resumed."""
