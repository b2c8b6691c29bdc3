"""Errors that cross from a worker to its engine: ours arrive as what they are, others with where they rose."""

from __future__ import annotations

import traceback

from ..contracts import ConfigError, DataError, DivergedError, SheafedgeError, TopologyError
from ..network.transport.errors import TransportError, WireError

#: What a worker may make the engine raise.
TOLD: dict[str, type[Exception]] = {
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


def told(error: BaseException) -> tuple[str, str]:
    """Name and sentence of an error; of a mistake in the program where it rose, too."""
    for cls in type(error).__mro__:
        if cls.__name__ in TOLD:
            return cls.__name__, str(error)[:_LONGEST]
    return type(error).__name__, "".join(traceback.format_exception(error))[-_LONGEST:]


def error_of(name: str, sentence: str, worker: str) -> Exception:
    """What the engine raises for an error that a worker told."""
    if name in TOLD:
        return TOLD[name](sentence)
    return RuntimeError(f"{worker} met a mistake in the program, {name[:40]}:\n{sentence}")
