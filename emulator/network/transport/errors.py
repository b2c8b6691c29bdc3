"""Errors of transport, one sentence each, and errors that cross from a worker to its engine."""

from __future__ import annotations

import traceback

from ...contracts import ConfigError, DataError, DivergedError, NodeId, SheafedgeError, TopologyError


class WireError(SheafedgeError, ValueError):
    """Bytes are not a message, or a message must not become bytes; met at the border, before any content is used."""


class OverLimitError(WireError):
    """Bytes exceed a limit of size, number or nesting; where a process sent them, its connection is closed."""


class TransportError(SheafedgeError, RuntimeError):
    """Bytes could not be carried: a bad address, a silent peer, a transport already closed."""


class WorkerLost(TransportError):  # noqa: N818 - it is what happened, as the user reads it
    """A worker process died, left or fell silent, and with it what its clients had learned since the last checkpoint.

    Attributes:
        seat: index of the worker, from 0.
        clients: ids of the clients that it computed.
    """

    def __init__(self, seat: int, name: str, clients: tuple[NodeId, ...], reason: str) -> None:
        super().__init__(seat, name, clients, reason)  # simpy makes errors of processes anew, from these
        self.seat, self.clients = seat, clients
        self._name, self._reason = name, reason

    def __str__(self) -> str:
        who = f"worker {self.seat}" + (f" ({self._name})" if self._name else "")
        listed = ", ".join(map(str, self.clients[:8])) + (", ..." if len(self.clients) > 8 else "")
        return f"{who} with client{'s' if len(self.clients) > 1 else ''} {listed} is lost: {self._reason}"


#: Errors of a worker that the engine raises as what they are.
REMOTE_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (
        ConfigError,
        DataError,
        DivergedError,
        MemoryError,
        SheafedgeError,
        TopologyError,
        TransportError,
        WireError,
    )
}
_LONGEST = 4000  # characters of a sentence


def describe_error(error: BaseException) -> tuple[str, str]:
    """Name and sentence of an error, to be sent; that of a programming error includes where it was raised."""
    # Its nearest ancestor that the engine knows: a subclass arrives as that.
    for cls in type(error).__mro__:
        if cls.__name__ in REMOTE_ERRORS:
            return cls.__name__, str(error)[:_LONGEST]
    return type(error).__name__, "".join(traceback.format_exception(error))[-_LONGEST:]


def remote_error(name: str, sentence: str, worker: str) -> Exception:
    """The exception that the engine raises for an error that a worker has sent."""
    if name in REMOTE_ERRORS:
        return REMOTE_ERRORS[name](sentence)
    return RuntimeError(f"{worker} met a mistake in the program, {name[:40]}:\n{sentence}")
