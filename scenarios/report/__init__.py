"""Reports of runs and comparisons: one HTML file without network, and figures for papers."""
