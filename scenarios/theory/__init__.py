"""Theory beside a run: energy, spectrum and holonomy of its sheaf, gradients, and the bound of Theorem 1."""
