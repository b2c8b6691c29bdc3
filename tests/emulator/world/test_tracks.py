"""Tracks and the columns they stand in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.emulator.world.scene import Kind
from sheafedge.emulator.world.tracks import Slots, Tracks, Way, rectangle, times_within

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


@given(
    places=st.lists(st.tuples(st.floats(-20, 20), st.floats(-20, 20)), min_size=2, max_size=8),
    x_m=st.tuples(st.floats(-9, -1), st.floats(1, 9)),
    y_m=st.tuples(st.floats(-9, -1), st.floats(1, 9)),
)
def test_times_within_a_rectangle_are_those_at_which_the_place_lies_in_it(
    places: list[tuple[float, float]], x_m: tuple[float, float], y_m: tuple[float, float]
) -> None:
    knot_s, knot_m = np.arange(len(places), dtype=float), np.array(places)
    stretches = times_within(knot_s, knot_m, rectangle(x_m, y_m))
    assert all(begin < end for begin, end in stretches)
    assert all(one[1] < other[0] for one, other in pairwise(stretches))
    at_s = np.linspace(0.0, len(places) - 1.0, 301)
    x, y = (np.interp(at_s, knot_s, knot_m[:, axis]) for axis in (0, 1))
    off_m = np.max([x_m[0] - x, x - x_m[1], y_m[0] - y, y - y_m[1]], axis=0)
    within = np.any([(begin <= at_s) & (at_s <= end) for begin, end in stretches] or [np.zeros(301, bool)], axis=0)
    clear = np.abs(off_m) > 1e-6  # on the border either is right
    assert (within == (off_m < 0.0))[clear].all()
