"""Wandering nodes: in their rectangle, at their speed, and in one place at one time whoever asks when."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.random_streams import named_stream
from sheafedge.emulator.world.wandering import Wanderer, distances_m, mirrored

AREA_M, SPEED_M_PER_S, MEMORY_S, STEP_S = (100.0, 40.0), 10.0, 5.0, 0.5
ROUNDING_M = 1e-9
N_INSTANTS = 6000
SPEED_TOLERANCE = 0.06  # of the mean over some 600 memories, whose deviation is a fortieth


def wanderer(seed: int = 0, area_m: tuple[float, float] = AREA_M, speed_m_per_s: float = SPEED_M_PER_S) -> Wanderer:
    return Wanderer(named_stream(seed, "mobility", 0), area_m, speed_m_per_s, MEMORY_S, STEP_S)


def way(one: Wanderer, instants: np.ndarray) -> np.ndarray:
    return np.stack([one.at(float(at_s)) for at_s in instants])


def test_a_node_stays_in_its_rectangle_and_sees_all_of_it() -> None:
    places = way(wanderer(), np.arange(N_INSTANTS) * STEP_S)
    assert (places >= 0.0).all()
    assert (places <= AREA_M).all()
    assert_allclose(places.mean(axis=0), np.array(AREA_M) / 2.0, rtol=0.15)
    assert (places.max(axis=0) > 0.95 * np.array(AREA_M)).all()
    assert (places.min(axis=0) < 0.05 * np.array(AREA_M)).all()


def test_where_a_node_is_does_not_depend_on_what_was_asked_before() -> None:
    instants = np.random.default_rng(1).uniform(0.0, 2000.0, size=100)
    one = wanderer()
    asked = way(one, instants)
    assert (asked == way(one, instants)).all()
    assert (asked == way(wanderer(), instants[::-1])[::-1]).all()
    assert (asked != way(wanderer(seed=1), instants)).all()


def test_nodes_move_at_the_speed_that_was_asked_for() -> None:
    """From one turn to the next, where walls are far: a stretch that meets one is shorter as the crow flies."""

    def speed_m_per_s(one: Wanderer) -> float:
        steps_m = np.linalg.norm(np.diff(way(one, np.arange(N_INSTANTS) * STEP_S), axis=0), axis=1)
        return float(np.sqrt((steps_m**2).mean()) / STEP_S)

    far_m = (5000.0, 5000.0)
    assert speed_m_per_s(wanderer(area_m=far_m)) == pytest.approx(SPEED_M_PER_S, rel=SPEED_TOLERANCE)
    slower = wanderer(area_m=far_m, speed_m_per_s=0.8 * SPEED_M_PER_S)
    assert speed_m_per_s(slower) != pytest.approx(SPEED_M_PER_S, rel=SPEED_TOLERANCE)


def test_nodes_go_straight_ahead_between_two_turns() -> None:
    one = wanderer()
    for at_s in (0.0, 7.0, 300.0):
        before, middle, after = (one.at(at_s + share * STEP_S) for share in (0.0, 0.5, 1.0))
        assert_allclose(middle, (before + after) / 2.0, atol=ROUNDING_M)


def test_a_node_without_speed_stays_where_it_is() -> None:
    one = wanderer(speed_m_per_s=0.0)
    assert (one.at(0.0) == one.at(1e4)).all()


def test_a_way_is_folded_at_every_wall_that_it_crosses() -> None:
    area_m = np.array([10.0, 4.0])
    ways = [[3.0, 1.0], [11.0, 5.0], [-2.0, -1.0], [20.0, 8.0], [23.0, 9.0], [-31.0, 12.0]]
    inside = [[3.0, 1.0], [9.0, 3.0], [2.0, 1.0], [0.0, 0.0], [3.0, 1.0], [9.0, 4.0]]
    assert_allclose([mirrored(np.array(one), area_m) for one in ways], inside, atol=ROUNDING_M)


def test_distances_are_those_of_the_plane() -> None:
    places = [np.array([0.0, 0.0]), np.array([3.0, 4.0]), np.array([0.0, 1.0])]
    assert_allclose(distances_m(places), [[0, 5, 1], [5, 0, np.sqrt(18)], [1, np.sqrt(18), 0]], atol=ROUNDING_M)
