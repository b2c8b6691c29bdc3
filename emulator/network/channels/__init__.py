"""What lies between a sender and a receiver, a model per file; none of them has a queue."""
