"""Turns a DeepSense 6G scenario folder, in the layout it is published in, into a recording file.

What a folder holds differs from scenario to scenario, so columns are discovered. Samples that cannot be used are left
out and counted, or refused; what contradicts itself is refused with its row, nothing is made up in the place of what
cannot be read, and what is left out is said in the report.

Source: DeepSense 6G (Alkhateeb et al. 2023), scenario pages 1-9 and 17-35. The data is CC BY-NC-SA 4.0 and not part of
this repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError, Modality
from ..data_folder import DataFolder
from ..power_blockage import PowerBlockage
from ..recordings.recording_layout import RecordingDescription, StationDescription
from ..recordings.recording_writer import RecordingWriter
from ..recordings.site_geometry import BEST_BEAM, CODEBOOK, CODEBOOK_ORDER, HEADING, LABELED, CodebookOrder
from ..windows.drive_bys import CODEBOOK_SIZES
from .deepsense_archive import find_table
from .deepsense_clock import read_clock, read_frame_index, read_sequence, time_in_sequences
from .deepsense_frames import FrameFiles, SampleSeries
from .deepsense_labels import (
    BeamNumbering,
    complaint_about_blockage,
    detect_beam_numbering,
    read_blockage,
)
from .deepsense_labels_alone import beams_of_labels, best_beams_alone, labels_alone
from .deepsense_samples import UsableSamples
from .deepsense_sensors import SWEEP_BEAMS, Positions, read_positions, read_powers
from .deepsense_sources import PositionChoice, Sources, find_sources
from .deepsense_table import DeepSenseTable, read_table

ROWS_AT_ONCE = 64

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
        positions: "calibrated" or "raw"; "" without positions.
        n_beams: number of beams that were kept; None without powers.
        n_nan_sweeps: number of rows of the table with a beam that was not measured.
        n_labels_alone: number of rows whose best beam is the label, because they have no powers.
        dropped: reason -> number of rows that were left out.
        beam_numbering: numbering of the label column and its agreement; None without one, or without powers.
        blocked_share: share of rows labeled as blocked; None without labels.
        blockage_disagreement: share of rows where the label and `PowerBlockage` differ; None without labels or powers.
        notes: what was left out or assumed, one sentence each.
    """

    path: Path
    n_rows_read: int
    n_rows: int
    n_sequences: int
    rate_hz: float
    modalities: tuple[Modality, ...]
    positions: str
    n_beams: int | None
    n_nan_sweeps: int
    n_labels_alone: int
    dropped: Mapping[str, int]
    beam_numbering: BeamNumbering | None
    blocked_share: float | None
    blockage_disagreement: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Choices of an import.

    Attributes:
        modalities: sensors to import; none: all that the table has.
        positions: calibrated or raw; "auto": calibrated where there are both.
        n_beams: every (64 / n_beams)-th beam is kept, and the best beam is the best of these; published figures of
            scenario 23 are for 32.
        nan_beams: "keep" stores sweeps with beams that were not measured as they are, and takes the best of the others;
            "drop" leaves out these rows.
        blockage_check: "report" turns the refusal of blockage labels that contradict the power into a note.
        heading_deg: bearing that the array faces, clockwise from north; None: not known, and not stated.
        codebook_order: how the beams follow each other, seen from above.
        strict: whether a sample that cannot be used refuses the folder; otherwise it is left out and counted, so that
            `frame_index` has a hole there.

    Raises:
        ConfigError: an unknown choice.
    """

    modalities: Sequence[str] = ()
    positions: PositionChoice = "auto"
    n_beams: int = SWEEP_BEAMS
    nan_beams: NanBeams = "keep"
    blockage_check: BlockageCheck = "refuse"
    heading_deg: float | None = None
    codebook_order: CodebookOrder = "clockwise"
    strict: bool = False

    def __post_init__(self) -> None:
        if self.n_beams not in CODEBOOK_SIZES:
            sizes = ", ".join(map(str, CODEBOOK_SIZES))
            raise ConfigError(f"data.n_beams must be one of {sizes}, got {self.n_beams}")
        if self.nan_beams not in {"keep", "drop"} or self.blockage_check not in {"refuse", "report"}:
            raise ConfigError(
                "nan_beams must be keep or drop and blockage_check refuse or report, got"
                f" {self.nan_beams!r}, {self.blockage_check!r}"
            )
        if self.positions not in {"auto", "calibrated", "raw"}:
            raise ConfigError(f"positions must be auto, calibrated or raw, got {self.positions!r}")
        if self.heading_deg is not None and not -360.0 <= self.heading_deg <= 360.0:
            raise ConfigError(
                f"heading_deg must be degrees clockwise from north, -360 to 360, got {self.heading_deg:g}; 90 is east"
            )

    @property
    def facing(self) -> Mapping[str, float | str]:
        """What the geometry of the base station states of its array; nothing that was not said."""
        heading = {} if self.heading_deg is None else {HEADING: self.heading_deg}
        return {**heading, **({} if self.codebook_order == "clockwise" else {CODEBOOK_ORDER: self.codebook_order})}


def import_deepsense(
    root: Path, scenario: int, out: Path, *, created_by: str = "sheafedge import", **choices: Any
) -> ImportReport:
    """Writes one scenario as a recording with one base station.

    Args:
        root: folder with `scenario{N}.csv` or `scenario{N}_dev.csv`, or a folder above it.
        scenario: DeepSense number, such as 23.
        out: recording file, see `recording_layout`.
        created_by: program and version, kept in the file.
        choices: fields of `ImportOptions`.

    Raises:
        ConfigError: an unknown option.
        DataError: a file is missing, unreadable or holds impossible values, of all samples or of one with `strict`; or
            files contradict each other.
    """
    options = ImportOptions(**choices)
    notes: list[str] = []
    folder = DataFolder(root)
    table = read_table(find_table(folder, scenario), folder)
    sources = find_sources(table, options.modalities, options.positions, notes)
    samples = UsableSamples(table, strict=options.strict)
    sources, alone = labels_alone(table, sources, samples, options.modalities)
    # before any file is read: a missing archive part is found at once, not after minutes
    samples.require_files(sources.file_columns(table), {sources.power: alone} if sources.power else {})
    read = _read_small(table, sources, samples, alone, options, notes)
    files = FrameFiles.found(table, sources, samples)
    kept = samples.kept()
    series = _series(table.take(kept), sources, read.take(kept), options, notes)
    n_alone = int(alone[kept].sum())
    labeled = {BEST_BEAM: LABELED, CODEBOOK: {"n_beams": options.n_beams}} if n_alone else {}
    fields, geometry = files.fields(series), {**files.geometry(series), **options.facing, **labeled}
    station = StationDescription(f"DeepSense scenario {scenario}", series.rate_hz, fields, geometry)
    text = (
        f'[data]\nsource = "deepsense"\nscenario = {scenario}\nn_beams = {options.n_beams}\n'
        f'nan_beams = "{options.nan_beams}"\npositions = "{sources.positions}"\n'
    )
    written = np.zeros(len(kept), dtype=np.bool_)
    # no seed: nothing was drawn
    with RecordingWriter(out, RecordingDescription(text, None, created_by, (station,))) as writer:
        for first in range(0, len(kept), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            frames, written[rows] = files.frames(series, kept[rows], rows)
            if written[rows].any():
                writer.append(0, frames)
        samples.kept()
    n_alone = int(alone[kept[written]].sum())
    return _report(
        out, len(table), (read.n_nan_sweeps, n_alone), station.modalities, sources, series, written, samples, notes
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What every sample has in small files, of all rows or of those kept.

    Attributes:
        powers: [n_rows, 64], NaN where only the label is known; None where none are read.
        beam, blocked: [n_rows] labels; None without them.
        alone: [n_rows] samples with a beam label and no powers.
        best_beam: [n_rows] beams that their labels mean; None where there are no such samples beside others.
        positions: positions of the user.
        n_nan_sweeps: number of rows of the table with a beam that was not measured.
    """

    powers: NDArray[np.float64] | None
    beam: NDArray[np.int64] | None
    blocked: NDArray[np.bool_] | None
    alone: NDArray[np.bool_]
    best_beam: NDArray[np.int64] | None
    positions: Positions
    n_nan_sweeps: int = 0

    def take(self, rows: NDArray[np.int64]) -> _Read:
        """The same of some rows."""
        return replace(
            self,
            powers=None if self.powers is None else self.powers[rows],
            beam=None if self.beam is None else self.beam[rows],
            blocked=None if self.blocked is None else self.blocked[rows],
            alone=self.alone[rows],
            best_beam=None if self.best_beam is None else self.best_beam[rows],
            positions=self.positions.take(rows),
        )


def _read_small(
    table: DeepSenseTable,
    sources: Sources,
    samples: UsableSamples,
    alone: NDArray[np.bool_],
    options: ImportOptions,
    notes: list[str],
) -> _Read:
    powers: NDArray[np.float64] | None = None
    n_nan_sweeps = 0
    if sources.power:
        powers = read_powers(table, sources.power, samples, alone)
        is_nan: NDArray[np.bool_] = np.isnan(powers) & ~alone[:, None]
        n_nan_sweeps = int(np.count_nonzero(is_nan[samples.rows()].any(axis=1)))
        _refuse_unmeasured(table, is_nan, samples, options, notes)
    beam = samples.whole_numbers(sources.beam) if sources.beam else None
    best_beam = None
    if powers is not None and beam is not None and sources.beam and alone.any():
        best_beam = best_beams_alone(table, sources.beam, beam, powers, alone, samples, options.n_beams, notes)
    blocked = read_blockage(table, sources.blockage, samples) if sources.blockage else None
    positions = read_positions(table, sources.base_position, sources.user_position, samples)
    return _Read(powers, beam, blocked, alone, best_beam, positions, n_nan_sweeps)


def _refuse_unmeasured(
    table: DeepSenseTable,
    is_nan: NDArray[np.bool_],
    samples: UsableSamples,
    options: ImportOptions,
    notes: list[str],
) -> None:
    """Leave out sweeps by what is done about beams that were not measured, [n_rows, 64]."""
    n_beams = options.n_beams
    unheard = np.flatnonzero(_decimated(is_nan, n_beams).all(axis=1))
    if options.nan_beams == "drop":
        samples.leave_out(np.flatnonzero(is_nan.any(axis=1)).tolist(), "a beam that was not measured (NaN)")
        return
    samples.refuse(
        unheard.tolist(),
        "no beam was measured (NaN)",
        lambda row: (
            f"{table.where(row)}: all {n_beams} beams are NaN ({len(unheard)} rows are like that); "
            'remove the row, or import with nan_beams "drop"'
        ),
    )
    if n_left := int(np.count_nonzero(is_nan[samples.rows()].any(axis=1))):
        notes.append(f"{n_left} sweeps have NaN beams; their best beam is the best of the others")


def _series(
    table: DeepSenseTable, sources: Sources, read: _Read, options: ImportOptions, notes: list[str]
) -> SampleSeries:
    clock_s = read_clock(table, notes)
    sequence = read_sequence(table, clock_s, notes)
    time_s, rate_hz = time_in_sequences(table, clock_s, sequence, notes)
    values: dict[str, NDArray[Any]] = {
        "time_s": time_s,
        "sequence": sequence,
        "frame_index": read_frame_index(table, sequence),
    }
    numbering = None
    if read.powers is not None:
        swept = np.flatnonzero(~read.alone)
        if sources.beam and read.beam is not None:
            # a check only: the best beam below comes from the power files, which scores use as well
            numbering = detect_beam_numbering(table.take(swept), sources.beam, read.beam[swept], read.powers[swept])
        values["rf"] = _decimated(read.powers, options.n_beams)
        best_beam = np.zeros(len(table), dtype=np.int64) if read.best_beam is None else read.best_beam.copy()
        best_beam[swept] = np.nanargmax(values["rf"][swept], axis=1)
        values["best_beam"] = best_beam
    elif sources.beam and read.beam is not None:
        values["best_beam"] = beams_of_labels(table, sources.beam, read.beam, options.n_beams, notes)
    if sources.blockage and read.blocked is not None:
        values["blocked_labeled"] = read.blocked
        if read.powers is not None:
            values["blocked_power"] = _checked_blockage(table, sources.blockage, read, sequence, options, notes)
        else:
            notes.append(f"{sources.blockage} is taken as it is: there are no powers to check it with")
    if read.positions.values is not None:
        values["gps"] = read.positions.values
    return SampleSeries(values, rate_hz, read.positions, numbering)


def _checked_blockage(
    table: DeepSenseTable,
    column: str,
    read: _Read,
    sequence: NDArray[np.int64],
    options: ImportOptions,
    notes: list[str],
) -> NDArray[np.bool_]:
    """[n_rows] blockage by power alone, once the labels were found to follow it."""
    assert read.powers is not None, "asked for by the caller"
    assert read.blocked is not None, "asked for by the caller"
    # of all 64 beams: a kept subset may miss the beam that carries the link
    best_power_db = 10 * np.log10(np.nanmax(read.powers, axis=1))
    if complaint := complaint_about_blockage(table, column, read.blocked, best_power_db, sequence):
        if options.blockage_check == "refuse":
            raise DataError(f'{complaint}; repair the labels, or import with blockage_check "report"')
        notes.append(complaint)
    return PowerBlockage().label(best_power_db)


def _decimated(powers: NDArray[Any], n_beams: int) -> NDArray[Any]:
    return powers[:, :: SWEEP_BEAMS // n_beams]


def _report(
    out: Path,
    n_rows_read: int,
    counts: tuple[int, int],
    modalities: tuple[Modality, ...],
    sources: Sources,
    series: SampleSeries,
    written: NDArray[np.bool_],
    samples: UsableSamples,
    notes: list[str],
) -> ImportReport:
    values = {name: of_all[written] for name, of_all in series.values.items()}
    label, by_power = values.get("blocked_labeled"), values.get("blocked_power")
    return ImportReport(
        path=out,
        n_rows_read=n_rows_read,
        n_rows=int(written.sum()),
        n_sequences=len(np.unique(values["sequence"])),
        rate_hz=series.rate_hz,
        modalities=modalities,
        positions=sources.positions,
        n_beams=values["rf"].shape[1] if "rf" in values else None,
        n_nan_sweeps=counts[0],
        n_labels_alone=counts[1],
        dropped=dict(samples.dropped),
        beam_numbering=series.numbering,
        blocked_share=None if label is None else float(label.mean()),
        blockage_disagreement=None if label is None or by_power is None else float((label != by_power).mean()),
        notes=tuple(notes),
    )
