"""Local training of one client: minibatch steps, losses, rows kept aside."""
