"""Topology, links that decide, transports that carry, and the wire format between them."""
