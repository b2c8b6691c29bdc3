"""Trajectories of boxes through a scene.

A trajectory consists of straight pieces at constant speed, so that a position is a closed-form function of time:
there is no state to step, and instants can be evaluated in any order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .scene import Array, Kind

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Way:
    """Trajectory of one box.

    Attributes:
        kind: kind of the box.
        size_m: extents along x, y, z; it stands on the ground.
        knots: (time s, x m, y m) of its center, at least two, times ascending; the box is absent before and after.
    """

    kind: Kind
    size_m: tuple[float, float, float]
    knots: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """M ways as arrays, with room for K knots; shorter ways repeat their last knot.

    Attributes:
        kind: [M] uint8 of `Kind`.
        size_m: [M, 3].
        knot_s: [M, K], knot_m: [M, K, 2] instants and places.
        leg_m_per_s: [M, K - 1, 2] velocity from each knot to the next.
    """

    kind: NDArray[np.uint8]
    size_m: Array
    knot_s: Array
    knot_m: Array
    leg_m_per_s: Array

    @classmethod
    def of(cls, ways: Sequence[Way]) -> Tracks:
        """Ways in the order of their beginning, which is the order of M."""
        ordered = sorted(ways, key=lambda way: way.knots[0])
        n_knots = max((len(way.knots) for way in ordered), default=2)
        padded = [way.knots + way.knots[-1:] * (n_knots - len(way.knots)) for way in ordered]
        knots = np.array(padded, dtype=np.float64).reshape(len(ordered), n_knots, 3)
        step = np.diff(knots, axis=1)
        # Padding repeats the last knot: those legs have no duration, and velocity 0 instead of 0 / 0.
        lasts_s = np.where(step[..., :1] > 0.0, step[..., :1], 1.0)
        return cls(
            kind=np.array([way.kind for way in ordered], dtype=np.uint8),
            size_m=np.array([way.size_m for way in ordered], dtype=np.float64).reshape(len(ordered), 3),
            knot_s=np.ascontiguousarray(knots[..., 0]),
            knot_m=np.ascontiguousarray(knots[..., 1:]),
            leg_m_per_s=step[..., 1:] / lasts_s,
        )

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def begin_s(self) -> Array:
        """[M] first instants, ascending."""
        return self.knot_s[:, 0]

    @property
    def end_s(self) -> Array:
        """[M] last instants."""
        return self.knot_s[:, -1]

    def motion_at(self, track: Index, time_s: Array) -> tuple[Array, Array]:
        """[..., 3] centers and [..., 3] velocities of tracks [...] at instants that broadcast with them."""
        # Inner knots only: outside of its time a track extends its outer legs, and its slot is not present.
        leg = (self.knot_s[track, 1:-1] <= np.asarray(time_s)[..., None]).sum(axis=-1)
        velocity = self.leg_m_per_s[track, leg]
        center = np.empty((*track.shape, 3))
        center[..., :2] = self.knot_m[track, leg] + velocity * (time_s - self.knot_s[track, leg])[..., None]
        center[..., 2] = self.size_m[track, 2] / 2.0
        return center, np.concatenate([velocity, np.zeros((*track.shape, 1))], axis=-1)


#: Points (x, y) with a x + b y <= c, as (a, b, c).
HalfPlane = tuple[float, float, float]


def rectangle(x_m: tuple[float, float], y_m: tuple[float, float]) -> list[HalfPlane]:
    """Lowest and highest x and y -> half-planes whose common part is the rectangle."""
    return [(-1.0, 0.0, -x_m[0]), (1.0, 0.0, x_m[1]), (0.0, -1.0, -y_m[0]), (0.0, 1.0, y_m[1])]


def times_within(knot_s: Array, knot_m: Array, region: Sequence[HalfPlane]) -> list[tuple[float, float]]:
    """Stretches of time that a way spends in a convex region.

    Args:
        knot_s, knot_m: [K], [K, 2] instants, ascending, and places.
        region: half-planes that it is the common part of.

    Returns:
        First and last instant of every stretch, in order; those of no length are left out.
    """
    enters, leaves = np.zeros(len(knot_s) - 1), np.ones(len(knot_s) - 1)
    for a, b, c in region:
        off = knot_m @ np.array([a, b]) - c
        before, after = off[:-1], off[1:]
        share = before / np.where(before == after, 1.0, before - after)
        enters = np.where((before > 0.0) & (after <= 0.0), np.maximum(enters, share), enters)
        leaves = np.where((before <= 0.0) & (after > 0.0), np.minimum(leaves, share), leaves)
        leaves = np.where((before > 0.0) & (after > 0.0), -1.0, leaves)
    stretches: list[tuple[float, float]] = []
    for leg in np.flatnonzero(enters < leaves).tolist():
        begin_s, end_s = float(knot_s[leg]), float(knot_s[leg + 1])
        first_s = begin_s + (end_s - begin_s) * float(enters[leg])
        # exactly the knot where the whole leg is inside: then the next leg goes on from the same instant
        last_s = end_s if leaves[leg] == 1.0 else begin_s + (end_s - begin_s) * float(leaves[leg])
        if stretches and stretches[-1][1] == first_s:
            first_s = stretches.pop()[0]
        if last_s > first_s:
            stretches.append((first_s, last_s))
    return stretches


class Slots:
    """Assignment of tracks to columns of a scene: a track keeps one column from its start to its end.

    The number of columns is the largest number of simultaneous boxes.
    """

    def __init__(self, tracks: Tracks, first_s: float, last_s: float) -> None:
        self._columns: list[tuple[Index, Array, Array]] = []
        members: list[list[int]] = []
        free: list[int] = []
        busy: list[tuple[float, int]] = []
        within = (tracks.end_s > first_s) & (tracks.begin_s <= last_s)
        for track in np.flatnonzero(within).tolist():
            # A box is absent at its very last instant (`tracks_at`), so that its column is free for one that begins
            # then.
            while busy and busy[0][0] <= tracks.begin_s[track]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                heapq.heappush(free, len(members))
                members.append([])
            column = heapq.heappop(free)
            members[column].append(track)
            heapq.heappush(busy, (float(tracks.end_s[track]), column))
        for column_tracks in members:
            index = np.array(column_tracks, dtype=np.int64)
            self._columns.append((index, tracks.begin_s[index], tracks.end_s[index]))

    def __len__(self) -> int:
        return len(self._columns)

    def tracks_at(self, time_s: Array) -> tuple[Index, Mask]:
        """[F, B] track in each column (arbitrary where there is none), and [F, B] whether there is one."""
        track = np.zeros((len(time_s), len(self)), dtype=np.int64)
        present = np.zeros(track.shape, dtype=np.bool_)
        for column, (members, begin_s, end_s) in enumerate(self._columns):
            latest = np.searchsorted(begin_s, time_s, side="right") - 1
            begun = latest >= 0
            latest = np.maximum(latest, 0)
            track[:, column] = members[latest]
            present[:, column] = begun & (time_s < end_s[latest])
        return track, present
