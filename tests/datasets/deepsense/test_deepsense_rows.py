"""The DeepSense reader: what it makes of a folder, and one clear sentence for each way a folder can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.deepsense.deepsense_rows import load_deepsense_rows
from sheafedge.emulator.contracts import DataError

N_ROWS = 12
BASE_DEG = np.tile([60.0, -111.9], (N_ROWS, 1))  # the cosine of the latitude is one half
FIELDS = ("seq_index", "unit1_pwr_60ghz", "unit1_loc", "unit2_loc")


def path_of(root: Path, field: str, scenario: int = 1) -> Path:
    return root / f"scenario{scenario}_{field}_1-{N_ROWS}.npy"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small folder in the gathered layout, made here: two drive-bys of six rows."""
    steps = np.arange(N_ROWS)[:, None]
    np.save(path_of(tmp_path, "seq_index"), np.repeat([1, 2], N_ROWS // 2))
    np.save(path_of(tmp_path, "unit1_pwr_60ghz"), np.random.default_rng(5).uniform(0.1, 1, size=(N_ROWS, 64)))
    np.save(path_of(tmp_path, "unit1_loc"), BASE_DEG)
    np.save(path_of(tmp_path, "unit2_loc"), BASE_DEG + np.array([1e-4, 2e-4]) * steps)
    return tmp_path


def edit(root: Path, field: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(path_of(root, field), change(np.load(path_of(root, field))))


def put(row: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[row, 0] = value
        return array

    return change


def refusal(root: Path, scenario: int = 1, *, strict: bool = False) -> str:
    with pytest.raises(DataError) as refused:
        load_deepsense_rows(root, scenario, strict=strict)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_degrees_become_meters_east_and_north_of_the_base_station(root: Path) -> None:
    recording = load_deepsense_rows(root, 1)
    meters = np.arange(N_ROWS)[:, None] * 11.132
    assert recording.name == "deepsense1"
    assert_allclose(recording.positions_m, meters * [1, 1], rtol=1e-6)  # 2e-4 deg at half the circle, 1e-4 deg
    assert_array_equal(recording.sequence, np.repeat([1, 2], N_ROWS // 2))
    assert_array_equal(recording.powers, np.load(path_of(root, "unit1_pwr_60ghz")))


def test_calibrated_or_raw_positions_are_chosen(root: Path) -> None:
    raw = load_deepsense_rows(root, 1)
    assert raw.positions == "raw"
    with pytest.raises(DataError, match="no file scenario1_unit2_loc_cal"):
        load_deepsense_rows(root, 1, "calibrated")
    np.save(path_of(root, "unit2_loc_cal"), BASE_DEG + np.array([2e-4, 0.0]))
    for found in (load_deepsense_rows(root, 1), load_deepsense_rows(root, 1, "calibrated")):
        assert found.positions == "calibrated"
        assert_allclose(found.positions_m, np.tile([0, 22.264], (N_ROWS, 1)), atol=1e-6)
    assert_array_equal(load_deepsense_rows(root, 1, "raw").positions_m, raw.positions_m)


def test_an_array_that_faces_east_and_counts_counterclockwise_becomes_one_like_those_of_worlds(root: Path) -> None:
    plain = load_deepsense_rows(root, 1)
    turned = load_deepsense_rows(root, 1, heading_deg=90.0, codebook_order="counterclockwise")
    assert_allclose(turned.positions_m, plain.positions_m[:, ::-1] * [-1, 1], atol=1e-9)
    assert_array_equal(turned.powers, plain.powers[:, ::-1])
    assert_array_equal(turned.beams, 63 - plain.beams)


def test_scenario_1_is_not_mistaken_for_scenario_11(root: Path) -> None:
    for field in FIELDS:
        path_of(root, field).rename(path_of(root, field, scenario=11))
    message = refusal(root)
    assert "scenario1_seq_index_<first>-<last>.npy" in message
    assert "scenarios there: 11" in message
    assert load_deepsense_rows(root, 11).name == "deepsense11"


def test_a_root_that_is_no_folder_is_named(root: Path) -> None:
    assert "data.root" in refusal(root / "nowhere")
    assert "nowhere is not a folder" in refusal(root / "nowhere")
    assert "is not a folder" in refusal(path_of(root, "unit1_loc"))


def test_an_empty_folder_has_no_scenarios(tmp_path: Path) -> None:
    assert "scenarios there: none" in refusal(tmp_path)


@pytest.mark.parametrize("field", FIELDS)
def test_a_missing_file_is_named_by_its_pattern(root: Path, field: str) -> None:
    path_of(root, field).unlink()
    assert f"no file scenario1_{field}_<first>-<last>.npy" in refusal(root)


def test_an_absent_scenario_lists_those_present(root: Path) -> None:
    assert "scenario7_" in refusal(root, 7)
    assert "scenarios there: 1" in refusal(root, 7)


def test_two_files_for_one_field_are_ambiguous(root: Path) -> None:
    np.save(root / "scenario1_unit1_loc_1-99.npy", BASE_DEG)
    message = refusal(root)
    assert "scenario1_unit1_loc_1-12.npy, scenario1_unit1_loc_1-99.npy" in message
    assert "keep one" in message


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("n_bytes", [0, 5, 60, 140])
def test_a_truncated_file_is_named(root: Path, field: str, n_bytes: int) -> None:
    path = path_of(root, field)
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert path.name in refusal(root)
    assert "cannot be read as .npy" in refusal(root)


@pytest.mark.parametrize(
    "content", [b"time,beam\n1,2\n" * 50, b"\x93NUMPY\x01\x00\x76\x00" + b"{'x'" * 40, b"PK\x03\x04"]
)
def test_a_file_that_is_no_array_is_named(root: Path, content: bytes) -> None:
    path_of(root, "unit2_loc").write_bytes(content)
    assert "unit2_loc_1-12.npy cannot be read as .npy" in refusal(root)


def test_pickled_objects_are_never_loaded(root: Path) -> None:
    np.save(path_of(root, "unit2_loc"), np.array([{"a": 1}] * N_ROWS, dtype=object), allow_pickle=True)
    assert "cannot be read as .npy" in refusal(root)


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("unit1_loc", np.ones((N_ROWS, 3))),
        ("unit2_loc", np.ones(N_ROWS)),
        ("unit1_pwr_60ghz", np.ones(N_ROWS)),
        ("unit1_pwr_60ghz", np.ones((N_ROWS, 64), dtype=complex)),
        ("unit1_pwr_60ghz", np.ones((0, 64))),
        ("seq_index", np.ones((N_ROWS, 1), dtype=int)),
        ("seq_index", np.array(["a"] * N_ROWS)),
    ],
)
def test_a_wrong_shape_or_type_is_named(root: Path, field: str, array: np.ndarray) -> None:
    np.save(path_of(root, field), array)
    message = refusal(root)
    assert field in message
    assert "must hold [n_rows" in message
    assert str(array.shape) in message


@pytest.mark.parametrize("field", FIELDS[1:])
def test_files_of_different_length_are_refused(root: Path, field: str) -> None:
    edit(root, field, lambda array: array[:-1])
    message = refusal(root)
    assert field in message
    assert "has 11 rows but scenario1_seq_index_1-12.npy has 12" in message


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -0.5])
def test_rows_with_an_impossible_power_are_dropped_and_counted_or_refused(root: Path, value: float) -> None:
    whole = load_deepsense_rows(root, 1)
    for row in (9, 3):
        edit(root, "unit1_pwr_60ghz", put(row, value))
    left = load_deepsense_rows(root, 1)
    kept = np.delete(np.arange(N_ROWS), (3, 9))
    for name in ("positions_m", "powers", "sequence"):
        assert_array_equal(getattr(left, name), getattr(whole, name)[kept])
    ((why, count),) = left.dropped.items()
    assert count == 2
    assert ("not measured (NaN)" if np.isnan(value) else "a power that is not above 0 and at most") in why
    message = refusal(root, strict=True)
    assert "unit1_pwr_60ghz_1-12.npy" in message
    assert "2 of 12 rows, first in row 3" in message
    assert "leave these rows out" in message


def test_a_row_counts_for_its_first_reason_and_a_folder_without_a_row_is_refused(root: Path) -> None:
    assert load_deepsense_rows(root, 1).dropped == {}
    edit(root, "unit1_pwr_60ghz", put(3, np.nan))
    edit(root, "unit2_loc", put(3, np.nan))
    edit(root, "unit2_loc", put(4, np.nan))
    assert load_deepsense_rows(root, 1).dropped == {"a beam that was not measured (NaN)": 1, "no position (NaN)": 1}
    edit(root, "unit1_pwr_60ghz", lambda powers: powers * np.nan)
    assert "scenario 1 has no row that can be used (a beam that was not measured (NaN): 12)" in refusal(root)


@pytest.mark.parametrize(
    ("field", "row", "value", "words"),
    [
        ("unit2_loc", 4, np.nan, "no position (NaN) stands in 1 of 12 rows, first in row 4"),
        ("unit1_loc", 2, np.nan, "no position (NaN) stands in 1 of 12 rows, first in row 2"),
        ("unit2_loc", 6, -111.9, "latitude is beyond 90"),
        ("unit1_loc", 8, 60.001, "up to 111 m from where row 0 puts it in 1 of 12 rows, first in row 8"),
        ("unit2_loc", 5, 0.0, "a position over 5 km from the base station stands in 1 of 12 rows, first in row 5"),
    ],
)
def test_an_impossible_position_is_named_with_its_row(
    root: Path, field: str, row: int, value: float, words: str
) -> None:
    edit(root, field, put(row, value))
    message = refusal(root, strict=True)
    assert f"{field}_1-12.npy" in message
    assert words in message


def test_rows_without_a_position_do_not_hide_a_base_station_that_moves(root: Path) -> None:
    edit(root, "unit1_loc", put(0, np.nan))
    assert load_deepsense_rows(root, 1).n_rows == N_ROWS - 1
    edit(root, "unit1_loc", put(8, 60.001))
    assert "base station is up to 111 m from where row 0 puts it in 1 of 12 rows, first in row 8" in refusal(root)


def test_a_drive_by_that_starts_again_is_refused(root: Path) -> None:
    edit(root, "seq_index", lambda sequence: np.roll(sequence, 2))
    assert "recording deepsense1: sequence 2 starts again" in refusal(root)


@pytest.mark.parametrize(("scenario", "n_rows", "n_sequences"), [(1, 2422, 29), (5, 2300, 29), (8, 4043, 83)])
def test_real_scenarios_load_whole(deepsense_root: Path, scenario: int, n_rows: int, n_sequences: int) -> None:
    recording = load_deepsense_rows(deepsense_root, scenario)
    assert recording.powers.shape == (n_rows, 64)
    assert len(recording.sequence_starts) == n_sequences
    assert np.abs(recording.positions_m).max() < 50  # meters: these cars pass within sight of the station
