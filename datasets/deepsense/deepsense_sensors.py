"""Readers of powers, positions, LiDAR sweeps and images of a DeepSense table; impossible values are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, DataError
from ...emulator.modalities import LIDAR_REACH_M
from ...emulator.regular_file import shown
from ..matlab_file import read_mat
from ..point_cloud import read_ply, sweep_of_cloud
from ..windows.drive_bys import M_PER_DEGREE
from .deepsense_radar import read_radar_map
from .deepsense_rows import BASE_STATION_DRIFT_M, MAX_DISTANCE_M
from .deepsense_samples import UsableSamples
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

    def take(self, rows: NDArray[np.int64]) -> Positions:
        """The same of some rows."""
        return self if self.values is None else replace(self, values=self.values[rows])


def read_powers(
    table: DeepSenseTable, column: str, samples: UsableSamples, spared: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """[n_rows, 64] linear powers, NaN where a beam was not measured; samples without a power of each are dropped.

    Args:
        table, column, samples: where they are.
        spared: [n_rows] samples that have none, and stay NaN.

    Raises:
        DataError: samples are not dropped, and a file is unreadable, or a power is 0, negative or infinite.
    """
    powers = np.full((len(table), SWEEP_BEAMS), np.nan)
    for row in (one for one in samples.rows() if not spared[one]):
        with samples.reading(row, f"{column}: not {SWEEP_BEAMS} numbers"):
            powers[row] = table.numbers(column, row, SWEEP_BEAMS)
    (allowed,) = MODALITY_SPECS["rf"].recorded.ranges
    usable = allowed.holds(powers) | np.isnan(powers)
    bad = np.flatnonzero(~usable.all(axis=1))
    samples.refuse(
        bad.tolist(),
        f"{column}: a power of 0, below, or infinite",
        lambda row: (
            f"{table.where(row)}: {column} file {shown(table.file(column, row))} holds the power"
            f" {powers[row][~usable[row]][0]}, expected {allowed}, on a linear scale ({len(bad)} rows are like that);"
            " remove these rows"
        ),
    )
    return powers


def read_positions(
    table: DeepSenseTable, base_column: str | None, user_column: str | None, samples: UsableSamples
) -> Positions:
    """Latitude, longitude, distance and height of a drone; else east and north of the base station, else degrees.

    Samples without a position fix, or with one out of reach, are dropped.

    Raises:
        DataError: a base station that moves; or samples are not dropped, and a position is impossible.
    """
    base_deg = _read_degrees(table, base_column, samples) if base_column else None
    user_deg = _read_degrees(table, user_column, samples) if user_column else None
    is_drone = user_column is not None and set(DRONE_COLUMNS) <= set(table.columns)
    meters = [_read_meters(table, name, samples) for name in DRONE_COLUMNS] if is_drone else []
    geometry = {}
    kept = samples.kept()
    if base_deg is not None:
        _check_base_station_stays(table, str(base_column), base_deg, kept)
        # one place for all rows: fixes of the fixed station differ a little
        latitude_deg, longitude_deg = np.median(base_deg[kept], axis=0)
        geometry = {"latitude_deg": float(latitude_deg), "longitude_deg": float(longitude_deg)}
    if user_deg is None:
        return Positions(geometry=geometry)
    offset_m = None if base_deg is None else _east_north_m(base_deg, user_deg)
    if offset_m is not None:
        _refuse_out_of_reach(table, str(user_column), offset_m, samples)
    if is_drone:
        names = ("latitude_deg", "longitude_deg", "distance_m", "height_m")
        return Positions(np.column_stack([user_deg, *meters]), names, geometry)
    if offset_m is None:
        return Positions(user_deg, ("latitude_deg", "longitude_deg"), geometry)
    return Positions(offset_m, ("east_m", "north_m"), geometry)


def _read_meters(table: DeepSenseTable, column: str, samples: UsableSamples) -> NDArray[np.float64]:
    """[n_rows] distance or height."""
    meters = samples.numbers(column)
    far = np.flatnonzero(np.abs(meters) > MAX_DISTANCE_M).tolist()
    samples.refuse(
        far,
        f"{column}: out of reach",
        lambda row: (
            f"{table.where(row)}: {column} must be from {-MAX_DISTANCE_M:g} to {MAX_DISTANCE_M:g} m, got"
            f" {meters[row]:g} ({len(far)} rows are like that)"
        ),
    )
    return meters


def _check_base_station_stays(
    table: DeepSenseTable, column: str, base_deg: NDArray[np.float64], kept: NDArray[np.int64]
) -> None:
    drift_m = np.linalg.norm(_east_north_m(base_deg[kept[:1]], base_deg[kept]), axis=1)
    if drift_m.max() > BASE_STATION_DRIFT_M:
        moved = int(np.argmax(drift_m > BASE_STATION_DRIFT_M))
        raise DataError(
            f"{table.where(int(kept[moved]))}: {column} moved the base station by {drift_m[moved]:.0f} m; "
            "rows of different sites go into separate scenarios"
        )


def _refuse_out_of_reach(
    table: DeepSenseTable, column: str, offset_m: NDArray[np.float64], samples: UsableSamples
) -> None:
    distance_m = np.linalg.norm(offset_m, axis=1)
    far = np.flatnonzero(distance_m > MAX_DISTANCE_M)
    samples.refuse(
        far.tolist(),
        f"{column}: over {MAX_DISTANCE_M / 1000:g} km from the base station",
        lambda row: (
            f"{table.where(row)}: {column} is {distance_m[row] / 1000:.0f} km from the base station "
            f"({len(far)} rows are like that); remove rows without a position fix"
        ),
    )


def _read_degrees(table: DeepSenseTable, column: str, samples: UsableSamples) -> NDArray[np.float64]:
    """[n_rows, 2] latitude and longitude; NaN of samples that cannot be used."""
    degrees = np.full((len(table), 2), np.nan)
    rows = samples.rows()
    for row in rows:
        with samples.reading(row, f"{column}: not 2 numbers"):
            degrees[row] = table.numbers(column, row, 2)
    inside = (np.abs(degrees) <= (90.0, 180.0)).all(axis=1)
    bad = [row for row in samples.rows() if not inside[row]]
    missing = np.isnan(degrees).any(axis=1)

    def message(row: int) -> str:
        return (
            f"{table.where(row)}: {column} file {shown(table.file(column, row))} holds {degrees[row].tolist()}, "
            f"expected latitude and longitude in degrees ({len(bad)} rows are like that)"
        )

    samples.refuse([row for row in bad if missing[row]], f"{column}: no position (NaN)", message)
    samples.refuse([row for row in bad if not missing[row]], f"{column}: no latitude and longitude", message)
    return degrees


def _east_north_m(base_deg: NDArray[np.float64], user_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 2] meters on the plane that touches the earth at the base station."""
    north_deg, east_deg = (user_deg - base_deg).T
    east_m = east_deg * np.cos(np.radians(base_deg[:, 0])) * M_PER_DEGREE
    return np.stack([east_m, north_deg * M_PER_DEGREE], axis=1)


def read_sweep(table: DeepSenseTable, column: str, row: int, n_rays: int | None = None) -> NDArray[np.float64]:
    """[n_rays, 2] range in m, angle in rad, as on disk: range 0 is a ray without an echo.

    A point cloud of a 3-D LiDAR (.ply) comes down to a sweep by `sweep_of_cloud`.

    Args:
        n_rays: required number of rays; None: any.

    Raises:
        DataError: the file is unreadable or holds no such sweep.
    """
    path = table.file(column, row)
    try:
        if path.suffix.lower() == ".ply":
            return sweep_of_cloud(read_ply(path))
        sweep = read_mat(path)
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


def sweep_shape(table: DeepSenseTable, column: str, samples: UsableSamples) -> tuple[int, float]:
    """Number of rays of the LiDAR and its reach, which no file states: the usual one, or the largest range beyond it.

    All sweeps are read. Samples are dropped whose sweep cannot be used, or has other than the most frequent number of
    rays.
    """
    n_rays, farthest_m = np.zeros(len(table), dtype=np.int64), np.zeros(len(table))
    for row in samples.rows():
        with samples.reading(row, f"{column}: no sweep"):
            sweep = read_sweep(table, column, row)
            n_rays[row], farthest_m[row] = len(sweep), sweep[:, 0].max()
    kept = samples.kept()
    usual = int(np.bincount(n_rays[kept]).argmax())
    samples.refuse(
        kept[n_rays[kept] != usual].tolist(),
        f"{column}: another number of rays",
        lambda row: f"{table.where(row)}: {column} has a sweep of shape ({n_rays[row]}, 2), expected ({usual}, 2)",
    )
    return usual, max(LIDAR_REACH_M, float(farthest_m[samples.kept()].max()))


def read_echoes(table: DeepSenseTable, column: str, row: int, n_rays: int, reach_m: float) -> NDArray[np.float64]:
    """[n_rays, 2] `read_sweep` of one sample; a ray without an echo has the reach, as in all recordings."""
    sweep = read_sweep(table, column, row, n_rays)
    sweep[:, 0] = np.where(sweep[:, 0] == 0.0, reach_m, sweep[:, 0])
    return sweep


def read_radar(table: DeepSenseTable, column: str, row: int) -> NDArray[np.uint8]:
    """[n_ranges, 64] uint8 map of one sample.

    Raises:
        DataError: the file is unreadable or holds no radar signal.
    """
    try:
        return read_radar_map(table.file(column, row))
    except DataError as error:
        raise DataError(f"{table.where(row)}: {error}") from error


def read_camera(table: DeepSenseTable, column: str, row: int) -> NDArray[np.uint8]:
    """[64, 64, 3] uint8 RGB.

    Raises:
        DataError: the file is no image, or Pillow is missing.
    """
    try:
        return read_image(table.file(column, row), CAMERA_SIZE)
    except DataError as error:
        raise DataError(f"{table.where(row)}: {error}") from error
