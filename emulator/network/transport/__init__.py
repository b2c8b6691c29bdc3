"""Carriers of bytes between nodes: the wire format, ZeroMQ hub and worker, and a carrier in memory."""
