"""Worlds in rain and fog: recorded, told apart from clear ones, and with the receivers that they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from sheafedge.emulator.contracts import ScenarioError
from sheafedge.emulator.sensors.backdrop import HAZE
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import WorldFile, load_world, parse_world

SMALL = {
    "world.n_sites": 1,
    "world.duration_s": 20.0,
    "world.camera.n_pixels": 16,
    "world.camera.noise_sigma": 0.0,
    "world.camera.exposure_drift": 0.0,
}
FOG = {"world.weather.fog_visibility_m": 40.0}


def world(**edits: Any) -> WorldFile:
    return load_world("street", {**SMALL, **edits})


def test_clear_worlds_keep_the_bytes_that_they_had_and_others_are_told_apart() -> None:
    clear, foggy = world(), world(**FOG)
    assert "weather" not in clear.text()
    assert "fog_visibility_m = 40.0" in foggy.text()
    assert parse_world(foggy.text(), "text") == foggy
    assert "weather" not in RecordedSite.of(clear, 0).geometry()
    assert RecordedSite.of(foggy, 0).geometry()["weather"] == {"rain_mm_per_h": 0.0, "fog_visibility_m": 40.0}


def test_noise_is_that_of_the_receiver_in_any_weather() -> None:
    wet = world(**{"world.weather.rain_mm_per_h": 100.0})
    assert RecordedSite.of(wet, 0).noise == RecordedSite.of(world(), 0).noise


def test_all_sensors_of_a_recording_suffer(tmp_path: Path) -> None:
    recordings = []
    for number, edits in enumerate(({}, {**FOG, "world.weather.rain_mm_per_h": 100.0})):
        file = world(**edits)
        record_world(file.section, file.seed, path := tmp_path / f"{number}.h5")
        with h5py.File(path) as recording:
            (site,) = (recording[name] for name in recording if isinstance(recording[name], h5py.Group))
            recordings.append({name: site[name][:] for name in ("lidar", "camera", "rf")})
    clear, foggy = recordings
    echoes = [(one["lidar"][..., 0] < one["lidar"][..., 0].max()).mean() for one in recordings]
    assert 0.0 < echoes[1] < 0.8 * echoes[0]
    to_air = [np.abs(one["camera"] - 255.0 * np.array(HAZE)).mean() for one in recordings]
    assert 0.0 < to_air[1] < 0.7 * to_air[0]
    loss_db = 10.0 * np.log10(clear["rf"].max(axis=1) / foggy["rf"].max(axis=1))
    assert 0.1 < np.median(loss_db) < 2.0  # tens of metres


def test_impossible_weather_is_one_sentence() -> None:
    with pytest.raises(ScenarioError, match=r"world.weather.rain_mm_per_h must lie in \[0, 250\], got -3"):
        world(**{"world.weather.rain_mm_per_h": -3.0})
