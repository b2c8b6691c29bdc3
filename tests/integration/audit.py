"""What an eavesdropper on all links would hear, and whether a secret is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.contracts import InFlight, Message
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport

RUN_LENGTH = 8
"""So many equal values in a row, in float32, are no coincidence."""

Frames = list[tuple[Message, bytes, NDArray[Any]]]  # as sent, header frame, numbers in the payload frame


class RecordingTransport(MemoryTransport):
    """Keeps a copy of every frame that is submitted."""

    def __init__(self, wire: Wire, seen: Frames) -> None:
        super().__init__(wire)
        self._seen = seen

    def submit(self, messages: Sequence[Message]) -> list[InFlight]:
        in_flights = super().submit(messages)
        for message, in_flight in zip(messages, in_flights, strict=True):
            frames = in_flight.frames
            assert in_flight.size_bytes == len(frames.header) + frames.payload.nbytes
            numbers = np.frombuffer(bytes(frames.payload), message.payload.dtype)
            self._seen.append((message, bytes(frames.header), numbers))
        return in_flights


def runs(values: NDArray[Any]) -> set[bytes]:
    """All runs of `RUN_LENGTH` successive values, as float32; constant runs, such as zeros, tell nothing."""
    single = np.ascontiguousarray(values, dtype=np.float32).ravel()
    if len(single) < RUN_LENGTH:
        return set()
    pieces = np.lib.stride_tricks.sliding_window_view(single, RUN_LENGTH)
    content = pieces[np.ptp(pieces, axis=1) > 0.0].tobytes()
    n_bytes = RUN_LENGTH * single.itemsize
    return {content[at : at + n_bytes] for at in range(0, len(content), n_bytes)}


def leaks(secrets: Mapping[str, set[bytes]], frames: Frames) -> set[tuple[str, str]]:
    """(secret, kind of message that holds a run of it)."""
    return {
        (name, str(message.kind))
        for message, _, numbers in frames
        for carried in (runs(numbers),)
        for name, known in secrets.items()
        if known & carried
    }
