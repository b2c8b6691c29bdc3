"""Files of propagation paths that ray tracers found."""
