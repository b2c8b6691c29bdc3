"""Messages on their way between the clients of a run, slowed down to the length of a film."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import NodeId
from ...emulator.network.channels.link_state import LinkState
from ..running.link_states import read_link_states
from ..running.metric_rows import metric_rows

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
        loss: sender and receiver -> share of packets that were lost in the whole run.
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
    """
    ends_s: dict[int, float] = {}
    groups: dict[NodeId, str] = {}
    for row in metric_rows(folder):
        groups[row["client"]] = row["group"]
        ends_s[row["round"]] = max(row["time_s"], ends_s.get(row["round"], 0.0))
    flights = _first_round(read_link_states(folder / "links.jsonl"), sorted(ends_s.values()))
    return NetworkFilm(dict(sorted(groups.items())), _loss(folder / "diagnostics.json"), flights)


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
    """Share of lost packets by direction; nothing for a run of before there were diagnostics."""
    if not path.is_file():
        return {}
    edges: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")).get("edges", [])
    return {
        (edge["sender"], edge["receiver"]): edge["lost_packets"] / edge["packets"] if edge["packets"] else 0.0
        for edge in edges
    }
