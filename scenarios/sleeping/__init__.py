"""Clients that sleep while they take no part: rows of a table, and what is there of them in a round."""
