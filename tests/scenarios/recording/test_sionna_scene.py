"""`world.radio_engine = "sionna"`: what is refused, what decides a recording, and what Sionna RT's paths become.

Stand-ins have the attributes that `sionna.rt.Paths` documents. The last test traces by Sionna RT itself where the extra
`sionna` is installed, and skips elsewhere; docs/bring_your_world.md has figures of longer recordings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.ray_paths.path_layout import MOST_PATHS
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.scenarios.recording import record, recording_cache, sionna_scene
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.recording_cache import cached_recording, recording_key
from sheafedge.scenarios.recording.sionna_scene import checked_sionna, neutral_series
from sheafedge.scenarios.recording.world_file import WorldFile, parse_world
from sheafedge.scenarios.schema.world_section import WorldSection
from sheafedge.scenarios.terminal.cli import main

CARRIER_HZ, SEED = 60e9, 0
#: Amplitudes are stored in single precision; where beams cancel them, the rounding of a strong path shows.
SINGLE_PRECISION = 2e-5
#: Oxygen, the roughness of the ground and double facades, which only one of the two engines has, and noise.
CLEAR_DB = 1.0


def world(**changes: Any) -> WorldSection:
    """Two base stations at a street, three seconds."""
    usual = {"n_sites": 2, "duration_s": 3.0, "sensors": ("rf", "gps"), "radio_engine": "sionna"}
    return WorldSection.model_validate({**usual, **changes})


def own_series(site: RecordedSite, advanced: Callable[[int], None]) -> dict[str, Any]:
    """The emulator's own paths, as Sionna would hand them over."""
    time_s = site.instants(np.arange(site.file.section.n_ticks))[1]
    scene = site.scene(time_s)
    paths = trace_paths(scene, site.channel)
    frame, column = np.nonzero(paths.valid)
    from_broadside, sine = paths.azimuth_rad[frame, column], paths.direction_sine[frame, column]
    level = np.where(np.abs(from_broadside) < 1e-9, 1.0, sine / np.sin(from_broadside))
    advanced(len(time_s))
    return {
        "time_s": time_s,
        "user_m": scene.user_m,
        "offset": np.concatenate([[0], np.cumsum(paths.valid.sum(axis=1))]),
        "gain": paths.gain[frame, column],
        "delay_s": paths.delay_s[frame, column],
        "arrival_zenith_rad": np.arcsin(np.clip(level, -1.0, 1.0)),
        "arrival_azimuth_rad": np.pi / 2.0 - from_broadside,
    }


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ray tracer that finds what the emulator finds, in the place of Sionna RT."""
    monkeypatch.setattr(record, "checked_sionna", lambda: None)
    monkeypatch.setattr(record, "sionna_series", own_series)
    for module in (record, recording_cache):
        monkeypatch.setattr(module, "sionna_version", lambda: "2.2.0")


@pytest.fixture
def without_sionna(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sionna_scene, "version", absent)


# --- the field --------------------------------------------------------------------------------------------------------


def test_a_world_says_its_engine_only_where_it_is_another_than_before() -> None:
    assert "radio_engine" not in WorldFile(world(radio_engine="rays"), SEED).text()
    assert WorldSection().radio_engine == "rays"
    file = WorldFile(world(), SEED)
    assert parse_world(file.text(), "text") == file


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"kind": "sky", "sensors": ()},
            r'"sionna" goes with world.kind = "street" alone, got "sky"; set it so, or set',
        ),
        ({"user": "car"}, r'"sionna" goes with world.user = "kerb" alone, got "car"'),
        ({"link_rate_hz": 20.0}, r"goes with world.link_rate_hz = 0.0 alone, got 20.0"),
        ({"weather": {"rain_mm_per_h": 20.0}}, r"does not trace world.weather; leave the table out, or"),
        ({"trees": {"spacing_m": 8.0}}, r"does not trace world.trees"),
        ({"radio_engine": "wireless_insite"}, r"'rays' or 'sionna'"),
    ],
)
def test_worlds_that_sionna_cannot_trace_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        world(**changes)
    if "radio_engine" not in changes:  # the engine is to blame
        world(**changes, radio_engine="rays")


# --- refusals of the machine ------------------------------------------------------------------------------------------


def test_without_sionna_nothing_is_recorded(
    tmp_path: Path, without_sionna: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["record", "street", "--set", "world.radio_engine=sionna", "--out", str(tmp_path / "out.h5")]
    monkeypatch.setattr(sys, "argv", ["sheafedge", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "pip install 'sheafedge[sionna]'" in " ".join(said.split())
    assert "Traceback" not in said
    with pytest.raises(ConfigError, match="needs sionna-rt, which is not installed"):
        cached_recording(world(), SEED, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("llvm", "complaint"),
    [
        (None, r"cannot load Sionna RT \(.*set DRJIT_LIBLLVM_PATH"),
        ((15, 0, 6), r"found 15\.0\.6; .*DRJIT_LIBLLVM_PATH"),
    ],
)
def test_a_missing_and_an_old_llvm_are_refused(
    llvm: tuple[int, ...] | None, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sionna_scene, "version", lambda _: "2.2.0")
    package = SimpleNamespace(rt=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mitsuba", SimpleNamespace(variant=lambda: "llvm_ad_mono_polarized"))
    found = SimpleNamespace(detail=SimpleNamespace(llvm_version=lambda: llvm))
    monkeypatch.setitem(sys.modules, "drjit", found)
    monkeypatch.setitem(sys.modules, "sionna", package)
    monkeypatch.setitem(sys.modules, "sionna.rt", package.rt if llvm else None)
    with pytest.raises(ConfigError, match=complaint):
        checked_sionna()


# --- what decides a recording -----------------------------------------------------------------------------------------


def test_the_cache_key_has_the_engine_and_its_version(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {recording_key(world(radio_engine="rays"), SEED), recording_key(world(), SEED)}
    assert recording_key(world(), SEED) in keys
    monkeypatch.setattr(recording_cache, "sionna_version", lambda: "2.3.0")
    keys.add(recording_key(world(), SEED))
    assert len(keys) == 3


# --- from paths to a recording ----------------------------------------------------------------------------------------


def test_paths_that_are_traced_while_recording_are_matched_as_those_of_a_file(tmp_path: Path, stand_in: None) -> None:
    before, calls = set(Path(gettempdir()).glob("sheafedge-paths-*")), []
    report = record_world(world(), SEED, tmp_path / "traced.h5", lambda *done: calls.append(done))
    record_world(world(radio_engine="rays"), SEED, tmp_path / "own.h5")
    assert [(one.n_frames, one.n_missing) for one in report.paths] == [(30, 0), (30, 0)]
    assert calls[-1] == (60, 60)
    assert set(Path(gettempdir()).glob("sheafedge-paths-*")) <= before
    with RecordingReader(tmp_path / "own.h5") as own, RecordingReader(tmp_path / "traced.h5") as other:
        assert other.description.scenario.startswith("# paths of sionna-rt 2.2.0\n")
        for mine, theirs in zip(own.base_stations, other.base_stations, strict=True):
            assert_allclose(theirs.read("rf"), mine.read("rf"), rtol=SINGLE_PRECISION)
            for name in set(mine.field_names) - {"rf"}:
                assert_array_equal(theirs.read(name), mine.read(name), err_msg=name)


def test_paths_that_cannot_be_leave_no_recording(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        record, "sionna_series", lambda *both: {**(one := own_series(*both)), "gain": 1e3 * one["gain"]}
    )
    with pytest.raises(DataError, match="gain of a path of frame 0"):
        record_world(world(), SEED, tmp_path / "traced.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_paths_and_sionna_exclude_each_other(tmp_path: Path, stand_in: None) -> None:
    with pytest.raises(ConfigError, match=r"mine.h5 has the paths of a world .*set world.radio_engine=\"rays\""):
        record_world(world(), SEED, tmp_path / "out.h5", paths=tmp_path / "mine.h5")


def found_paths(n_paths: int) -> SimpleNamespace:
    """`sionna.rt.Paths` of one transmitter and one receiver with synthetic arrays, and a slot without a path before."""
    draws = np.random.default_rng(0)

    def slots(*before: int) -> Any:
        return np.concatenate([[-1.0], draws.uniform(0.1, 1.0, n_paths)]).reshape(*before, n_paths + 1)

    valid = np.ones((1, 1, n_paths + 1), dtype=bool)
    valid[..., 0] = False
    bounces = np.zeros((2, 1, 1, n_paths + 1), dtype=np.uint32)
    bounces[0, ..., 1::2] = 1
    bounces[1, ..., 1::4] = 3
    angles = {name: slots(1, 1) for name in ("theta_r", "phi_r", "theta_t", "phi_t", "doppler")}
    gain = slots(1, 1, 1, 1), slots(1, 1, 1, 1)
    return SimpleNamespace(a=gain, tau=1e-7 * slots(1, 1), valid=valid, interactions=bounces, **angles)


@pytest.mark.parametrize("n_paths", [5, MOST_PATHS + 9])
def test_paths_of_sionna_are_neutral_strongest_first_and_with_the_phase_of_their_way(n_paths: int) -> None:
    found = found_paths(n_paths)
    series = neutral_series(found, CARRIER_HZ)
    gain, delay_s = (np.ravel(found.a[0]) + 1j * np.ravel(found.a[1]))[1:], np.ravel(found.tau)[1:]
    order = np.argsort(-np.abs(gain))[:MOST_PATHS]
    assert_allclose(series["gain"], (gain * np.exp(-2j * np.pi * CARRIER_HZ * delay_s))[order], rtol=1e-9)
    assert_array_equal(series["delay_s"], delay_s[order])
    counts = np.where(np.arange(n_paths) % 4 == 0, 2, np.arange(n_paths) % 2 == 0)
    assert_array_equal(series["interactions"], counts[order])
    for ours, theirs in (("arrival_zenith", "theta_r"), ("departure_azimuth", "phi_t")):
        assert_array_equal(series[f"{ours}_rad"], np.ravel(getattr(found, theirs))[1:][order])


def test_an_instant_without_paths_of_sionna_is_empty() -> None:
    nothing = SimpleNamespace(
        a=(np.zeros((1, 1, 1, 1, 0)),) * 2,
        interactions=np.zeros((0, 1, 1, 0)),
        **{name: np.zeros((1, 1, 0)) for name in ("tau", "theta_r", "phi_r", "theta_t", "phi_t", "doppler", "valid")},
    )
    assert all(len(values) == 0 for values in neutral_series(nothing, CARRIER_HZ).values())


# --- Sionna RT itself -------------------------------------------------------------------------------------------------


def test_sionna_finds_the_beam_of_a_clear_street(tmp_path: Path) -> None:
    try:
        checked_sionna()
    except ConfigError as error:
        pytest.skip(str(error))
    section = world(n_sites=1, rate_hz=2.0)
    report = record_world(section, SEED, tmp_path / "sionna.h5")
    record_world(section.model_copy(update={"radio_engine": "rays"}), SEED, tmp_path / "rays.h5")
    assert report.paths[0].wrong_phase_share == 0.0
    with RecordingReader(tmp_path / "rays.h5") as own, RecordingReader(tmp_path / "sionna.h5") as other:
        mine, theirs = own.base_stations[0], other.base_stations[0]
        clear = np.abs(mine.read("los_loss_db")) < 0.5
        assert clear.sum() >= 3
        assert_array_equal(theirs.read("best_beam")[clear], mine.read("best_beam")[clear])
        strongest_w = theirs.read("rf").max(axis=1)[clear], mine.read("rf").max(axis=1)[clear]
    assert np.abs(10.0 * np.log10(strongest_w[0] / strongest_w[1])).max() < CLEAR_DB
