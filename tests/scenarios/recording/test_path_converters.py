"""The converter of `examples/` gives the neutral series of what DeepMIMO calls the same paths.

The package is not needed: a stand-in has the attributes that it documents.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.scenarios.recording.own_paths import write_paths
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import WorldFile
from sheafedge.scenarios.schema.world_section import WorldSection

pytestmark = pytest.mark.checkout

CARRIER_HZ, N_FRAMES = 60e9, 12
ROOT = Path(__file__).resolve().parents[3]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def site() -> RecordedSite:
    # Ray tracers do not turn the phase of a direct path by diffraction, and model B does not either.
    section = WorldSection.model_validate(
        {"n_sites": 1, "duration_s": N_FRAMES / 10, "sensors": ("rf",), "blockage": "3gpp_b"}
    )
    return RecordedSite.of(WorldFile(section, 0), 0)


def neutral() -> dict[str, Any]:
    """The emulator's own paths, with every series of the layout."""
    trace_world = example("trace_world")
    series: dict[str, Any] = trace_world.series(site())
    n_paths, draws = len(series["gain"]), np.random.default_rng(0)
    first = np.zeros(n_paths, dtype=bool)
    first[series["offset"][:-1]] = True
    return series | {
        "departure_zenith_rad": draws.uniform(0, np.pi, n_paths),
        "departure_azimuth_rad": draws.uniform(-np.pi, np.pi, n_paths),
        "doppler_hz": draws.normal(size=n_paths),
        "interactions": np.where(first, 0, 1),
    }


def without_way(series: dict[str, Any]) -> Any:
    """Amplitudes without the phase of the way, as some ray tracers have them."""
    return series["gain"] * np.exp(2j * np.pi * CARRIER_HZ * series["delay_s"])


def test_a_world_that_was_traced_is_imported(tmp_path: Path) -> None:
    one = site()
    paths = write_paths(tmp_path / "p.h5", CARRIER_HZ, [neutral()])
    report = record_world(one.file.section, 0, tmp_path / "r.h5", paths=paths)
    assert report.paths[0].n_frames == N_FRAMES
    assert report.paths[0].wrong_phase_share == 0.0


def deepmimo_dataset(series: dict[str, Any], gain: Any) -> dict[str, Any]:
    """A `deepmimo.Dataset` whose receivers are the user's places; the base station stands in the middle of a map."""
    counts = np.diff(series["offset"])
    frame = np.repeat(np.arange(N_FRAMES), counts)
    column = np.arange(len(frame)) - series["offset"][frame]

    def padded(values: Any) -> Any:
        room = np.full((N_FRAMES, counts.max() + 2), np.nan)
        room[frame, column] = values
        return room

    return {
        "power": padded(20.0 * np.log10(np.abs(gain))),
        "phase": padded(np.degrees(np.angle(gain))),
        "delay": padded(series["delay_s"]),
        "aod_el": padded(np.degrees(series["arrival_zenith_rad"])),
        "aod_az": padded(np.degrees(series["arrival_azimuth_rad"])),
        "aoa_el": padded(np.degrees(series["departure_zenith_rad"])),
        "aoa_az": padded(np.degrees(series["departure_azimuth_rad"])),
        "inter": padded(series["interactions"]),
        "rx_pos": series["user_m"] + [300.0, -40.0, 0.0],
        "tx_pos": np.array([[300.0, -40.0, 1.1]]),
    }


@pytest.mark.parametrize("with_carrier_phase", [False, True])
def test_paths_of_deepmimo_are_the_neutral_ones(with_carrier_phase: bool) -> None:
    series = neutral()
    gain = without_way(series) if with_carrier_phase else series["gain"]
    found = example("deepmimo_paths").neutral(deepmimo_dataset(series, gain), CARRIER_HZ, 0.1, with_carrier_phase)
    assert_array_equal(found["offset"], series["offset"])
    for name, values in found.items():
        assert_allclose(values, series[name], rtol=1e-7, atol=1e-12, err_msg=name)
