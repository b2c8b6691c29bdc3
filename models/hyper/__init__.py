"""A server that generates its clients' models: the graph of clients, diffusion on it, a hypernetwork, learners."""
