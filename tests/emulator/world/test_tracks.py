"""Tracks and the columns they stand in."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.emulator.world.scene import Kind
from sheafedge.emulator.world.tracks import Slots, Tracks, Way

SIZE_M = (0.4, 0.4, 1.7)
LAST_S = 50.0
ROUNDING_M = 1e-9
#: Begin and duration of ways.
stays = st.lists(st.tuples(st.integers(-20, 60), st.integers(1, 30)), max_size=25)


def way(begin_s: float, end_s: float) -> Way:
    return Way(Kind.PEDESTRIAN, SIZE_M, ((begin_s, 0.0, 0.0), (end_s, 1.0, 0.0)))


def test_a_box_follows_its_knots_and_stands_on_the_ground() -> None:
    turning = Way(Kind.PEDESTRIAN, SIZE_M, ((0.0, 0.0, 1.0), (2.0, 4.0, 1.0), (5.0, 4.0, 1.0), (6.0, 4.0, 3.0)))
    tracks = Tracks.of([turning, way(1.0, 2.0)])
    time_s = np.array([0.0, 1.0, 2.0, 3.0, 5.5, 6.0])
    center, velocity = tracks.motion_at(np.zeros(6, dtype=np.int64), time_s)
    expected = [(0, 1), (2, 1), (4, 1), (4, 1), (4, 2), (4, 3)]
    assert_allclose(center[:, :2], expected, atol=ROUNDING_M)
    assert_allclose(center[:, 2], SIZE_M[2] / 2)
    assert_allclose(velocity[:, :2], [(2, 0), (2, 0), (0, 0), (0, 0), (0, 2), (0, 2)], atol=ROUNDING_M)


@given(stays=stays)
def test_every_track_keeps_one_column_and_no_column_is_spare(stays: list[tuple[int, int]]) -> None:
    tracks = Tracks.of([way(begin, begin + lasts) for begin, lasts in stays])
    slots = Slots(tracks, 0.0, LAST_S)
    time_s = np.arange(0.0, LAST_S + 0.5, 0.5)
    track, present = slots.tracks_at(time_s)
    there = (tracks.begin_s <= time_s[:, None]) & (time_s[:, None] < tracks.end_s)
    columns: dict[int, set[int]] = {}
    for frame in range(len(time_s)):
        shown = track[frame][present[frame]].tolist()
        assert sorted(shown) == np.flatnonzero(there[frame]).tolist()
        for column, number in enumerate(track[frame].tolist()):
            if present[frame, column]:
                columns.setdefault(number, set()).add(column)
    assert all(len(used) == 1 for used in columns.values())
    assert len(slots) == there.sum(axis=1).max(initial=0)


def test_a_street_without_anybody_has_no_columns() -> None:
    tracks = Tracks.of([])
    track, present = Slots(tracks, 0.0, LAST_S).tracks_at(np.arange(3.0))
    center, velocity = tracks.motion_at(track, np.arange(3.0)[:, None])
    assert present.shape == (3, 0)
    assert center.shape == velocity.shape == (3, 0, 3)
