"""Samples from a recording: what they hold, what they must not know, and which frames two of them may share."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.baselines import blockage_majority, blockage_persistence, persistence_predictions
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.recordings.recording_writer import RecordingWriter
from sheafedge.datasets.scores import BlockageScores, score_blockage
from sheafedge.datasets.windows.samples import Samples
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import BeamWindows, BlockageWindows, beam_windows, blockage_windows
from sheafedge.emulator.contracts import ConfigError, DataError

N_RAYS, SIZE, N_BEAMS = 6, 4, 8
SHAPES: dict[str, tuple[int, ...]] = {"lidar": (N_RAYS, 2), "camera": (SIZE, SIZE, 3), "rf": (N_BEAMS,), "gps": (4,)}
GPS_COLUMNS = ("latitude_deg", "longitude_deg", "distance_m", "height_m")
FLOAT32_DB = 1e-5  # powers of 0.1 to 1 are at most 10 dB below 1; float32 keeps 7 digits
LUMA = 1.0  # of 255: weights in 1/256 cost up to 0.45, rounding 0.5
WINDOWED = ("lidar", "camera", "rf")
SEEN = ("gps", "camera")


def fields_of(frames: dict[str, np.ndarray]) -> tuple[Any, ...]:
    return tuple(
        standard_field(name, rows.shape[1:], **({"columns": GPS_COLUMNS} if name == "gps" else {}))
        for name, rows in frames.items()
    )


def recorded(path: Path, frames: dict[str, np.ndarray], geometry: dict[str, Any] | None = None) -> RecordedStation:
    """Writes and reopens one base station."""
    station = StationDescription("corner", 10.0, fields_of(frames), geometry or {})
    with RecordingWriter(path, RecordingDescription("", 1, "tests", (station,))) as writer:
        writer.append(0, frames)
    return RecordingReader(path).base_stations[0]


def sensed_for_blockage(
    path: Path, frames: dict[str, np.ndarray], modalities: Sequence[Any] = WINDOWED
) -> SensedFrames:
    return SensedFrames.of(recorded(path, frames), modalities)


def sensed_for_beams(path: Path, frames: dict[str, np.ndarray], modalities: Sequence[Any] = SEEN) -> SensedFrames:
    return SensedFrames.of(recorded(path, frames), modalities, color=True, keep_powers=True)


def frames_of(lengths: Sequence[int], seed: int = 0, blocked_share: float = 0.2) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(seed)
    n = sum(lengths)
    return {
        "time_s": np.arange(n) / 10.0,
        "sequence": np.repeat(np.arange(len(lengths)) * 3 + 1, lengths),
        "lidar": draws.uniform(0, 6, (n, N_RAYS, 2)).astype(np.float32),
        "camera": draws.integers(0, 256, (n, SIZE, SIZE, 3)).astype(np.uint8),
        "rf": draws.uniform(0.1, 1, (n, N_BEAMS)).astype(np.float32),
        "gps": draws.normal([33.42, -111.93, 60, 20], [1e-4, 1e-4, 9, 3], (n, 4)),
        "blocked_geometric": draws.random(n) < blocked_share,
        "blocked_power": draws.random(n) < blocked_share,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corner.h5"


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, np.ndarray], int, int]:
    length, horizon = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    lengths = draw(
        st.lists(st.integers(1, 20), min_size=1, max_size=5).filter(lambda all_: max(all_) >= length + horizon)
    )
    return frames_of(lengths, draw(st.integers(0, 99))), length, horizon


any_case = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@any_case
@given(case=cases())
def test_every_window_is_what_a_plain_loop_would_cut(
    tmp_path: Path, case: tuple[dict[str, np.ndarray], int, int]
) -> None:
    frames, length, horizon = case
    windows = blockage_windows(sensed_for_blockage(tmp_path / "any.h5", frames), WINDOWED, length, horizon)
    owner, blocked = frames["sequence"], frames["blocked_geometric"]
    ends = [
        t
        for t in range(len(owner))
        if t + 1 >= length and t + horizon < len(owner) and owner[t - length + 1] == owner[t + horizon]
    ]
    assert_array_equal(windows.end, ends)
    inputs = windows.inputs()
    grey = frames["camera"] @ [0.299, 0.587, 0.114]
    for i, t in enumerate(ends):
        past = slice(t - length + 1, t + 1)
        assert_array_equal(inputs["lidar"][i], np.moveaxis(frames["lidar"][past], 2, 0))
        assert_allclose(inputs["camera"][i], grey[past], atol=LUMA)
        assert_allclose(inputs["rf"][i], 10 * np.log10(frames["rf"][past]), atol=FLOAT32_DB)
        assert windows.label[i] == any(blocked[t + 1 : t + horizon + 1])  # (23)
        assert windows.blocked_now[i] == blocked[t]
        ahead = [step for step in range(1, horizon + 1) if blocked[t + step]]
        assert windows.frames_to_blockage[i] == (ahead[0] if ahead else 0)
        assert windows.sequence[i] == owner[t]


@any_case
@given(case=cases(), share=st.floats(0, 1, exclude_max=True))
def test_the_future_reaches_the_label_and_never_the_inputs(
    tmp_path: Path, case: tuple[dict[str, np.ndarray], int, int], share: float
) -> None:
    frames, length, horizon = case
    before = blockage_windows(sensed_for_blockage(tmp_path / "before.h5", frames), WINDOWED, length, horizon)
    now = int(share * len(before))
    t = before.end[now]
    changed = {name: rows.copy() for name, rows in frames.items()}
    for name in ("lidar", "camera", "rf"):
        changed[name][t + 1 :] = 1
    changed["blocked_geometric"][t + 1 :] = True
    after = blockage_windows(sensed_for_blockage(tmp_path / "after.h5", changed), WINDOWED, length, horizon)
    then = np.array([now])
    for name, rows in before.inputs(then).items():
        assert_array_equal(after.inputs(then)[name], rows)
    assert after.blocked_now[now] == before.blocked_now[now]
    assert after.label[now] == 1


def test_types_and_shapes_are_those_that_encoders_take(path: Path) -> None:
    windows = blockage_windows(sensed_for_blockage(path, frames_of([40])), WINDOWED)
    assert (windows.n_before, windows.horizon, len(windows)) == (15, 5, 40 - 15 - 5)
    batch = windows.inputs(np.array([3, 0, 3]))
    assert {name: rows.shape for name, rows in batch.items()} == {
        "lidar": (3, 2, 16, N_RAYS),
        "camera": (3, 16, SIZE, SIZE),
        "rf": (3, 16, N_BEAMS),
    }
    assert {rows.dtype for rows in batch.values()} == {np.dtype(np.float32)}
    assert all(rows.flags.c_contiguous for rows in batch.values())
    assert 1 < batch["camera"].max() <= 255  # models normalize
    assert windows.input_shapes == {name: rows.shape[1:] for name, rows in batch.items()}
    assert_array_equal(windows.take(np.array([3, 0, 3])).inputs()["rf"], batch["rf"])
    assert windows.modalities == ("lidar", "camera", "rf")


def test_a_frame_is_held_once_however_many_windows_it_is_in(path: Path) -> None:
    frames = frames_of([3000])
    frames["camera"] = np.zeros((3000, 32, 32, 3), dtype=np.uint8)
    station = recorded(path, frames)
    tracemalloc.start()
    sensed = SensedFrames.of(station, ["camera"])
    windows = blockage_windows(sensed, ["camera"])
    held, _ = tracemalloc.get_traced_memory()
    windows.take(np.arange(2000)).inputs(np.arange(4))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    once = 3000 * 32 * 32  # bytes of grey frames; materialized float32 windows would be 64 times that
    assert once <= held < 1.3 * once
    assert peak < 3 * once
    assert windows.frames["camera"].base is sensed.frames("camera").base  # cutting copies none


def test_windows_do_not_span_holes_in_the_recording(path: Path) -> None:
    frames = frames_of([40])
    frames["frame_index"] = np.arange(40) + 2 * (np.arange(40) >= 18)  # two frames are missing before row 18
    sensed = sensed_for_blockage(path, frames)
    windows = blockage_windows(sensed, ["rf"], 4, 2)
    assert_array_equal(windows.end, [*range(3, 16), *range(21, 38)])
    assert len(blockage_windows(sensed, ["rf"], 4, 2, max_frame_step=3)) == 40 - 3 - 2


def test_the_definition_of_blocked_can_be_chosen(path: Path) -> None:
    frames = frames_of([60])
    sensed = sensed_for_blockage(path, frames)
    default = blockage_windows(sensed, ["rf"], 4, 1)
    by_power = blockage_windows(sensed, ["rf"], 4, 1, label="blocked_power")
    assert_array_equal(default.label, frames["blocked_geometric"][default.end + 1])
    assert_array_equal(by_power.label, frames["blocked_power"][by_power.end + 1])
    with pytest.raises(DataError, match="no field 'blocked_labeled'"):
        blockage_windows(sensed, ["rf"], 4, 1, label="blocked_labeled")


def test_beams_that_were_not_measured_count_as_the_weakest(path: Path) -> None:
    frames = frames_of([30])
    frames["rf"][4, 2] = np.nan
    windows = blockage_windows(sensed_for_blockage(path, frames), ["rf"], 1, 1)
    row = windows.inputs()["rf"][4, 0]
    assert np.isfinite(row).all()
    assert row[2] == row.min() == pytest.approx(10 * np.log10(np.nanmin(frames["rf"][4])), abs=FLOAT32_DB)


def test_a_grey_camera_serves_as_well(path: Path) -> None:
    frames = frames_of([30])
    frames["camera"] = frames["camera"][..., :1]
    windows = blockage_windows(sensed_for_blockage(path, frames), ["camera"], 1, 1)
    assert_array_equal(windows.inputs()["camera"][:, 0], frames["camera"][windows.end, ..., 0])
    seen = beam_windows(sensed_for_beams(path.with_name("again.h5"), frames), ["camera"]).inputs()["camera"]
    assert seen.shape == (29, 3, SIZE, SIZE)
    assert_array_equal(seen[:, 0], seen[:, 2])


def test_what_cannot_be_cut_is_refused_by_name(path: Path) -> None:
    station = recorded(path, {name: rows for name, rows in frames_of([12, 9]).items() if name != "lidar"})
    grey = SensedFrames.of(station, ["camera", "rf"])
    color = SensedFrames.of(station, SEEN, color=True, keep_powers=True)
    with pytest.raises(DataError, match=r"no unbroken stretch of 21 frames \(longest: 12\)"):
        blockage_windows(grey, ["rf"])
    with pytest.raises(DataError, match="keeps no lidar"):
        blockage_windows(grey, ["lidar"], 2, 1)
    with pytest.raises(ConfigError, match="not from gps"):
        blockage_windows(grey, ["gps"], 2, 1)
    with pytest.raises(ConfigError, match="at least 1, got 0 and 5"):
        blockage_windows(grey, ["rf"], 0)
    with pytest.raises(ConfigError, match="stride must be at least 1, got 0"):
        blockage_windows(grey, ["rf"], 2, 1, stride=0)
    with pytest.raises(ConfigError, match="camera in color"):
        blockage_windows(color, ["camera"], 2, 1)
    with pytest.raises(ConfigError, match="not from rf"):
        beam_windows(color, ["rf"])
    with pytest.raises(ConfigError, match="n_beams = 3 cannot be kept of 8"):
        beam_windows(color, ["gps"], 3)
    with pytest.raises(ConfigError, match="camera in grey"):
        beam_windows(grey, ["camera"])
    with pytest.raises(DataError, match="keeps no powers"):
        beam_windows(SensedFrames.of(station, ["gps"]), ["gps"])


# A buffer that grows.


def piece(frames: dict[str, np.ndarray], first: int, stop: int) -> dict[str, np.ndarray]:
    return {name: rows[first:stop] for name, rows in frames.items()}


@any_case
@given(case=cases(), stride=st.integers(1, 3), cuts=st.lists(st.integers(0, 100), max_size=3))
def test_what_a_growing_buffer_gives_is_what_replay_gives_up_to_now(
    tmp_path: Path, case: tuple[dict[str, np.ndarray], int, int], stride: int, cuts: list[int]
) -> None:
    frames, length, horizon = case
    replay = sensed_for_blockage(tmp_path / "any.h5", frames)
    live = SensedFrames("corner", WINDOWED, capacity=1)
    everything = blockage_windows(replay, WINDOWED, length, horizon, stride=stride, may_be_empty=True)
    n = len(frames["sequence"])
    for first, stop in pairwise([0, *sorted(min(cut, n) for cut in cuts), n]):
        live.append(piece(frames, first, stop))
        so_far = blockage_windows(live, WINDOWED, length, horizon, stride=stride, may_be_empty=True)
        known = everything.ending_in(0, stop - horizon)
        assert so_far.n_frames == stop
        for name in ("end", "label", "blocked_now", "frames_to_blockage", "sequence"):
            assert_array_equal(getattr(so_far, name), getattr(known, name))
        for name, rows in known.inputs().items() if stop else ():  # sizes are 0 before anything is sensed
            assert_array_equal(so_far.inputs()[name], rows)


def test_samples_stay_as_they_are_when_more_is_sensed() -> None:
    frames = frames_of([90])
    live = SensedFrames("corner", WINDOWED, capacity=1)
    live.append(piece(frames, 0, 40))
    windows = blockage_windows(live, WINDOWED)
    before = windows.inputs()
    live.append(piece(frames, 40, 90))
    assert len(windows) == 40 - 15 - 5
    for name, rows in windows.inputs().items():
        assert_array_equal(rows, before[name])


def test_before_anything_is_sensed_there_is_no_sample_and_no_error() -> None:
    windows = blockage_windows(SensedFrames("corner", WINDOWED), WINDOWED, may_be_empty=True)
    beams = beam_windows(
        SensedFrames("corner", SEEN, color=True, keep_powers=True, gps_columns=GPS_COLUMNS), SEEN, 4, may_be_empty=True
    )
    assert (len(windows), len(beams)) == (0, 0)
    assert {name: len(rows) for name, rows in {**windows.inputs(), **beams.inputs()}.items()} == dict.fromkeys(
        (*WINDOWED, *SEEN), 0
    )
    with pytest.raises(DataError, match=r"no unbroken stretch of 21 frames \(longest: 0\)"):
        blockage_windows(SensedFrames("corner", WINDOWED), WINDOWED)


def test_windows_that_are_not_complete_yet_are_no_error_while_more_may_come() -> None:
    live = SensedFrames("corner", WINDOWED)
    live.append(frames_of([20]))
    assert len(blockage_windows(live, WINDOWED, may_be_empty=True)) == 0
    with pytest.raises(DataError, match=r"no unbroken stretch of 21 frames \(longest: 20\)"):
        blockage_windows(live, WINDOWED)


def test_a_stride_counts_rows_of_the_recording(path: Path) -> None:
    frames = frames_of([30, 11])
    sensed = sensed_for_blockage(path, frames)
    assert_array_equal(blockage_windows(sensed, ["rf"], 2, 1, stride=10).end, [10, 20])  # 0, 30: no window; 40: last
    assert_array_equal(blockage_windows(sensed, ["rf"], 2, 1, stride=13).end, [13, 26, 39])
    beams = sensed_for_beams(path.with_name("again.h5"), frames)
    assert_array_equal(beam_windows(beams, ["gps"], stride=10).end, [10, 20, 40])


def test_both_kinds_of_samples_can_be_shared_out_alike(path: Path) -> None:
    frames = frames_of([30])
    kinds: list[tuple[Samples, BlockageWindows | BeamWindows]] = [
        (windows, windows)
        for windows in (
            blockage_windows(sensed_for_blockage(path, frames), WINDOWED, 4, 2),
            beam_windows(sensed_for_beams(path.with_name("again.h5"), frames), SEEN),
        )
    ]
    for samples, windows in kinds:
        batch = windows.inputs(np.array([3, 1]))
        assert windows.input_shapes == {name: rows.shape[1:] for name, rows in batch.items()}
        assert {rows.dtype for rows in batch.values()} == {np.dtype(np.float32)}
        assert (samples.end[0], samples.end[-1]) == (samples.n_before, 30 - 1 - samples.n_after)
        assert_array_equal(windows.ending_in(7, 9).end, [7, 8])
        assert_array_equal(windows.take(np.array([3, 1])).end, samples.end[[3, 1]])


# Beams.


def test_a_beam_sample_is_one_step_with_the_best_beam_of_now(path: Path) -> None:
    frames = frames_of([7, 1, 5])
    frames["rf"][3, 0] = np.nan
    station = recorded(path, frames, {"latitude_deg": 33.42, "longitude_deg": -111.93})
    windows = beam_windows(SensedFrames.of(station, SEEN, color=True, keep_powers=True), ["gps", "camera"], 4)
    rows = [1, 2, 3, 4, 5, 6, 9, 10, 11, 12]  # the first of a sequence has no previous beam
    powers = frames["rf"][:, ::2]
    best = np.nanargmax(powers, axis=1)
    assert_array_equal(windows.end, rows)
    assert_array_equal(windows.label, best[rows])
    assert_array_equal(windows.previous_beam, best[np.array(rows) - 1])
    assert windows.n_beams == 4
    assert_array_equal(windows.powers[[0, 1]], powers[[1, 2]])
    assert windows.powers[2, 0] == np.nanmin(powers[3])  # the weakest in the place of what was not measured
    assert_array_equal(windows.take(np.array([2])).powers, windows.powers[[2]])
    batch = windows.inputs(np.array([2, 6]))
    assert_array_equal(batch["camera"], np.moveaxis(frames["camera"][[3, 9]], 3, 1))
    assert batch["camera"].flags.c_contiguous
    centimeter_deg = 1e-7
    assert_allclose(batch["gps"][:, :2] + windows.gps_origin[:2], frames["gps"][[3, 9], :2], atol=centimeter_deg)
    assert_allclose(batch["gps"][:, 2:], frames["gps"][[3, 9], 2:], rtol=1e-6)
    assert_array_equal(windows.gps_origin, [33.42, -111.93, 0, 0])


def test_without_a_known_site_degrees_count_from_the_first_frame(path: Path) -> None:
    frames = frames_of([7])
    windows = beam_windows(sensed_for_beams(path, frames), ["gps"])
    assert_array_equal(windows.gps_origin[:2], frames["gps"][0, :2])
    assert windows.modalities == ("gps",)
    assert len(windows.take(np.array([0, 4]))) == 2


def test_persistence_of_beams_works_on_both_kinds_of_windows(path: Path) -> None:
    windows = beam_windows(sensed_for_beams(path, frames_of([9])), ["gps"])
    assert_array_equal(persistence_predictions(windows)[:, 0], windows.previous_beam)


# Scores and baselines of blockage.


def test_blockage_scores_of_a_hand_made_example() -> None:
    labels = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    warned = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0, 0])
    scores = score_blockage(warned, labels)
    assert scores.accuracy == pytest.approx(8 / 10)
    assert scores.balanced_accuracy == pytest.approx((3 / 4 + 5 / 6) / 2)
    assert scores.f1 == pytest.approx(2 * (3 / 4) * (3 / 4) / (3 / 4 + 3 / 4))


def test_whoever_always_says_the_same_gains_nothing() -> None:
    labels = np.random.default_rng(3).random(200) < 0.1
    never, always = np.zeros(200, dtype=bool), np.ones(200, dtype=bool)
    assert score_blockage(never, labels) == BlockageScores(float(1 - labels.mean()), 0.5, 0.0)
    assert score_blockage(always, labels).balanced_accuracy == 0.5
    assert score_blockage(labels, labels) == BlockageScores(1.0, 1.0, 1.0)
    assert score_blockage(~labels, labels) == BlockageScores(0.0, 0.0, 0.0)


def test_one_kind_of_label_alone_still_has_scores() -> None:
    clear = np.zeros(4, dtype=bool)
    assert score_blockage(np.array([0, 0, 0, 1]), clear) == BlockageScores(0.75, 0.75, 0.0)


@pytest.mark.parametrize(
    ("predicted", "labels", "words"),
    [
        (np.zeros(0), np.zeros(0), "n >= 1"),
        (np.zeros(3), np.zeros(4), r"warnings \(3,\) against labels \(4,\)"),
        (np.zeros((3, 1)), np.zeros((3, 1)), "needs"),
        (np.array([0.2, 1, 0]), np.zeros(3), "warnings of blockage must be 0 and 1, got values like 0.2"),
        (np.zeros(3), np.array([0, 1, np.nan]), "labels of blockage must be 0 and 1"),
    ],
)
def test_what_cannot_be_scored_is_refused(predicted: np.ndarray, labels: np.ndarray, words: str) -> None:
    with pytest.raises(DataError, match=words):
        score_blockage(predicted, labels)


def test_persistence_sees_a_blockage_that_lasts_and_misses_one_that_comes(path: Path) -> None:
    frames = frames_of([40])
    frames["blocked_geometric"] = (np.arange(40) >= 20) & (np.arange(40) < 30)
    windows = blockage_windows(sensed_for_blockage(path, frames), ["rf"], 2, 5)
    stays = blockage_persistence(windows)
    missed = windows.end[(windows.label == 1) & ~stays]
    assert_array_equal(missed, range(15, 20))  # the five frames before it comes
    assert_array_equal(windows.end[(windows.label == 0) & stays], [29])  # and one before it goes


def test_majority_says_what_training_saw_more_often() -> None:
    assert_array_equal(blockage_majority(np.array([1, 1, 0]), 2), [True, True])
    assert_array_equal(blockage_majority(np.array([1, 0]), 3), [False] * 3)
