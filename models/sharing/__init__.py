"""What clients average with their neighbors: encoders, heads, whole models, class means."""
