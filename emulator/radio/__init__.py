"""Propagation, antennas and blockage: what the radio makes of a scene."""
