"""Encoders: what turns one modality in physical units into an embedding."""
