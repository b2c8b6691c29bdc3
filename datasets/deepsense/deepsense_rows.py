"""Reader of DeepSense 6G rows in the gathered `.npy` form: one file per field, named after the rows it holds.

Source: DeepSense 6G (Alkhateeb et al. 2023); the gathered form is that of the position-aided beam prediction study,
Morais et al. 2022, arXiv 2205.09054. The data is CC BY-NC-SA 4.0 and not part of this repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, DataError
from ...emulator.regular_file import open_regular, reason, shown
from ..array_files import UNREADABLE_ARRAY, read_array
from ..data_folder import DataFolder, listed
from ..recordings.site_geometry import CodebookOrder, along_the_array, clockwise
from ..windows.drive_bys import M_PER_DEGREE, Recording

#: Of the sweeps, nominal: gathered rows have no time stamps. Measured means of the published folders are 5.6 to 10 Hz.
GATHERED_RATE_HZ = 10.0
#: A base station is a fixed installation; averaging its position fix may still differ by centimeters.
BASE_STATION_DRIFT_M = 1.0
#: 60 GHz measurements end after a few hundred meters; farther away, a receiver without a fix reported (0, 0).
MAX_DISTANCE_M = 5_000.0

#: The published sets have 20 MB.
MAX_FILE_BYTES = 1 << 28

_FILE_NAME = re.compile(r"scenario(\d+)_(\w+?)_\d+-\d+\.npy")


#: Kind of positions -> its file.
_POSITIONS = {"calibrated": "unit2_loc_cal", "raw": "unit2_loc"}


def load_deepsense_rows(
    root: Path,
    scenario: int,
    positions: Literal["auto", "calibrated", "raw"] = "auto",
    *,
    heading_deg: float = 0.0,
    codebook_order: CodebookOrder = "clockwise",
    strict: bool = False,
) -> Recording:
    """Rows of one DeepSense scenario, named "deepsense{scenario}".

    Args:
        root: folder with `scenario{s}_{field}_{first}-{last}.npy` for the fields `seq_index` [n], `unit1_loc` [n, 2]
            and `unit2_loc` or `unit2_loc_cal` [n, 2] (latitude, longitude in degrees) and
            `unit1_pwr_60ghz` [n, n_beams] (linear).
        scenario: DeepSense number, such as 1.
        positions: "raw" takes `unit2_loc`, "calibrated" `unit2_loc_cal`, "auto" the calibrated ones where present.
        heading_deg: bearing of the array's broadside, clockwise from north: positions are then to its right and ahead
            of it; 0: east and north.
        codebook_order: how the measured beams follow each other, seen from above; the recording has them clockwise.
        strict: refuse rows that cannot be used; otherwise they are dropped and counted.

    Raises:
        DataError: the folder or a file is missing, ambiguous, unreadable or holds impossible values; of all rows, or of
            one with `strict`.
    """
    files = _scenario_files(DataFolder(root))
    sequence_file = _file(root, files, scenario, "seq_index")
    power_file = _file(root, files, scenario, "unit1_pwr_60ghz")
    base_file = _file(root, files, scenario, "unit1_loc")
    has_calibrated = (scenario, _POSITIONS["calibrated"]) in files
    chosen = ("calibrated" if has_calibrated else "raw") if positions == "auto" else positions
    vehicle_file = _file(root, files, scenario, _POSITIONS[chosen])

    sequence = _read_sequence(sequence_file)
    powers = _read_numbers(power_file, "[n_rows, n_beams]", (None, None))
    base_deg, vehicle_deg = _read_locations(base_file), _read_locations(vehicle_file)
    for file, array in ((power_file, powers), (base_file, base_deg), (vehicle_file, vehicle_deg)):
        if len(array) != len(sequence):
            raise DataError(
                f"{file} has {len(array)} rows but {sequence_file.name} has {len(sequence)}; "
                "all files of a scenario must come from one download"
            )
    rows = _UsableRows(len(sequence), strict=strict)
    rows.leave_out(power_file, np.isnan(powers), "a beam that was not measured (NaN)")
    (allowed,) = MODALITY_SPECS["rf"].recorded.ranges
    # a power of 0 has no decibels
    rows.leave_out(power_file, ~allowed.holds(powers), f"a power that is not {replace(allowed, or_nan=False)}")
    for file, degrees in ((base_file, base_deg), (vehicle_file, vehicle_deg)):
        rows.leave_out(file, np.isnan(degrees), "no position (NaN)")
    positions_m = _relative_positions_m(base_deg, vehicle_deg)
    far = np.linalg.norm(positions_m, axis=1) > MAX_DISTANCE_M
    rows.leave_out(vehicle_file, far[:, None], f"a position over {MAX_DISTANCE_M / 1000:.0f} km from the base station")
    kept = rows.kept(scenario)
    # rows that are left out do not count, and keep their numbers in messages
    stays_deg = np.where(np.isin(np.arange(len(base_deg)), kept)[:, None], base_deg, base_deg[kept[0]])
    _check_base_station_stays(base_file, stays_deg)
    turned_m, swept = along_the_array(positions_m[kept], heading_deg), clockwise(powers[kept], codebook_order)
    name = f"deepsense{scenario}"
    return Recording(name, turned_m, swept, sequence[kept], positions=chosen, dropped=rows.dropped)


class _UsableRows:
    """Which rows of a scenario can be used, and why the others cannot.

    Args:
        n_rows: rows of every file.
        strict: rows are refused, not dropped.
    """

    def __init__(self, n_rows: int, *, strict: bool) -> None:
        self._usable = np.ones(n_rows, dtype=np.bool_)
        self._strict = strict
        self.dropped: dict[str, int] = {}

    def leave_out(self, file: Path, bad: NDArray[np.bool_], why: str) -> None:
        """Drop the rows of `bad` [n_rows, n_columns] with any that is true; a row counts for its first reason.

        Raises:
            DataError: rows are refused; with the first of them.
        """
        if self._strict:
            remedy = "leave these rows out of all files, or set data.strict = false"
            _refuse_rows(file, bad, f"{why} stands", remedy)
        new = bad.any(axis=1) & self._usable
        if new.any():
            self.dropped[why] = self.dropped.get(why, 0) + int(new.sum())
        self._usable &= ~new

    def kept(self, scenario: int) -> NDArray[np.int64]:
        """[n_kept] rows that are left, ascending.

        Raises:
            DataError: none is.
        """
        if not self._usable.any():
            reasons = ", ".join(f"{why}: {count}" for why, count in self.dropped.items())
            raise DataError(f"scenario {scenario} has no row that can be used ({reasons}); fetch its files again")
        return np.flatnonzero(self._usable).astype(np.int64)


def _scenario_files(folder: DataFolder) -> dict[tuple[int, str], list[Path]]:
    files: dict[tuple[int, str], list[Path]] = {}
    for path in sorted(folder.root.iterdir()):
        if match := _FILE_NAME.fullmatch(path.name):
            files.setdefault((int(match[1]), match[2]), []).append(folder.file(path))
    return files


def _file(root: Path, files: Mapping[tuple[int, str], list[Path]], scenario: int, field: str) -> Path:
    pattern = f"scenario{scenario}_{field}_<first>-<last>.npy"
    matching = files.get((scenario, field), [])
    if not matching:
        present = listed(sorted({number for number, _ in files})) or "none"
        raise DataError(
            f"no file {pattern} in {shown(root)} (scenarios there: {present}); check data.root and data.scenarios"
        )
    if len(matching) > 1:
        names = listed([path.name for path in matching])
        raise DataError(f"several files match {pattern} in {shown(root)}: {names}; keep one of them")
    return matching[0]


def _read_npy(file: Path) -> NDArray[Any]:
    try:
        with open_regular(file, MAX_FILE_BYTES) as stream:
            return read_array(stream, "biufcSU", None, os.fstat(stream.fileno()).st_size)
    except UNREADABLE_ARRAY as error:
        raise DataError(f"{shown(file)} cannot be read as .npy ({reason(error)}); fetch the file again") from None


def _read_numbers(file: Path, shape: str, fits: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Array of this file as float64; `fits` gives the required sizes, None for any but 0."""
    array = _read_npy(file)
    right_shape = array.ndim == len(fits) and all(
        (size == wanted if wanted else size > 0) for size, wanted in zip(array.shape, fits, strict=True)
    )
    if not right_shape or array.dtype.kind not in "iuf":
        raise DataError(f"{file} must hold {shape} real numbers, got shape {array.shape} of {array.dtype}")
    return array.astype(np.float64)


def _read_sequence(file: Path) -> NDArray[np.int64]:
    numbers = _read_numbers(file, "[n_rows]", (None,))
    whole = (np.abs(numbers) < 2.0**31) & (numbers == np.rint(numbers))
    _refuse_rows(
        file, ~whole[:, None], "drive-by number is not whole", "repair them or leave these rows out of all files"
    )
    return numbers.astype(np.int64)


def _read_locations(file: Path) -> NDArray[np.float64]:
    """[n_rows, 2] latitude and longitude in degrees, NaN where there is no fix."""
    degrees = _read_numbers(file, "[n_rows, 2]", (None, 2))
    _refuse_rows(
        file,
        np.abs(degrees) > (90.0, 180.0),
        "latitude is beyond 90 or longitude beyond 180 degrees",
        "columns must be latitude, longitude",
    )
    return degrees


def _refuse_rows(file: Path, bad: NDArray[np.bool_], complaint: str, remedy: str) -> None:
    """Raises if any value of `bad` [n_rows, n_columns] is True."""
    bad_rows = np.flatnonzero(bad.any(axis=1))
    if len(bad_rows):
        raise DataError(
            f"{file}: {complaint} in {len(bad_rows)} of {len(bad)} rows, first in row {bad_rows[0]} (counted from 0); "
            f"{remedy}"
        )


def _check_base_station_stays(file: Path, base_deg: NDArray[np.float64]) -> None:
    drift_m = np.linalg.norm(_relative_positions_m(base_deg[:1], base_deg), axis=1)
    _refuse_rows(
        file,
        drift_m[:, None] > BASE_STATION_DRIFT_M,
        f"base station is up to {drift_m.max():.0f} m from where row 0 puts it",
        "a base station must not move, so rows of different sites go into separate scenarios",
    )


def _relative_positions_m(base_deg: NDArray[np.float64], vehicle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 2] east, north in meters on the plane that touches the earth at the base station."""
    north_deg, east_deg = (vehicle_deg - base_deg).T
    # meridians converge towards the poles
    east_m = east_deg * np.cos(np.radians(base_deg[:, 0])) * M_PER_DEGREE
    return np.stack([east_m, north_deg * M_PER_DEGREE], axis=1)
