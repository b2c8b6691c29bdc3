"""Emulated worlds: streets and skies as scenes that sensors and radio share."""
