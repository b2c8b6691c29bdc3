"""Paths through leaves: loss by depth, on every piece of a path, and never more than the most."""

from __future__ import annotations

import numpy as np
import pytest
from doubles.radio_scenes import WALLS, street
from sheafedge.emulator.radio.channel import ChannelSettings, trace_paths
from sheafedge.emulator.radio.foliage import foliage_db
from sheafedge.emulator.radio.images import PathKind
from sheafedge.emulator.world.planting import planted
from sheafedge.emulator.world.trees import Trees

HEDGE = Trees(spacing_m=2.0, crown_width_m=2.0, crown_bottom_m=0.0, crown_top_m=9.0, db_per_m=4.0, most_db=30.0)
SETTINGS = ChannelSettings()


def test_the_first_metre_costs_the_rate_and_no_depth_more_than_the_most() -> None:
    np.testing.assert_allclose(foliage_db(np.array([0.0, 1e-3, 1e4]), HEDGE), [0.0, 4e-3, 30.0], rtol=1e-3)
    depth_m = np.array([1.0, 5.0, 20.0])
    np.testing.assert_allclose(foliage_db(depth_m, HEDGE), 30.0 * (1.0 - np.exp(-depth_m * 4.0 / 30.0)))
    assert foliage_db(depth_m, Trees(spacing_m=5.0, most_db=0.0)).tolist() == [0.0, 0.0, 0.0]


def test_every_piece_of_a_path_loses_by_the_leaves_that_it_runs_through() -> None:
    """The hedge is 2 m thick and 12 m from the near wall: the direct path crosses it once, the far facade's thrice."""
    bare = street(facades=WALLS, station=(0, 0, 1.2), user=(3, 14, 1.2))
    behind = planted(bare, HEDGE, 12.0 - HEDGE.setback_m, 0.0, 80.0)
    clear, leafy = trace_paths(bare, SETTINGS), trace_paths(behind, SETTINGS)
    both = np.where(clear.valid, np.abs([clear.gain, leafy.gain]), 1.0)[:, 0]
    loss_db = 20.0 * np.log10(both[0] / both[1])
    direct = 2.0 / 14.0 * np.hypot(14.0, 3.0)
    assert loss_db[clear.kind == PathKind.LOS] == pytest.approx(foliage_db(np.array([direct]), HEDGE))
    # behind the far wall at 18 m the user's image stands at 22 m; the way back from the wall ends before the hedge
    facade = 2.0 / 22.0 * np.hypot(22.0, 3.0)
    far = np.flatnonzero((clear.kind == PathKind.FACADE) & clear.valid[0])
    lengths_m = clear.delay_s[0, far] * 299_792_458.0
    over_far_wall = far[np.isclose(lengths_m, np.hypot(22.0, 3.0))]
    assert loss_db[over_far_wall] == pytest.approx(foliage_db(np.array([facade]), HEDGE))


def test_phases_delays_and_labels_are_those_without_leaves() -> None:
    bare = street(facades=WALLS)
    clear, leafy = (trace_paths(one, SETTINGS) for one in (bare, planted(bare, HEDGE, 8.0, 0.0, 80.0)))
    there = clear.valid
    np.testing.assert_allclose(np.angle(leafy.gain[there] / clear.gain[there]), 0.0, atol=1e-9)
    np.testing.assert_array_equal(leafy.delay_s, clear.delay_s)
    np.testing.assert_array_equal(leafy.los_blockage_db, clear.los_blockage_db)
