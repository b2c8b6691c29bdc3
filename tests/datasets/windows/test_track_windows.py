"""Windows hold the past of one drive-by and never the sweep that they are asked about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.track_windows import tracking_windows
from sheafedge.emulator.contracts import ConfigError, DataError

N_BEAMS = 8
FLOAT32_DB = 1e-5  # powers of 0.1 to 1 are at most 10 dB below 1; float32 keeps 7 digits


def recording_of(lengths: Sequence[int], seed: int = 0) -> Recording:
    draws = np.random.default_rng(seed)
    n_rows = sum(lengths)
    return Recording(
        name="street",
        positions_m=draws.normal(size=(n_rows, 2)),
        powers=draws.uniform(0.1, 1, size=(n_rows, N_BEAMS)),
        sequence=np.repeat(draws.permutation(len(lengths)), lengths),
    )


@st.composite
def recordings_and_lengths(draw: st.DrawFn) -> tuple[Recording, int]:
    length = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(length + 1, length + 12), min_size=1, max_size=6))
    return recording_of(lengths, draw(st.integers(0, 99))), length


@given(case=recordings_and_lengths())
def test_every_window_is_what_a_plain_loop_would_cut(case: tuple[Recording, int]) -> None:
    recording, length = case
    windows = tracking_windows(recording, length)
    owner = recording.sequence
    rows = [row for row in range(length, recording.n_rows) if owner[row - length] == owner[row]]
    assert_array_equal(windows.end, rows)
    assert len(windows) == len(rows)
    assert windows.n_beams == N_BEAMS
    for i, row in enumerate(rows):
        assert_allclose(windows.inputs()["gps"][i], recording.positions_m[row - length + 1 : row + 1], rtol=1e-6)
        assert_allclose(windows.inputs()["rf"][i], 10 * np.log10(recording.powers[row - length : row]), atol=FLOAT32_DB)
        assert windows.label[i] == recording.powers[row].argmax()
        assert windows.previous_beam[i] == recording.powers[row - 1].argmax()
        assert_array_equal(windows.powers[i], recording.powers[row])
        assert windows.sequence[i] == recording.sequence[row]


@given(case=recordings_and_lengths())
def test_no_window_mixes_drive_bys(case: tuple[Recording, int]) -> None:
    recording, length = case
    owner = recording.sequence.astype(float)  # every position and power tells whose it is
    marked = Recording(
        "marked",
        np.repeat(owner[:, None], 2, axis=1),
        10 ** np.repeat(owner[:, None] / 10, N_BEAMS, axis=1),
        recording.sequence,
    )
    windows = tracking_windows(marked, length)
    own = windows.sequence[:, None, None]
    assert (windows.inputs()["gps"] == own).all()
    assert_allclose(windows.inputs()["rf"], np.broadcast_to(own, windows.inputs()["rf"].shape), atol=FLOAT32_DB)


@given(case=recordings_and_lengths(), share=st.floats(0, 1, exclude_max=True))
def test_the_current_sweep_never_reaches_the_inputs(case: tuple[Recording, int], share: float) -> None:
    """Turning the current sweep upside down changes the label, not the inputs; the next row's input does change."""
    recording, length = case
    before = tracking_windows(recording, length)
    now = int(share * len(before))
    powers = recording.powers.copy()
    powers[before.end[now]] = 1.1 - powers[before.end[now]]
    after = tracking_windows(Recording("changed", recording.positions_m, powers, recording.sequence), length)

    assert_array_equal(after.inputs()["rf"][now], before.inputs()["rf"][now])
    assert_array_equal(after.inputs()["gps"], before.inputs()["gps"])
    assert after.previous_beam[now] == before.previous_beam[now]
    assert after.label[now] != before.label[now]

    sees_it = (before.sequence == before.sequence[now]) & (before.end > before.end[now])
    sees_it &= before.end <= before.end[now] + length
    changed = (after.inputs()["rf"] != before.inputs()["rf"]).any(axis=(1, 2))
    assert_array_equal(changed, sees_it)


def test_arrays_have_the_documented_types_and_shapes() -> None:
    windows = tracking_windows(recording_of([9, 7]), 4)
    n = 5 + 3
    assert (windows.inputs()["gps"].shape, windows.inputs()["gps"].dtype) == ((n, 4, 2), np.float32)
    assert (windows.inputs()["rf"].shape, windows.inputs()["rf"].dtype) == ((n, 4, N_BEAMS), np.float32)
    assert (windows.powers.shape, windows.powers.dtype) == ((n, N_BEAMS), np.float64)
    for indices in (windows.label, windows.previous_beam, windows.sequence, windows.end):
        assert (indices.shape, indices.dtype) == ((n,), np.int64)


def test_taking_rows_keeps_all_fields_together() -> None:
    windows = tracking_windows(recording_of([9, 7]), 2)
    taken = windows.take(np.array([5, 0, 5]))
    assert_array_equal(taken.end, windows.end[[5, 0, 5]])
    assert_array_equal(taken.inputs()["rf"][1], windows.inputs()["rf"][0])
    assert_array_equal(taken.powers.argmax(axis=1), taken.label)


def test_inputs_are_the_arrays_of_the_sensors_that_somebody_owns() -> None:
    windows = tracking_windows(recording_of([9, 7]), 4)
    assert windows.modalities == ("rf", "gps")
    assert windows.input_shapes == {"rf": (4, N_BEAMS), "gps": (4, 2)}
    some = np.array([3, 0])
    for indices in (some, slice(2, 5)):
        batch = windows.inputs(indices)
        assert_array_equal(batch["rf"], windows.inputs()["rf"][indices])
        assert_array_equal(batch["gps"], windows.inputs()["gps"][indices])
    assert {name: len(rows) for name, rows in windows.inputs().items()} == {"rf": len(windows), "gps": len(windows)}


def test_somebody_with_fewer_sensors_has_the_same_samples() -> None:
    windows = tracking_windows(recording_of([9, 7]), 4)
    blind = windows.owned_by(["gps"])
    assert (blind.modalities, set(blind.inputs()), set(blind.input_shapes)) == (("gps",), {"gps"}, {"gps"})
    assert_array_equal(blind.end, windows.end)
    assert_array_equal(blind.label, windows.label)
    assert blind.take(np.array([1])).modalities == ("gps",)
    assert windows.modalities == ("rf", "gps")


def test_every_third_sample_is_counted_in_rows_of_the_recording() -> None:
    windows = tracking_windows(recording_of([9, 7, 12]), 2)
    assert_array_equal(windows.every(3).end, [row for row in windows.end.tolist() if row % 3 == 0])
    assert_array_equal(windows.every(3).inputs()["rf"], windows.inputs()["rf"][windows.end % 3 == 0])
    assert_array_equal(windows.every(1).end, windows.end)


@given(case=recordings_and_lengths())
def test_a_window_says_how_many_rows_before_it_uses(case: tuple[Recording, int]) -> None:
    """What a split by time relies on: no other row changes a sample."""
    recording, length = case
    windows = tracking_windows(recording, length)
    assert (windows.n_before, windows.n_after) == (length, 0)
    now = len(windows) // 2
    others = np.ones(recording.n_rows, dtype=bool)
    others[windows.end[now] - windows.n_before : windows.end[now] + windows.n_after + 1] = False
    moved = Recording(
        "elsewhere",
        np.where(others[:, None], recording.positions_m + 9, recording.positions_m),
        np.where(others[:, None], recording.powers[:, ::-1] + 1, recording.powers),
        recording.sequence,
    )
    after = tracking_windows(moved, length)
    assert_array_equal(after.inputs()["gps"][now], windows.inputs()["gps"][now])
    assert_array_equal(after.inputs()["rf"][now], windows.inputs()["rf"][now])
    assert after.label[now] == windows.label[now]
    assert after.previous_beam[now] == windows.previous_beam[now]


@pytest.mark.parametrize(("rows", "remedy"), [(4, "set data.window to at most 3"), (1, "leave that drive-by out")])
def test_a_drive_by_too_short_for_a_window_is_named(rows: int, remedy: str) -> None:
    recording = recording_of([9, rows, 8])
    with pytest.raises(DataError) as refused:
        tracking_windows(recording, 4)
    for words in ("recording street", f"sequence {recording.sequence[9]} has {rows} row", "data.window = 4", remedy):
        assert words in str(refused.value)
    assert len(tracking_windows(recording_of([9, 5, 8]), 4)) == 5 + 1 + 4


@pytest.mark.parametrize("length", [0, -1])
def test_a_window_without_history_is_refused(length: int) -> None:
    with pytest.raises(ConfigError, match=r"data\.window must be at least 1"):
        tracking_windows(recording_of([9]), length)
