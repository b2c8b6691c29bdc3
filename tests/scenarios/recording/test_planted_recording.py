"""Worlds with trees: told apart from bare ones, recorded, drawn, and refused where there is no street."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.recording.inspection import plot_recording
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import load_world, parse_world

SMALL = {"world.n_sites": 1, "world.duration_s": 20.0, "world.camera.n_pixels": 16}
HEDGE = {
    "world.trees.spacing_m": 2.0,
    "world.trees.crown_width_m": 2.0,
    "world.trees.crown_bottom_m": 0.0,
    "world.trees.crown_top_m": 2.0,
}


def test_bare_worlds_keep_the_bytes_that_they_had_and_planted_ones_are_told_apart() -> None:
    bare, planted = load_world("street", SMALL), load_world("street", {**SMALL, **HEDGE})
    assert "trees" not in bare.text()
    assert "trees" not in RecordedSite.of(bare, 0).geometry()
    assert parse_world(planted.text(), "text") == planted
    assert RecordedSite.of(planted, 0).geometry()["trees"]["spacing_m"] == 2.0


def test_leaves_weaken_the_sweeps_of_the_same_receiver_and_hide_the_far_side(tmp_path: Path) -> None:
    sweeps, echoes, blocked = [], [], []
    for name, edits in (("bare", {}), ("planted", HEDGE)):
        file = load_world("street", {**SMALL, **edits})
        record_world(file.section, file.seed, path := tmp_path / f"{name}.h5")
        with h5py.File(path) as recording:
            sweeps.append(recording["bs00/rf"][:])
            echoes.append(recording["bs00/lidar"][..., 0])
            blocked.append(recording["bs00/blocked_geometric"][:])
    clear = ~blocked[0]
    loss_db = 10.0 * np.log10(sweeps[0][clear].max(axis=1) / sweeps[1][clear].max(axis=1))
    assert 4.0 < np.median(loss_db) < 12.0  # 2 m and more of leaves at 4 dB
    assert np.array_equal(*blocked)  # leaves are no blockage
    assert echoes[1].mean() < echoes[0].mean()
    (picture,) = plot_recording(tmp_path / "planted.h5", tmp_path / "pictures")
    assert picture.stat().st_size > 10_000


def test_trees_stand_along_streets_only() -> None:
    with pytest.raises(ConfigError, match=r"world.trees stand along streets, and world.kind is 'sky'"):
        load_world("sky", {"world.trees.spacing_m": 5.0})
