"""The runtime that serves a bundle: windows per stream, questions in turn, answers in batches, nothing uncounted."""
