"""Trees along a street: where they stand, and what the sensors see of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from doubles.radio_scenes import street
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.camera import CameraSettings, render
from sheafedge.emulator.sensors.lidar import LidarSettings, echoes
from sheafedge.emulator.world.planting import planted
from sheafedge.emulator.world.scene import Kind, Scene, blockers
from sheafedge.emulator.world.trees import NO_TREES, Trees


def row_of(trees: Trees) -> Scene:
    return planted(street([(Kind.CAR, 3, 5)]), trees, 8.0, 1.0, 20.0)


def test_they_stand_in_step_half_a_step_beside_the_user() -> None:
    scene = row_of(Trees(spacing_m=6.0, setback_m=1.5))
    for kind, height_m in ((Kind.CROWN, 4.0), (Kind.TRUNK, 2.0)):
        found = scene.kind[0] == kind
        np.testing.assert_allclose(scene.center_m[0, found, 0], [-14.0, -8.0, -2.0, 4.0, 10.0, 16.0])
        np.testing.assert_allclose(scene.center_m[0, found, 1], 9.5)
        np.testing.assert_allclose(scene.size_m[0, found, 2], height_m)
    assert scene.kind[0, 0] == Kind.CAR
    assert scene.present.all()
    assert not scene.velocity_m_per_s.any()
    assert np.abs(scene.center_m[..., 0]).max() < 20.0


def test_no_trees_change_nothing() -> None:
    bare = street([(Kind.CAR, 3, 5)])
    assert planted(bare, NO_TREES, 8.0, 1.0, 20.0) is bare


def test_leaves_do_not_block_and_trunks_do() -> None:
    hedge = row_of(Trees(spacing_m=1.0, crown_width_m=1.0, crown_bottom_m=0.0))
    assert not blockers(hedge).any()
    trunks = row_of(Trees(spacing_m=1.0, trunk_width_m=1.0))
    assert trunks.kind[blockers(trunks)].tolist() == [Kind.TRUNK] * int(blockers(trunks).sum()) != []


def test_the_lidar_meets_trunks_below_the_crowns_and_a_hedge_all_along() -> None:
    settings = LidarSettings(pole_radius_m=0.0, max_range_m=40.0)
    ahead = np.abs(settings.angles_rad) < np.radians(60.0)
    bare, trees, hedge = (
        echoes(scene, settings)[0][0, ahead] < 40.0
        for scene in (
            row_of(NO_TREES),
            row_of(Trees(spacing_m=6.0)),
            row_of(Trees(spacing_m=2.0, crown_width_m=2.0, crown_bottom_m=0.0)),
        )
    )
    assert bare.sum() < trees.sum() < hedge.sum() == ahead.sum()


def test_the_camera_shows_green_crowns() -> None:
    settings = CameraSettings(noise_sigma=0.0, exposure_drift=0.0)
    images = [
        render(row_of(trees), settings, np.random.default_rng(0))[0].astype(int)
        for trees in (NO_TREES, Trees(spacing_m=6.0))
    ]
    changed = (images[0] != images[1]).any(axis=-1)
    crowns = changed[: settings.n_pixels // 2]
    color = images[1][: settings.n_pixels // 2][crowns]
    assert crowns.mean() > 0.1
    greenest = color.argmax(axis=-1) == 1  # not the sky between, nor trunks
    assert greenest.mean() > 0.8


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"spacing_m": 0.5}, r"trees.spacing_m must be 0, for no trees, or at least 1, got 0.5"),
        ({"crown_bottom_m": 6.0}, r"trees.crown_bottom_m must be below trees.crown_top_m, got 6.0 and 6.0"),
        ({"db_per_m": -1.0}, r"trees.db_per_m must lie in \[0, 50\], got -1.0"),
    ],
)
def test_impossible_trees_are_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Trees(**given)
