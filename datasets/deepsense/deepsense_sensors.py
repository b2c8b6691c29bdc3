"""Readers of powers, positions, LiDAR sweeps and images of a DeepSense table; impossible values are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, DataError
from ...emulator.modalities import LIDAR_REACH_M
from ...emulator.regular_file import shown
from ..matlab_file import read_mat
from ..windows.drive_bys import M_PER_DEGREE
from .deepsense_rows import BASE_STATION_DRIFT_M, MAX_DISTANCE_M
from .deepsense_table import DeepSenseTable
from .image_files import read_image

#: Beams of a sweep on disk.
SWEEP_BEAMS = 64
CAMERA_SIZE = 64
#: Largest range in m of the 2-D LiDARs of DeepSense; with larger values the columns are something else.
MAX_RANGE_M = 100.0
#: What a drone tells beside its position; `unit2_loc` then stays in degrees.
DRONE_COLUMNS = ("unit2_distance", "unit2_height")


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Positions of the user.

    Attributes:
        values: [n_rows, k] float64; None where the table has none.
        columns: names of the k columns.
        geometry: latitude_deg and longitude_deg of the base station, if known.
    """

    values: NDArray[np.float64] | None = None
    columns: tuple[str, ...] = ()
    geometry: dict[str, Any] = field(default_factory=dict)


def read_powers(table: DeepSenseTable, column: str) -> NDArray[np.float64]:
    """[n_rows, 64] linear powers, NaN where a beam was not measured.

    Raises:
        DataError: a file is unreadable, or a power is 0, negative or infinite.
    """
    powers = np.stack([table.numbers(column, row, SWEEP_BEAMS) for row in range(len(table))])
    (allowed,) = MODALITY_SPECS["rf"].recorded.ranges
    usable = allowed.holds(powers) | np.isnan(powers)
    bad = np.flatnonzero(~usable.all(axis=1))
    if len(bad):
        row = int(bad[0])
        value = powers[row][~usable[row]][0]
        raise DataError(
            f"{table.where(row)}: {column} file {shown(table.file(column, row))} holds the power {value}, expected "
            f"{allowed}, on a linear scale ({len(bad)} rows are like that); remove these rows"
        )
    return powers


def read_positions(table: DeepSenseTable, base_column: str | None, user_column: str | None) -> Positions:
    """Latitude, longitude, distance and height of a drone; else east and north of the base station, else degrees.

    Raises:
        DataError: an impossible position, a base station that moves, or a user out of reach.
    """
    base_deg = _read_base_station(table, base_column) if base_column else None
    geometry = {}
    if base_deg is not None:
        # one place for all rows: fixes of the fixed station differ a little
        latitude_deg, longitude_deg = np.median(base_deg, axis=0)
        geometry = {"latitude_deg": float(latitude_deg), "longitude_deg": float(longitude_deg)}
    if user_column is None:
        return Positions(geometry=geometry)
    user_deg = _read_degrees(table, user_column)
    offset_m = None if base_deg is None else _east_north_m(base_deg, user_deg)
    if offset_m is not None:
        _check_within_reach(table, user_column, offset_m)
    if set(DRONE_COLUMNS) <= set(table.columns):
        more = np.stack([_read_meters(table, name) for name in DRONE_COLUMNS], axis=1)
        names = ("latitude_deg", "longitude_deg", "distance_m", "height_m")
        return Positions(np.hstack([user_deg, more]), names, geometry)
    if offset_m is None:
        return Positions(user_deg, ("latitude_deg", "longitude_deg"), geometry)
    return Positions(offset_m, ("east_m", "north_m"), geometry)


def _read_meters(table: DeepSenseTable, column: str) -> NDArray[np.float64]:
    """[n_rows] distance or height."""
    meters = table.series(column)
    if far := np.flatnonzero(np.abs(meters) > MAX_DISTANCE_M).tolist():
        raise DataError(
            f"{table.where(far[0])}: {column} must be from {-MAX_DISTANCE_M:g} to {MAX_DISTANCE_M:g} m, got"
            f" {meters[far[0]]:g} ({len(far)} rows are like that)"
        )
    return meters


def _read_base_station(table: DeepSenseTable, column: str) -> NDArray[np.float64]:
    base_deg = _read_degrees(table, column)
    drift_m = np.linalg.norm(_east_north_m(base_deg[:1], base_deg), axis=1)
    if drift_m.max() > BASE_STATION_DRIFT_M:
        row = int(np.argmax(drift_m > BASE_STATION_DRIFT_M))
        raise DataError(
            f"{table.where(row)}: {column} moved the base station by {drift_m[row]:.0f} m; "
            "rows of different sites go into separate scenarios"
        )
    return base_deg


def _check_within_reach(table: DeepSenseTable, column: str, offset_m: NDArray[np.float64]) -> None:
    distance_m = np.linalg.norm(offset_m, axis=1)
    far = np.flatnonzero(distance_m > MAX_DISTANCE_M)
    if len(far):
        raise DataError(
            f"{table.where(far[0])}: {column} is {distance_m[far[0]] / 1000:.0f} km from the base station "
            f"({len(far)} rows are like that); remove rows without a position fix"
        )


def _read_degrees(table: DeepSenseTable, column: str) -> NDArray[np.float64]:
    """[n_rows, 2] latitude and longitude."""
    degrees = np.stack([table.numbers(column, row, 2) for row in range(len(table))])
    bad = np.flatnonzero(~(np.abs(degrees) <= (90.0, 180.0)).all(axis=1))
    if len(bad):
        file = shown(table.file(column, int(bad[0])))
        raise DataError(
            f"{table.where(bad[0])}: {column} file {file} holds {degrees[bad[0]].tolist()}, "
            f"expected latitude and longitude in degrees ({len(bad)} rows are like that)"
        )
    return degrees


def _east_north_m(base_deg: NDArray[np.float64], user_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 2] meters on the plane that touches the earth at the base station."""
    north_deg, east_deg = (user_deg - base_deg).T
    east_m = east_deg * np.cos(np.radians(base_deg[:, 0])) * M_PER_DEGREE
    return np.stack([east_m, north_deg * M_PER_DEGREE], axis=1)


def read_sweep(table: DeepSenseTable, column: str, row: int, n_rays: int | None = None) -> NDArray[np.float64]:
    """[n_rays, 2] range in m, angle in rad, as on disk: range 0 is a ray without an echo.

    Args:
        n_rays: required number of rays; None: any.

    Raises:
        DataError: the file is unreadable or holds no such sweep.
    """
    try:
        sweep = read_mat(table.file(column, row))
    except DataError as error:
        raise DataError(f"{table.where(row)}: {error}") from error
    if sweep.shape[1] != 2 or len(sweep) != (n_rays or len(sweep)) or len(sweep) == 0:
        raise DataError(
            f"{table.where(row)}: {column} has a sweep of shape {sweep.shape}, expected ({n_rays or 'n_rays'}, 2)"
        )
    ranges_m, angles_rad = sweep.T
    if not ((ranges_m >= 0) & (ranges_m <= MAX_RANGE_M) & (np.abs(angles_rad) <= math.tau)).all():
        raise DataError(
            f"{table.where(row)}: {column} must hold ranges from 0 to {MAX_RANGE_M:.0f} m in its first column and "
            f"angles in rad in its second, got {ranges_m.min():.2f} to {ranges_m.max():.2f} and "
            f"{angles_rad.min():.2f} to {angles_rad.max():.2f}"
        )
    return sweep


def lidar_reach_m(table: DeepSenseTable, column: str, n_rays: int) -> float:
    """Reach of the LiDAR, which no file states: the usual one, or the largest range in the table beyond it."""
    return max(LIDAR_REACH_M, *(float(read_sweep(table, column, row, n_rays)[:, 0].max()) for row in range(len(table))))


def read_sweeps(table: DeepSenseTable, column: str, n_rays: int, reach_m: float) -> NDArray[np.float64]:
    """[n_rows, n_rays, 2] range in m, angle in rad; a ray without an echo has the reach, as in all recordings."""
    sweeps = np.stack([read_sweep(table, column, row, n_rays) for row in range(len(table))])
    sweeps[..., 0] = np.where(sweeps[..., 0] == 0.0, reach_m, sweeps[..., 0])
    return sweeps


def read_camera(table: DeepSenseTable, column: str, row: int) -> NDArray[np.uint8]:
    """[64, 64, 3] uint8 RGB.

    Raises:
        DataError: the file is no image, or Pillow is missing.
    """
    try:
        return read_image(table.file(column, row), CAMERA_SIZE)
    except DataError as error:
        raise DataError(f"{table.where(row)}: {error}") from error
