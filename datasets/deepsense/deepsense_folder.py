"""Turns a DeepSense 6G scenario folder, in the layout it is published in, into a recording file.

What a folder holds differs from scenario to scenario, so columns are discovered. What contradicts itself is refused
with its row, nothing is made up in the place of what cannot be read, and what is left out is said in the report.

Source: DeepSense 6G (Alkhateeb et al. 2023), scenario pages 1-9 and 17-29. The data is CC BY-NC-SA 4.0 and not part of
this repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError, Modality
from ...emulator.regular_file import quoted, shown
from ..data_folder import DataFolder, listed
from ..power_blockage import PowerBlockage
from ..recordings.recording_layout import Field, RecordingDescription, StationDescription, standard_field
from ..recordings.recording_writer import RecordingWriter
from ..windows.drive_bys import CODEBOOK_SIZES
from .deepsense_clock import read_clock, read_frame_index, read_sequence, time_in_sequences
from .deepsense_labels import (
    BeamNumbering,
    complaint_about_blockage,
    detect_beam_numbering,
    read_blockage,
)
from .deepsense_sensors import (
    CAMERA_SIZE,
    DRONE_COLUMNS,
    SWEEP_BEAMS,
    Positions,
    lidar_reach_m,
    read_camera,
    read_positions,
    read_powers,
    read_sweep,
    read_sweeps,
)
from .deepsense_table import DeepSenseTable, find_table, read_table
from .image_files import CAN_READ_IMAGES

ROWS_AT_ONCE = 64
_GPS_FRAME = "WGS 84 for degrees; east and north of the base station for east_m and north_m"

NanBeams = Literal["keep", "drop"]
BlockageCheck = Literal["refuse", "report"]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Report of an import.

    Attributes:
        path: path of the recording.
        n_rows_read, n_rows: number of rows in the table, and of those kept.
        n_sequences: number of sequences among the kept rows.
        rate_hz: frames per second, measured inside sequences.
        modalities: modalities of the recording.
        n_beams: number of beams that were kept.
        n_nan_sweeps: number of rows of the table with a beam that was not measured.
        beam_numbering: numbering of the label column and its agreement; None without one.
        blocked_share: share of rows labeled as blocked; None without labels.
        blockage_disagreement: share of rows where the label and `PowerBlockage` differ; None without labels.
        notes: what was left out or assumed, one sentence each.
    """

    path: Path
    n_rows_read: int
    n_rows: int
    n_sequences: int
    rate_hz: float
    modalities: tuple[Modality, ...]
    n_beams: int
    n_nan_sweeps: int
    beam_numbering: BeamNumbering | None
    blocked_share: float | None
    blockage_disagreement: float | None
    notes: tuple[str, ...]


def import_deepsense(
    root: Path,
    scenario: int,
    out: Path,
    *,
    n_beams: int = SWEEP_BEAMS,
    nan_beams: NanBeams = "keep",
    blockage_check: BlockageCheck = "refuse",
    created_by: str = "sheafedge import",
) -> ImportReport:
    """Writes one scenario as a recording with one base station.

    Args:
        root: folder with `scenario{N}.csv` or `scenario{N}_dev.csv`, or the folder above it.
        scenario: DeepSense number, such as 23.
        out: recording file, see `recording_layout`.
        n_beams: every (64 / n_beams)-th beam is kept, and the best beam is the best of these; published figures of
            scenario 23 are for 32.
        nan_beams: "keep" stores sweeps with beams that were not measured as they are, and takes the best of the others;
            "drop" leaves out these rows, so that `frame_index` has holes there.
        blockage_check: "report" turns the refusal of blockage labels that contradict the power into a note.
        created_by: program and version, kept in the file.

    Raises:
        ConfigError: an unknown option.
        DataError: a file is missing, unreadable or holds impossible values; or files contradict each other.
    """
    if n_beams not in CODEBOOK_SIZES:
        raise ConfigError(f"data.n_beams must be one of {', '.join(map(str, CODEBOOK_SIZES))}, got {n_beams}")
    if nan_beams not in {"keep", "drop"} or blockage_check not in {"refuse", "report"}:
        raise ConfigError(
            f"nan_beams must be keep or drop and blockage_check refuse or report, got {nan_beams!r}, {blockage_check!r}"
        )
    notes: list[str] = []
    folder = DataFolder(root)
    table = read_table(find_table(folder, scenario), folder)
    sources = _find_sources(table, notes)
    # before any file is read: a missing archive part is found at once, not after minutes
    table.check_files(sources.file_columns(table))
    powers = read_powers(table, sources.power)
    kept = _measured_rows(table, powers, n_beams, nan_beams, notes)
    series = _read_series(table.take(kept), sources, powers[kept], n_beams, blockage_check, notes)
    sources = sources.with_reach(table.take(kept))
    name = f"DeepSense scenario {scenario}"
    station = StationDescription(name, series.rate_hz, sources.fields(series), sources.geometry(series))
    text = f'[data]\nsource = "deepsense"\nscenario = {scenario}\nn_beams = {n_beams}\nnan_beams = "{nan_beams}"\n'
    # no seed: nothing was drawn
    with RecordingWriter(out, RecordingDescription(text, None, created_by, (station,))) as writer:
        for rows in _in_groups(len(kept)):
            writer.append(0, sources.frames(table.take(kept[rows]), series, rows))
    n_nan_sweeps = int(np.isnan(powers).any(axis=1).sum())
    return _report(out, len(table), n_nan_sweeps, station.modalities, series, notes)


def _report(
    out: Path,
    n_rows_read: int,
    n_nan_sweeps: int,
    modalities: tuple[Modality, ...],
    series: _Series,
    notes: list[str],
) -> ImportReport:
    label, by_power = series.values.get("blocked_labeled"), series.values.get("blocked_power")
    return ImportReport(
        path=out,
        n_rows_read=n_rows_read,
        n_rows=len(series.values["sequence"]),
        n_sequences=len(np.unique(series.values["sequence"])),
        rate_hz=series.rate_hz,
        modalities=modalities,
        n_beams=series.values["rf"].shape[1],
        n_nan_sweeps=n_nan_sweeps,
        beam_numbering=series.numbering,
        blocked_share=None if label is None else float(label.mean()),
        blockage_disagreement=None if label is None or by_power is None else float((label != by_power).mean()),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    """Fields that are small enough to be read at once: all but LiDAR sweeps and images."""

    values: dict[str, NDArray[Any]]
    rate_hz: float
    positions: Positions
    numbering: BeamNumbering | None


@dataclass(frozen=True, slots=True)
class _Sources:
    """Names of the columns that are read; None where the table has none."""

    power: str
    lidar: str | None
    camera: str | None
    base_position: str | None
    user_position: str | None
    beam: str | None
    blockage: str | None
    n_rays: int
    reach_m: float = 0.0

    def with_reach(self, table: DeepSenseTable) -> _Sources:
        """The same with the reach of the LiDAR, for which all sweeps are read."""
        return replace(self, reach_m=lidar_reach_m(table, self.lidar, self.n_rays)) if self.lidar else self

    def geometry(self, series: _Series) -> dict[str, Any]:
        """Facts of the site that the recording states."""
        lidar = {"lidar": {"max_range_m": self.reach_m}} if self.lidar else {}
        return {**series.positions.geometry, **lidar}

    def file_columns(self, table: DeepSenseTable) -> list[str]:
        """Columns whose cells point to files that will be read."""
        columns = [self.power, self.lidar, self.camera, self.base_position, self.user_position]
        numbers = [self.beam, self.blockage, *(DRONE_COLUMNS if self.user_position else ())]
        columns += [name for name in numbers if name in table.columns and not table.is_inline(name)]
        return [name for name in columns if name]

    def fields(self, series: _Series) -> tuple[Field, ...]:
        """How the recording describes what is written."""
        columns = series.positions.columns
        changes: dict[str, dict[str, Any]] = {
            "rf": {"unit": "1, proportional to W"},
            "gps": {"columns": columns, "frame_of_reference": _GPS_FRAME},
        }
        fields = [
            standard_field(name, values.shape[1:], **changes.get(name, {})) for name, values in series.values.items()
        ]
        if self.lidar:
            fields.append(standard_field("lidar", (self.n_rays, 2)))
        if self.camera:
            fields.append(standard_field("camera", (CAMERA_SIZE, CAMERA_SIZE, 3)))
        return tuple(fields)

    def frames(self, table: DeepSenseTable, series: _Series, rows: slice) -> dict[str, NDArray[Any]]:
        """All fields of some rows; `table` holds just these, and their sweeps and images are read here."""
        frames = {name: values[rows] for name, values in series.values.items()}
        if self.lidar:
            frames["lidar"] = read_sweeps(table, self.lidar, self.n_rays, self.reach_m)
        if self.camera:
            frames["camera"] = np.stack([read_camera(table, self.camera, row) for row in range(len(table))])
        return frames


def _find_sources(table: DeepSenseTable, notes: list[str]) -> _Sources:
    power = table.column_with_prefix("unit1_pwr")
    if power is None:
        raise DataError(f"{shown(table.path)} has no column unit1_pwr_60ghz; columns: {listed(list(table.columns))}")
    lidar = table.first_column("unit1_lidar_SCR", "unit1_lidar")
    if lidar and not table.columns[lidar][0].lower().endswith(".mat"):
        notes.append(
            f"{lidar} is left out: only 2-D sweeps in .mat files are read, not {quoted(table.columns[lidar][0])}"
        )
        lidar = None
    camera = table.first_column("unit1_rgb")
    if camera and not CAN_READ_IMAGES:
        notes.append(f"{camera} is left out: install Pillow and import again to have the camera")
        camera = None
    user_position = table.first_column("unit2_loc_cal", "unit2_loc")
    base_position = table.first_column("unit1_loc")
    if user_position and not base_position and not set(DRONE_COLUMNS) <= set(table.columns):
        notes.append(f"{user_position} is stored in degrees: no unit1_loc tells where the base station is")
    sources = _Sources(
        power=power,
        lidar=lidar,
        camera=camera,
        base_position=base_position,
        user_position=user_position,
        beam=table.first_column("unit1_beam", "unit1_beam_index"),
        blockage=table.first_column("unit1_blockage", "blockage_label"),
        n_rays=len(read_sweep(table, lidar, 0)) if lidar else 0,
    )
    read = {power, lidar, camera, base_position, user_position, sources.beam, sources.blockage, *DRONE_COLUMNS}
    others = [name for name in table.columns if name.startswith("unit") and name not in read]
    if others:
        notes.append(f"columns not imported: {listed(others)}")
    return sources


def _read_series(
    table: DeepSenseTable,
    sources: _Sources,
    powers: NDArray[np.float64],
    n_beams: int,
    blockage_check: BlockageCheck,
    notes: list[str],
) -> _Series:
    clock_s = read_clock(table, notes)
    sequence = read_sequence(table, clock_s, notes)
    time_s, rate_hz = time_in_sequences(table, clock_s, sequence, notes)
    numbering = None
    if sources.beam:
        # a check only: the best beam below comes from the power files, which scores use as well
        numbering = detect_beam_numbering(table, sources.beam, table.whole_numbers(sources.beam), powers)
    kept_powers = _decimated(powers, n_beams)
    values: dict[str, NDArray[Any]] = {
        "time_s": time_s,
        "sequence": sequence,
        "frame_index": read_frame_index(table, sequence),
        "rf": kept_powers,
        "best_beam": np.nanargmax(kept_powers, axis=1),
    }
    if sources.blockage:
        # of all 64 beams: a kept subset may miss the beam that carries the link
        best_power_db = 10 * np.log10(np.nanmax(powers, axis=1))
        blocked = read_blockage(table, sources.blockage)
        if complaint := complaint_about_blockage(table, sources.blockage, blocked, best_power_db, sequence):
            if blockage_check == "refuse":
                raise DataError(f'{complaint}; repair the labels, or import with blockage_check "report"')
            notes.append(complaint)
        values |= {"blocked_labeled": blocked, "blocked_power": PowerBlockage().label(best_power_db)}
    positions = read_positions(table, sources.base_position, sources.user_position)
    if positions.values is not None:
        values["gps"] = positions.values
    return _Series(values, rate_hz, positions, numbering)


def _measured_rows(
    table: DeepSenseTable, powers: NDArray[np.float64], n_beams: int, nan_beams: NanBeams, notes: list[str]
) -> NDArray[np.int64]:
    """Rows to keep, by what is done about beams that were not measured."""
    has_nan = np.isnan(powers).any(axis=1)
    if nan_beams == "drop":
        if has_nan.all():
            raise DataError(
                f'{shown(table.path)}: every sweep has a NaN beam, so nan_beams "drop" leaves no row; use "keep"'
            )
        if has_nan.any():
            notes.append(f"{has_nan.sum()} rows with NaN beams were dropped; frame_index has holes there")
        return np.flatnonzero(~has_nan)
    unheard = np.flatnonzero(np.isnan(_decimated(powers, n_beams)).all(axis=1))
    if len(unheard):
        raise DataError(
            f"{table.where(unheard[0])}: all {n_beams} beams are NaN ({len(unheard)} rows are like that); "
            'remove the row, or import with nan_beams "drop"'
        )
    if has_nan.any():
        notes.append(f"{has_nan.sum()} sweeps have NaN beams; their best beam is the best of the others")
    return np.arange(len(table))


def _decimated(powers: NDArray[np.float64], n_beams: int) -> NDArray[np.float64]:
    return powers[:, :: SWEEP_BEAMS // n_beams]


def _in_groups(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, ROWS_AT_ONCE):
        yield slice(first, min(first + ROWS_AT_ONCE, n_rows))
