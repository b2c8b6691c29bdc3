"""Readers of tracks: where vehicles and people were, as traffic simulators and tables give it."""
