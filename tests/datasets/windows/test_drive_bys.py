"""A recording refuses what no base station can have recorded, and says where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.emulator.contracts import ConfigError, DataError


def recording(**changes: Any) -> Recording:
    fields: dict[str, Any] = {
        "name": "street",
        "positions_m": np.arange(12.0).reshape(6, 2),
        "powers": np.random.default_rng(3).uniform(0.1, 1, size=(6, 64)),
        "sequence": np.array([7, 7, 7, 2, 2, 2]),
    }
    return Recording(**(fields | changes))


def with_value(array: np.ndarray, row: int, value: float) -> np.ndarray:
    array = array.copy()
    array[row, 1] = value
    return array


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"positions_m": with_value(recording().positions_m, 4, np.nan)}, ["positions_m", "row 4", "1 of 6"]),
        ({"powers": with_value(recording().powers, 2, 0.0)}, ["powers", "row 2", "above 0"]),
        ({"powers": with_value(recording().powers, 5, np.inf)}, ["powers", "row 5"]),
        ({"powers": np.ones((5, 64))}, ["same number of rows", "6, 5 and 6"]),
        ({"powers": np.ones((6, 1))}, ["at least 2 beams"]),
        ({"powers": np.ones((6, 64), dtype=int)}, ["powers", "floating", "int"]),
        ({"positions_m": np.ones((6, 3))}, ["positions_m", "2 columns"]),
        ({"sequence": np.array([1, 1, 2, 2, 1, 1])}, ["sequence 1", "row 4", "contiguous"]),
        ({"sequence": np.array([1.0, 1, 1, 2, 2, 2])}, ["sequence", "integer"]),
        (
            {"positions_m": np.ones((0, 2)), "powers": np.ones((0, 4)), "sequence": np.zeros(0, dtype=int)},
            ["at least 1", "0, 0 and 0"],
        ),
    ],
)
def test_impossible_rows_are_refused_by_name_field_and_row(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(DataError) as refused:
        recording(**changes)
    for word in ["recording street", *words]:
        assert word in str(refused.value)


def test_the_best_beam_is_the_strongest_of_its_row() -> None:
    powers = np.full((6, 4), 0.1)
    powers[np.arange(6), [0, 3, 1, 2, 2, 0]] = 0.5
    assert_array_equal(recording(powers=powers).beams, [0, 3, 1, 2, 2, 0])


def test_drive_bys_start_where_the_number_changes() -> None:
    assert_array_equal(recording().sequence_starts, [0, 3])


@pytest.mark.parametrize("n_beams", [64, 32, 16, 8])
def test_a_smaller_codebook_keeps_evenly_spaced_beams(n_beams: int) -> None:
    full = recording()
    small = full.with_n_beams(n_beams)
    assert small.n_beams == n_beams
    assert_array_equal(small.powers, full.powers[:, np.arange(n_beams) * (64 // n_beams)])
    assert_array_equal(full.with_n_beams(n_beams).with_n_beams(8).powers, full.with_n_beams(8).powers)


@pytest.mark.parametrize("n_beams", [0, 20, 128, -8])
def test_an_unknown_codebook_size_is_refused(n_beams: int) -> None:
    with pytest.raises(ConfigError, match=r"data\.n_beams must be one of 64, 32, 16, 8"):
        recording().with_n_beams(n_beams)


def test_beams_that_were_not_recorded_cannot_be_kept() -> None:
    with pytest.raises(ConfigError, match=r"data.n_beams = 32 .* recording street, which has 16 beams"):
        recording().with_n_beams(16).with_n_beams(32)
