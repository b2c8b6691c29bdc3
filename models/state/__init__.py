"""The state of tensors, networks, optimizers and random streams, as plain trees."""
