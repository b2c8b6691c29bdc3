"""Selection of the links of a run that are drawn, with their tracks and blockers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...emulator.contracts import NodeId
from ...emulator.network.channels.air import Direction
from ...emulator.network.channels.link_state import LinkState
from ...emulator.network.channels.recorded_blockage import BlockedTimes
from ...emulator.world.scene import Array, Kind, Scene, blockers
from ..links.radio_links import RadioLinks
from ..recording.pictures import save_picture
from ..recording.recorded_site import RecordedSite
from ..recording.world_file import WorldFile
from ..wiring.data import ClientData
from .link_pictures import Blocker, LinkTrack, draw_links
from .link_states import read_link_states

#: Number of links in a picture.
MOST_TRACKS = 3
#: Length in s of a track, around its deepest fade.
SPAN_S = 6.0
#: Instants per second of the line.
LINE_RATE_HZ = 200.0
#: Smallest fade in dB, both ends together, at which a message counts as faded.
FADED_DB = 6.0


class _Streets:
    """Scenes at each client's base station, made again from the world."""

    def __init__(self, world: WorldFile, stations: Sequence[int]) -> None:
        self._site = cache(lambda client: RecordedSite.of(world, stations[client]))

    def scene(self, client: NodeId, time_s: Array) -> Scene:
        """Scene of n frames at instants [n] of the client's recording, in s."""
        return self._site(client).scene(time_s)


def draw_run_links(
    path: Path, radio: RadioLinks, states: Path, data: Sequence[ClientData], world: WorldFile | None, name: str
) -> None:
    """Writes a picture of the links that suffered most from blockers; none if nothing was ever sent.

    Args:
        path: path of the PNG.
        radio: radio links of the finished run.
        states: path of `links.jsonl`; read twice, so that memory does not grow with the messages.
        data: data of every client, by its number.
        world: world of the recordings; None where they were measured.
        name: name of the run.
    """
    streets = None if world is None else _Streets(world, [rows.station_index for rows in data])
    # a server is the node behind the clients, and sees no street
    blocked = [*(rows.blocked for rows in data), None]
    chosen = faded_links(read_link_states(states))
    if chosen:
        seen = _messages(states, chosen)
        tracks = [_track(radio, one, seen[one.ends], blocked, streets) for one in chosen]
        is_shadowed = any(lane for track in tracks for lane in track.blockers)
        title = f"{name}: radio links {'fade as vehicles pass' if is_shadowed else 'that nothing stands in the way of'}"
        save_picture(draw_links(tracks, radio.settings.block_rates(), title), path)


@dataclass(slots=True)
class FadedLink:
    """What the messages of one direction say together.

    Attributes:
        worst: message with the deepest fade, the first of equals.
        n_suffered: faded messages; one that lost packets counts four times, because it shows more.
        span_s: part of the run around the worst message that is drawn.
    """

    worst: LinkState
    n_suffered: int = 0
    span_s: tuple[float, float] = (0.0, 0.0)

    @property
    def ends(self) -> Direction:
        """Sender and receiver."""
        return self.worst.sender, self.worst.receiver

    def see(self, state: LinkState) -> None:
        """Count a further message."""
        self.n_suffered += (_fade_db(state) >= FADED_DB) * (1 + 3 * (state.n_lost_packets > 0))
        if _fade_db(state) > _fade_db(self.worst):
            self.worst = state


def faded_links(states: Iterable[LinkState]) -> list[FadedLink]:
    """Up to `MOST_TRACKS` links, those with most faded or broken messages first, no station twice.

    Where no link was ever faded, the first ones.
    """
    links: dict[Direction, FadedLink] = {}
    first_s, last_s = math.inf, -math.inf
    for state in states:
        links.setdefault((state.sender, state.receiver), FadedLink(state)).see(state)
        first_s, last_s = min(first_s, state.time_s), max(last_s, state.time_s)
    chosen: list[FadedLink] = []
    shown: set[NodeId] = set()
    for link in sorted(links.values(), key=lambda link: -link.n_suffered):
        if len(chosen) < MOST_TRACKS and shown.isdisjoint(link.ends):
            # the deepest fade in the middle, unless the run begins or ends too near
            begin_s = max(first_s, min(link.worst.time_s - SPAN_S / 2.0, last_s - SPAN_S))
            link.span_s = begin_s, min(begin_s + SPAN_S, max(last_s, begin_s + 0.1))
            chosen.append(link)
            shown.update(link.ends)
    return chosen


def _messages(states: Path, chosen: Sequence[FadedLink]) -> dict[Direction, list[LinkState]]:
    """Messages of these links that are drawn."""
    found: dict[Direction, list[LinkState]] = {link.ends: [] for link in chosen}
    spans_s = {link.ends: link.span_s for link in chosen}
    for state in read_link_states(states):
        ends = state.sender, state.receiver
        if ends in found and spans_s[ends][0] <= state.time_s <= spans_s[ends][1]:
            found[ends].append(state)
    return found


def _fade_db(state: LinkState) -> float:
    return state.sender_fade_db + state.receiver_fade_db


def _track(
    radio: RadioLinks,
    link: FadedLink,
    messages: list[LinkState],
    blocked: Sequence[BlockedTimes | None],
    streets: _Streets | None,
) -> LinkTrack:
    worst, ends, (begin_s, end_s) = link.worst, link.ends, link.span_s
    time_s = np.linspace(begin_s, end_s, int((end_s - begin_s) * LINE_RATE_HZ) + 2)
    # a bool as index: the receiver where its fade is the deeper one
    station = ends[worst.receiver_fade_db > worst.sender_fade_db]
    when = blocked[station]
    scene = None
    if streets is not None and when is not None:
        scene = streets.scene(station, when.recorded_s(np.array([worst.time_s])))
    return LinkTrack(
        sender=ends[0],
        receiver=ends[1],
        distance_m=radio.channels[ends].distance_m,
        time_s=time_s,
        snr_db=radio.channels[ends].snr_db(time_s),
        states=messages,
        blockers=(
            _blockers(ends[0], blocked[ends[0]], begin_s, end_s, streets),
            _blockers(ends[1], blocked[ends[1]], begin_s, end_s, streets),
        ),
        moment_s=worst.time_s,
        moment_station=station,
        scene=scene,
    )


def _blockers(
    station: NodeId, when: BlockedTimes | None, begin_s: float, end_s: float, streets: _Streets | None
) -> list[Blocker]:
    """Blockers of a station in order of time, one per unbroken blockage."""
    if when is None:
        return []
    step_s = when.duration_s / len(when.time_s)
    now_s = np.arange(begin_s - step_s, end_s + step_s, step_s)
    # one frame more at either end, so that blockages cut off by the picture keep their kind
    is_blocked = np.array([when(instant) for instant in now_s])
    kinds: list[Kind | None] = [None] * len(now_s)
    if streets is not None and is_blocked.any():
        kinds = _kinds_in_the_way(streets.scene(station, when.recorded_s(now_s)))
    cuts = [0, *(i for i in range(1, len(now_s)) if is_blocked[i] != is_blocked[i - 1]), len(now_s)]
    return [
        Blocker(float(now_s[one]), float(now_s[one]) + (other - one) * step_s, _most_seen(kinds[one:other]))
        for one, other in pairwise(cuts)
        if is_blocked[one]
    ]


def _kinds_in_the_way(scene: Scene) -> list[Kind | None]:
    """[n_frames] kind of the tallest box in the line of sight; None where there is none."""
    blocks = blockers(scene)
    height_m = np.where(blocks, scene.size_m[..., 2], 0.0)
    tallest = height_m.argmax(axis=1)
    return [Kind(int(scene.kind[frame, slot])) if blocks[frame, slot] else None for frame, slot in enumerate(tallest)]


def _most_seen(kinds: Sequence[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    return max(known, key=known.count) if known else None
