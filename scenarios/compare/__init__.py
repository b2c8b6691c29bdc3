"""Comparisons: the same scenario learned in several ways, over seeds, and settings chosen without the test rows."""
