"""Messages on their way between the clients of a run, slowed down to the length of a film."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError, NodeId
from ...emulator.network.channels.link_state import LinkState
from ...emulator.regular_file import is_regular, read_regular
from ..report.round_records import Diagnostics
from ..report.run_records import DIAGNOSTICS
from ..running.link_states import read_link_states
from ..running.metric_rows import METRICS, metric_rows
from ..running.stored_run import MAX_METRICS_BYTES

Direction = tuple[NodeId, NodeId]

#: The end of the last message is no part of it.
ALMOST = 1.0 - 1e-9


class Flight(NamedTuple):
    """A message on the air: its ends, when its transmission began and ended, and whether any of it was lost."""

    ends: Direction
    start_s: float
    end_s: float
    lost: bool


class OnAir(NamedTuple):
    """A message at an instant: its ends, the share of its transmission that is over, and whether any of it is lost."""

    ends: Direction
    share: float
    lost: bool


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFilm:
    """Clients of a run, the edges between them, and messages of one stretch of the run.

    Attributes:
        groups: group of every node, by its number.
        loss: sender and receiver -> share of packets, or messages, that were lost in the whole run.
        flights: radio messages of one round, in the order of their starts; none where the run kept none.
    """

    groups: Mapping[NodeId, str]
    loss: Mapping[Direction, float]
    flights: tuple[Flight, ...] = ()

    @property
    def places(self) -> NDArray[np.float64]:
        """[n_nodes, 2] places of the nodes on a circle around the origin, the first at the top, clockwise."""
        angle = 2.0 * np.pi * np.arange(len(self.groups)) / max(1, len(self.groups))
        return np.stack([np.sin(angle), np.cos(angle)], axis=1)

    def instant_s(self, share: float) -> float:
        """Instant of the run at this share of the film, which leaves out the times in which nothing is on the air."""
        busy = self._busy_s
        left_s = min(share, ALMOST) * sum(end_s - start_s for start_s, end_s in busy)
        for start_s, end_s in busy:
            if left_s < end_s - start_s:
                return start_s + left_s
            left_s -= end_s - start_s
        return busy[-1][1] if busy else 0.0

    def on_air(self, share: float) -> list[OnAir]:
        """Messages that are on the air at this share of the film."""
        now_s = self.instant_s(share)
        return [
            OnAir(flight.ends, (now_s - flight.start_s) / max(flight.end_s - flight.start_s, 1e-12), flight.lost)
            for flight in self.flights
            if flight.start_s <= now_s < flight.end_s
        ]

    @property
    def _busy_s(self) -> list[list[float]]:
        """Stretches of time in which anything is on the air: beginning and end of each."""
        busy: list[list[float]] = []
        for flight in self.flights:
            if busy and flight.start_s <= busy[-1][1]:
                busy[-1][1] = max(busy[-1][1], flight.end_s)
            else:
                busy.append([flight.start_s, flight.end_s])
        return busy


def network_film(folder: Path) -> NetworkFilm:
    """Network of a complete run: measured losses of `diagnostics.json`, and the radio messages of `links.jsonl`.

    The messages are those of the first round in which any were sent.

    Args:
        folder: of the run.

    Raises:
        DataError: one of these files is damaged.
    """
    ends_s: dict[int, float] = {}
    groups: dict[NodeId, str] = {}
    with _damage_named(folder / METRICS):
        for row in metric_rows(folder):
            groups[row["client"]] = row["group"]
            ends_s[row["round"]] = max(row["time_s"], ends_s.get(row["round"], 0.0))
    with _damage_named(folder / "links.jsonl") as path:
        flights = _first_round(read_link_states(path), sorted(ends_s.values()))
        _check_nodes((flight.ends for flight in flights), groups)
    with _damage_named(folder / DIAGNOSTICS) as path:
        loss = _loss(path)
        _check_nodes(loss, groups)
    return NetworkFilm(dict(sorted(groups.items())), loss, flights)


@contextmanager
def _damage_named(path: Path) -> Iterator[Path]:
    """Context in which a file is read, so that what a damaged one raises becomes a sentence that names it.

    Raises:
        DataError: it is damaged.
    """
    try:
        yield path
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        why = " ".join(str(error).split())[:240]
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {why}); run the scenario again") from None


def _check_nodes(ends: Iterable[Direction], groups: Mapping[NodeId, str]) -> None:
    """Refuse nodes that have no place in the picture.

    Raises:
        ValueError: naming the first of them.
    """
    if unknown := [node for direction in ends for node in direction if node not in groups]:
        raise ValueError(f"node {unknown[0]} has no row in {METRICS}")


def _first_round(states: Iterable[LinkState], ends_s: list[float]) -> tuple[Flight, ...]:
    """Messages of the round in which the first was sent; the file is read no further."""
    flights: list[Flight] = []
    until_s = 0.0
    for state in states:
        if not flights:
            until_s = next((end_s for end_s in ends_s if end_s > state.time_s), state.time_s + 1.0)
        elif state.time_s >= until_s:
            break
        lost = state.n_lost_packets > 0
        flights.append(Flight((state.sender, state.receiver), state.time_s, state.time_s + state.airtime_s, lost))
    return tuple(sorted(flights, key=lambda flight: flight.start_s))


def _loss(path: Path) -> dict[Direction, float]:
    """Share of what was lost by direction; nothing for a run of before there were diagnostics."""
    if not is_regular(path):
        return {}
    diagnostics = Diagnostics.model_validate_json(read_regular(path, MAX_METRICS_BYTES))
    return {(edge.sender, edge.receiver): edge.loss for edge in diagnostics.edges}
