"""Several models of one architecture passed by one call: their parameters are rows of a stack."""
