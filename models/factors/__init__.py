"""Weights as sums of rank-one tensors: canonical (CP) factors, their ranks, fits and layers."""
