"""Progress of a recording, and the tables of `record`, `import`, `check` and `inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...datasets.deepsense.deepsense_folder import ImportReport
from ...datasets.deepsense.deepsense_samples import listed_counts
from ...datasets.recordings.recording_layout import Field
from ...datasets.recordings.recording_survey import Finding
from ...emulator.radio.doppler import coherence_time_s
from ..recording.inspection import LABELS, Inspection, StationFacts
from ..recording.record import RecordReport
from ..recording.traced_paths import PathFigures
from ..schema.world_section import WorldSection
from .console_elements import data_table, print_facts
from .progress_display import ProgressDisplay

#: Blockage label -> heading of its share of blocked frames.
SHORT_LABELS = {"blocked_geometric": "blocked", "blocked_labeled": "labeled", "blocked_power": "power"}
_MORE_COLUMNS = ("differ", "events", "same", "NaN")
#: Explanation of the column headings of both tables.
LEGEND = (
    "blocked, labeled, power: share of frames blocked by geometry, data set label, beam power; "
    "differ: share in which the"
    " power label differs from the other; same: same best beam as one frame before; NaN: sweeps with an unmeasured beam"
)
#: Diffraction turns the phase of some direct paths; a convention turns all.
MOST_WRONG_PHASES = 0.5
#: Without a terminal, one line is printed per this many percent.
PERCENT_PER_LINE = 20


class RecordingProgress(ProgressDisplay):
    """A progress bar on a terminal, a few plain lines elsewhere; called with (instants done, instants in total)."""

    def __init__(self, console: Console, section: WorldSection) -> None:
        super().__init__(console)
        self._what, self._printed = f"recording {section.n_sites} base stations x {section.duration_s:g} s", 0
        self.phase(self._what, "frames", section.n_ticks * section.n_sites)

    def __call__(self, n_done: int, n_all: int) -> None:
        self.advanced(n_done)
        percent = 100 * n_done // n_all
        if not self._console.is_terminal and percent >= self._printed + PERCENT_PER_LINE:
            self._printed = percent - percent % PERCENT_PER_LINE
            self._console.print(f"{self._what}: {percent} %", soft_wrap=True)


def print_record_report(console: Console, report: RecordReport) -> None:
    """Prints a table of the base stations, and the shares of blocked frames and of differing labels."""
    table = _station_table("frames", "seq.", "blocked", "power", "differ", "events", "same")
    for index, station in enumerate(report.stations):
        table.add_row(
            str(index),
            station.name,
            f"{station.n_frames:,}",
            f"{station.n_sequences:,}",
            _percent(station.blocked_share),
            _percent(station.power_blocked_share),
            _percent(station.disagreement),
            f"{station.n_events:,}",
            _percent(station.beam_persistence),
        )
    console.print(table)
    n_frames = sum(station.n_frames for station in report.stations)
    shares = [station.blocked_share for station in report.stations]
    differ = [station.disagreement for station in report.stations if station.disagreement is not None]
    doubt = f"; the two labels differ in {_percent(float(np.mean(differ)))} of the frames" if differ else ""
    console.print(
        f"{report.path}: {n_frames:,} frames, {report.n_bytes / 1e6:,.1f} MB,"
        f" blocked {_percent(float(np.mean(shares)))} ({_percent(min(shares))} to {_percent(max(shares))}){doubt}",
        soft_wrap=True,
        markup=False,
    )


def print_path_figures(console: Console, stations: Sequence[PathFigures], attenuating: Sequence[str]) -> None:
    """Prints what the paths of a ray tracer look like, and what may be wrong with them; nothing without such paths.

    Args:
        console: where.
        stations: paths of every base station.
        attenuating: tables of the world that would attenuate the emulator's own paths.
    """
    if not stations:
        return
    n_frames, n_paths = sum(one.n_frames for one in stations), sum(one.n_paths for one in stations)
    facts = {"paths": f"{n_paths:,}, {n_paths / n_frames:.1f} per frame"}
    if n_missing := sum(one.n_missing for one in stations):
        facts["left out"] = f"{n_missing:,} frames of the world, which the file does not have; no sample crosses a gap"
    if n_empty := sum(one.n_empty for one in stations):
        facts["no path"] = f"{n_empty:,} frames"
    if n_behind := sum(one.n_behind for one in stations):
        facts["behind"] = f"{n_behind:,} paths arrive from behind the array, which does not receive them"
    print_facts(console, facts)
    if attenuating:
        console.print(
            f"note: {' and '.join(f'world.{table}' for table in attenuating)} do not attenuate paths of a file, which"
            " the ray tracer has to do; the other sensors see them",
            soft_wrap=True,
        )
    shares = [one.wrong_phase_share for one in stations if one.wrong_phase_share is not None]
    if shares and max(shares) > MOST_WRONG_PHASES:
        console.print(
            f"note: in {_percent(max(shares))} of the direct paths of a base station the phase of the gain is not that"
            " of the delay at the carrier; multiply gains by exp(-2j pi carrier_hz delay_s) if they lack it",
            soft_wrap=True,
        )
    shares = [one.wrong_doppler_share for one in stations if one.wrong_doppler_share is not None]
    if shares and max(shares) > MOST_WRONG_PHASES:
        console.print(
            f"note: in {_percent(max(shares))} of the direct paths of a base station doppler_hz is not that of the"
            " user's velocity in this world; it is in Hz, above 0 where the path becomes shorter",
            soft_wrap=True,
        )


def print_import_report(console: Console, report: ImportReport) -> None:
    """Prints what an import read, kept and found in the labels."""
    facts = {
        "samples": f"{report.n_rows:,} of {report.n_rows_read:,} kept, in {report.n_sequences:,} sequences",
        "rate": f"{report.rate_hz:.2f} Hz inside sequences",
        "sensors": ", ".join(report.modalities) or "none",
    }
    if report.dropped:
        facts["dropped"] = listed_counts(report.dropped)
    if report.positions:
        facts["positions"] = report.positions
    if report.n_beams is not None:
        facts["beams"] = f"{report.n_beams}; {report.n_nan_sweeps:,} sweeps with an unmeasured beam"
    if report.beam_numbering is not None:
        numbering = report.beam_numbering
        facts["labels"] = f"{numbering.name}; agree with {_percent(numbering.agreement)} of the power files"
    if report.n_labels_alone:
        facts["no powers"] = f"{report.n_labels_alone:,} samples, whose best beam is the label"
    if report.blocked_share is not None:
        differ = report.blockage_disagreement
        doubt = "no power to compare with" if differ is None else f"label and power differ in {_percent(differ)}"
        facts["blocked"] = f"{_percent(report.blocked_share)} of samples; {doubt}"
    print_facts(console, facts)
    for note in report.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    console.print(f"wrote {report.path}", soft_wrap=True, markup=False)


def print_findings(console: Console, found: Sequence[Finding]) -> None:
    """Prints findings about a recording, a line each, and how many there are of every kind."""
    for one in found:
        console.print(f"{one.kind}: {one.sentence}", soft_wrap=True, markup=False)
    counts = Counter(one.kind for one in found)
    if not counts["wrong"] and not counts["implausible"]:
        console.print("nothing is missing, wrong or implausible")


def print_inspection(console: Console, inspection: Inspection) -> None:
    """Prints shapes, rates and label balance of a recording."""
    seed = "no seed" if inspection.seed is None else f"seed {inspection.seed}"
    console.print(
        f"{inspection.path}: {len(inspection.stations)} base station(s), {inspection.n_bytes / 1e6:,.1f} MB, "
        f"made by {inspection.created_by}, {seed}",
        soft_wrap=True,
        markup=False,
    )
    _print_fields(console, inspection)
    rates_hz = [facts.measured_rate_hz or facts.rate_hz for facts in inspection.stations]
    spread = f"{min(rates_hz):.2f}" + (f" to {max(rates_hz):.2f}" if max(rates_hz) > 1.001 * min(rates_hz) else "")
    longest_s = max(facts.duration_s for facts in inspection.stations)
    console.print(f"{spread} frames per second, up to {longest_s:.1f} s", soft_wrap=True)
    _print_doppler(console, inspection)
    labels = [name for name in LABELS if any(name in facts.blocked_shares for facts in inspection.stations)]
    table = _station_table("frames", "seq.", *(SHORT_LABELS[name] for name in labels), *_MORE_COLUMNS)
    for facts in inspection.stations:
        table.add_row(str(facts.index), escape(facts.name), *_station_cells(facts, labels))
    console.print(table)


def _print_doppler(console: Console, inspection: Inspection) -> None:
    """Prints how the Doppler shifts in the strongest beams spread; nothing where none are recorded."""
    spreads_hz = [facts.doppler_spread_hz for facts in inspection.stations if facts.doppler_spread_hz is not None]
    if spreads_hz:
        middle_hz, high_hz = np.median([one[0] for one in spreads_hz]), max(one[1] for one in spreads_hz)
        console.print(
            f"Doppler spread in the strongest beam: median {middle_hz:,.1f} Hz, 9 of 10 frames below {high_hz:,.0f} Hz,"
            f" where the channel is coherent for {_seconds(coherence_time_s(high_hz))}",
            soft_wrap=True,
        )


def _seconds(time_s: float) -> str:
    return "ever" if np.isinf(time_s) else f"{1e3 * time_s:,.3g} ms"


def _print_fields(console: Console, inspection: Inspection) -> None:
    """Prints the fields of all base stations; a field that differs in shape gets its own line."""
    # fields are compared as whole values: the same name with another shape is another line
    seen: Counter[Field] = Counter()
    for facts in inspection.stations:
        seen.update(facts.fields)
    table = data_table()
    for heading in ("field", "one frame", "type", "unit", "base stations"):
        table.add_column(heading, overflow="fold")
    for field, n_stations in seen.items():
        shape = " x ".join(map(str, field.shape)) or "1"
        table.add_row(field.name, shape, field.dtype, escape(field.unit), str(n_stations))
    console.print(table)


def _station_cells(facts: StationFacts, labels: list[str]) -> list[str]:
    return [
        f"{facts.n_frames:,}",
        f"{facts.n_sequences:,}",
        *(_percent(facts.blocked_shares.get(label)) for label in labels),
        _percent(facts.disagreement),
        f"{facts.n_events:,}",
        _percent(facts.beam_persistence),
        _percent(facts.nan_sweep_share),
    ]


def _station_table(*columns: str) -> Table:
    table = data_table(caption=LEGEND)
    table.add_column("bs", justify="right")
    table.add_column("name", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.1f}%"
