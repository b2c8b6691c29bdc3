"""What can go wrong between two nodes, as one sentence each."""

from __future__ import annotations

from ...contracts import NodeId, SheafedgeError


class WireError(SheafedgeError, ValueError):
    """Bytes are not a message, or a message must not become bytes; met at the border, before any content is used."""


class TransportError(SheafedgeError, RuntimeError):
    """Bytes could not be carried: a bad address, a silent peer, a transport already closed."""


class WorkerLost(TransportError):  # noqa: N818 - it is what happened, as the user reads it
    """A worker process died, left or fell silent, and with it what its clients had learned since the last checkpoint.

    Attributes:
        seat: which of the workers, from 0.
        clients: that lived there.
    """

    def __init__(self, seat: int, name: str, clients: tuple[NodeId, ...], reason: str) -> None:
        super().__init__(seat, name, clients, reason)  # simpy makes errors of processes anew, from these
        self.seat, self.clients = seat, clients
        self._name, self._reason = name, reason

    def __str__(self) -> str:
        who = f"worker {self.seat}" + (f" ({self._name})" if self._name else "")
        listed = ", ".join(map(str, self.clients[:8])) + (", ..." if len(self.clients) > 8 else "")
        return f"{who} with client{'s' if len(self.clients) > 1 else ''} {listed} is lost: {self._reason}"
