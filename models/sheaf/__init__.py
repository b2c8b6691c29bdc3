"""The sheaf coupling of heads: equations, restriction maps, one client's side of it, and stability limits."""
