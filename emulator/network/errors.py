"""What can go wrong between two nodes, as one sentence each."""

from __future__ import annotations

from ..contracts import SheafedgeError


class WireError(SheafedgeError, ValueError):
    """Bytes are not a message, or a message must not become bytes; met at the border, before any content is used."""


class TransportError(SheafedgeError, RuntimeError):
    """Bytes could not be carried: a bad address, a silent peer, a transport already closed."""
