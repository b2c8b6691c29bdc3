"""A sensor on request: recordings with a radar hold what they held without it, and those without say nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import blockage_windows
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.recording.inspection import plot_recording
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.world_file import WorldFile, parse_world
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.schema.world_section import WorldSection

USUAL = {"street": ["lidar", "camera", "rf"], "sky": ["camera", "rf", "gps"]}
#: What says which sensors there are; all other attributes and numbers stay.
OF_SENSORS = {"scenario", "modalities", "geometry"}


def world(kind: str, **changes: Any) -> WorldSection:
    return WorldSection.model_validate({"kind": kind, "n_sites": 1, "duration_s": 30.0, **changes})


@pytest.mark.parametrize("kind", USUAL)
def test_a_radar_moves_no_other_sensor(kind: str, tmp_path: Path) -> None:
    record_world(world(kind), 3, tmp_path / "plain.h5")
    record_world(world(kind, sensors=[*USUAL[kind], "radar"]), 3, tmp_path / "radar.h5")
    with h5py.File(tmp_path / "plain.h5") as plain, h5py.File(tmp_path / "radar.h5") as other:
        names: list[str] = []
        plain.visit(names.append)
        assert set(other["bs00"]) == {*plain["bs00"], "radar"}
        for name in ["/", *names]:
            assert set(plain[name].attrs) == set(other[name].attrs)
            for attribute in set(plain[name].attrs) - OF_SENSORS:
                assert_array_equal(plain[name].attrs[attribute], other[name].attrs[attribute])
            if isinstance(plain[name], h5py.Dataset):
                assert plain[name][()].tobytes() == other[name][()].tobytes()
        assert other["bs00/radar"].dtype == np.uint8
        if kind == "street":  # drones keep farther away than the map reaches
            assert other["bs00/radar"][()].max() > 20, "something moves in the beam"


@pytest.mark.parametrize("section", [{"kind": "street"}, {"kind": "sky"}, {"kind": "street", "user": "car"}], ids=str)
def test_a_world_without_a_radar_says_nothing_of_it(section: dict[str, Any]) -> None:
    plain = WorldSection.model_validate(section)
    assert "radar" not in plain.recorded
    assert "radar" in plain.recordable
    assert "radar" not in WorldFile(plain, 0).text()
    named = WorldSection.model_validate({**section, "sensors": ["rf", "radar"], "radar": {"n_ranges": 64}})
    text = WorldFile(named, 0).text()
    assert parse_world(text, "here").section == named
    assert "n_ranges = 64" in text


def test_radar_maps_warn_in_windows_beside_other_sensors_and_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "radar.h5"
    record_world(world("street", sensors=["lidar", "radar"], radar={"n_ranges": 48, "n_angles": 16}), 3, path)
    with RecordingReader(path) as reader:
        station = reader.base_stations[0]
        assert station.geometry["radar"]["n_ranges"] == 48
        sensed = SensedFrames.of(station, ("lidar", "radar"))
        windows = blockage_windows(sensed, ("lidar", "radar"), 4, 2)
        maps = windows.inputs(np.array([7]))["radar"]
        assert maps.shape == (1, 4, 48, 16)
        assert maps.dtype == np.float32
        stored = station.read("radar")[windows.end[7] - 3 : windows.end[7] + 1]
        assert_array_equal(maps[0], stored)
    (picture,) = plot_recording(path, tmp_path / "pictures")
    assert picture.stat().st_size > 10_000


def test_a_group_may_have_a_radar_where_the_world_names_no_sensors() -> None:
    groups = [{"name": "all", "modalities": ["lidar", "radar"], "share": 1.0}]
    scenario = load_scenario("blockage").edited({"clients.groups": groups})
    assert scenario.recorded_world.recorded == ("lidar", "radar")
    with pytest.raises(ConfigError, match=r"'radar', which this world does not record .*set world\.sensors"):
        scenario.edited({"world.sensors": ["lidar", "camera"]})
    with pytest.raises(ConfigError, match="cannot use"):
        load_scenario("drone_beam").edited({"clients.groups": groups})
