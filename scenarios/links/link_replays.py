"""Recorded properties of links: trace files, and their replay in one direction of an edge."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...datasets.traces.link_traces import (
    DelayTrace,
    RateTrace,
    ReceptionTraces,
    read_cicv5g,
    read_gnettrack,
    read_mahimahi,
    read_pensieve,
    read_receptions,
)
from ...emulator.contracts import DataError
from ...emulator.network.channels.packet_channel import Latency, Pace
from ...emulator.network.channels.traces import RecordedDelay, RecordedLoss, RecordedOpportunities, RecordedRate
from ...emulator.network.loss import LossProcess
from ..schema.link_numbers import TraceSection

#: Format and direction -> reader; only logs of both directions have one.
_READERS: dict[tuple[str, str], Callable[[Path], Any]] = {
    ("mahimahi", ""): read_mahimahi,
    ("pensieve", ""): read_pensieve,
    ("gnettrack", "downlink"): partial(read_gnettrack, direction="downlink"),
    ("gnettrack", "uplink"): partial(read_gnettrack, direction="uplink"),
    ("cicv5g", ""): read_cicv5g,
    ("reception", ""): read_receptions,
}


class Replay(NamedTuple):
    """Recorded properties of a link; None: the trace does not have this one.

    Attributes:
        pace: rate at which it sends.
        latency: delay of messages beyond fixed delays.
        loss: losses of its transmissions.
    """

    pace: Pace | None = None
    latency: Latency | None = None
    loss: LossProcess | None = None


class TraceFiles:
    """Trace files, each read once."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str, str], Any] = {}

    def replay(self, section: TraceSection, stretch_to_s: float | None, draws: np.random.Generator) -> Replay:
        """Replay of one direction of an edge.

        Args:
            section: section with the files and the rules of replay.
            stretch_to_s: simulated duration of one replay in s; None: as recorded.
            draws: random stream of the direction; draws its file, its row and its starting point.

        Raises:
            DataError: a file that cannot be read.
        """
        file = section.files[int(draws.integers(len(section.files)))]
        offset = float(draws.random()) if section.random_start else 0.0
        trace = self._trace(section, file)
        if isinstance(trace, ReceptionTraces):
            return Replay(loss=_losses(Path(file), trace, draws, offset))
        if isinstance(trace, DelayTrace):
            # traces of delays hold round trips; links need one direction
            one_way_s = trace.round_trip_s * section.one_way_share
            return Replay(latency=RecordedDelay(trace.time_s, one_way_s, stretch_to_s, offset))
        if isinstance(trace, RateTrace):
            return Replay(pace=RecordedRate(*trace, stretch_to_s, offset))
        return Replay(pace=RecordedOpportunities(trace, stretch_to_s, offset))

    def _trace(
        self, section: TraceSection, file: str
    ) -> NDArray[np.float64] | RateTrace | DelayTrace | ReceptionTraces:
        kind = (section.format, section.direction if section.format == "gnettrack" else "")
        if (*kind, file) not in self._read:
            self._read[*kind, file] = _READERS[kind](Path(file))
        trace: NDArray[np.float64] | RateTrace | DelayTrace | ReceptionTraces = self._read[*kind, file]
        return trace


def _losses(file: Path, traces: ReceptionTraces, draws: np.random.Generator, offset: float) -> RecordedLoss:
    """Losses of one of the recorded links on which at least one packet arrived."""
    alive = np.flatnonzero(traces.received.any(axis=1))
    if not alive.size:
        raise DataError(f"{file}: received is false in every row; a link needs one on which a packet arrived")
    received = traces.received[alive[int(draws.integers(alive.size))]]
    return RecordedLoss(received, first=int(offset * len(received)))
