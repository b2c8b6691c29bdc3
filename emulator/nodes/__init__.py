"""Base stations as processes on the simulated clock, and the pool that does their real work."""
