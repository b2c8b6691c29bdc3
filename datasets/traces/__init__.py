"""Readers of measured link traces."""
