"""One file for each algorithm, and the table that names them."""
