"""One HDF5 file with what every sensor of every base station saw."""
