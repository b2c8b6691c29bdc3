"""Live view of a replay on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ...emulator.edge.manifest import Manifest
from ..replay.replay_report import glance, report_lines
from ..replay.session import Session
from ..replay.stream_book import FrameOutcome, StreamBook
from ..tasks.task_spec import ForecastTask, Task
from .console_elements import print_facts, print_warning, standard_console

#: Shortest time between two updates of the view: when idle, and while replies are pending, which drawing delays.
DRAW_S, DRAW_BUSY_S = 0.25, 1.0
#: Drawing takes at most 1 / DRAWING_SHARE of the time.
DRAWING_SHARE = 20
#: Number of progress lines without a terminal.
LINES_PER_REPLAY = 6
#: Number of base stations that get a timeline, and its length in instants.
STRIPS, STRIP_LENGTH = 3, 60
_BARS = "▁▂▃▄▅▆▇█"
#: Power loss that fills a bar: half the power is gone.
_FULL_BAR_DB = 3.0


class ReplayView:
    """View of a running replay, drawn only at times when that delays no reply.

    Args:
        console: output of the view.
        manifest: manifest of the served model.
        what: short description of the streamed recording.
        total_s: length of the streamed part in s.
    """

    def __init__(self, console: Console, manifest: Manifest, what: str, total_s: float) -> None:
        self._console, self._manifest, self._what, self._total_s = console, manifest, what, total_s
        self._live = Live(console=console, auto_refresh=False, transient=True)
        # the first update is due at once
        self._next_s = self._next_busy_s = -np.inf
        self._n_lines = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(self._what, soft_wrap=True, markup=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def look(self, session: Session, now_s: float, *, idle: bool) -> None:
        """Update the view if the shortest time since the last update has passed."""
        if not self._console.is_terminal:
            self._print_line(session)
        elif now_s >= (self._next_s if idle else self._next_busy_s):
            began_s = time.perf_counter()
            self._live.update(self._picture(session), refresh=True)
            # slow terminals are drawn less often
            took_s = DRAWING_SHARE * (time.perf_counter() - began_s)
            self._next_s, self._next_busy_s = now_s + max(DRAW_S, took_s), now_s + max(DRAW_BUSY_S, took_s)

    def stopping(self) -> None:
        """Print that the replay stops after open replies."""
        self._console.print("stopping; press Ctrl-C again to stop without a summary")

    def _print_line(self, session: Session) -> None:
        done = session.since_s / self._total_s if self._total_s else 1.0
        if done * LINES_PER_REPLAY < self._n_lines + 1:
            return
        self._n_lines = int(done * LINES_PER_REPLAY)
        lines = report_lines(glance(session, self._manifest), session.books[0].stream.task)
        said = "; ".join(
            f"{name} {lines[name]}" if name == "onsets" else lines[name]
            for name in ("answers", "scores", "onsets")
            if name in lines
        )
        self._console.print(f"{session.since_s:.1f} of {self._total_s:.1f} s: {said}", soft_wrap=True, markup=False)

    def _picture(self, session: Session) -> Group:
        task = session.books[0].stream.task
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_row("", f"{session.since_s:.1f} of {self._total_s:.1f} s")
        for name, line in report_lines(glance(session, self._manifest), task).items():
            table.add_row(name, Text(line))
        strips = [part for book in session.books[:STRIPS] for part in strip(book, self._manifest)]
        return Group(Text(self._what, style="bold"), table, *strips)


class ReplayConsole:
    """Console of a replay: warnings, the view while it runs, and the report at the end.

    Args:
        as_json: print the report as one JSON object to stdout, and everything else to stderr.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._console, self._as_json = standard_console(stderr=as_json), as_json

    def warn(self, note: str) -> None:
        """Print a warning."""
        print_warning(self._console, note)

    def view(self, manifest: Manifest, what: str, total_s: float) -> ReplayView:
        """View of a replay that begins."""
        return ReplayView(self._console, manifest, what, total_s)

    def show_report(self, manifest: Manifest, recording: Path, found: Mapping[str, Any], task: Task) -> None:
        """Print the report."""
        if self._as_json:
            # NaN is no JSON: undefined figures were left out of the report
            standard_console().print_json(json.dumps(found, allow_nan=False))
            return
        heading = f"{found['recording_s']:.1f} s of {recording.name} in {found['wall_s']:.1f} s"
        self._console.print(f"[bold]{escape(manifest.name)}[/bold]  {escape(heading)}", soft_wrap=True)
        print_facts(self._console, report_lines(found, task))


def strip(book: StreamBook, manifest: Manifest) -> list[Text]:
    """Timeline of the last instants of one base station: truth and predictions, and the newest answer."""
    known = book.known[-STRIP_LENGTH:]
    if not len(known):
        return []
    samples = book.stream.samples.take(book.stream.scored[known])
    drawn = {**_blockage_strip(book, known, samples), **_beam_strip(book, known, samples)}
    lines = [Text(f"{book.stream.name}  {book.stream.station}", style="dim")]
    lines += [Text.assemble((f"  {name:9}", "dim"), text) for name, text in drawn.items()]
    if book.last is not None:
        lines.append(Text(f"  last     {said(book, manifest)}"))
    return lines


def said(book: StreamBook, manifest: Manifest) -> str:
    """Description of the newest answer: label, probability, attention, missing and stale sensors."""
    assert book.last is not None
    _, answer = book.last
    parts = [f"{answer.label} ({answer.probability:.2f})"]
    for series, odds in answer.forecast.items():
        at = int(np.argmax(odds))
        parts.append(f"{series} at most {odds[at]:.2f} in {answer.ahead_s[at]:g} s")
    if answer.attention:
        parts.append(" ".join(f"{name} {share:.0%}" for name, share in answer.attention.items()))
    if answer.missing:
        parts.append(f"without {', '.join(answer.missing)}")
    parts += [f"{name} is {age_s:.1f} s old" for name, age_s in answer.stale_s.items()]
    if answer.bundle != manifest.name:
        parts.append(f"by {answer.bundle}")
    return ", ".join(parts)


def _blockage_strip(book: StreamBook, known: Any, samples: Any) -> dict[str, Text]:
    """Blocked or clear, and warned or not; nothing where answers are no warnings."""
    blockages = book.stream.task.known_blockages(samples)
    if blockages is None:
        return {}
    blocked = "".join("█" if now else "▁" for now in blockages.blocked)
    warned = "".join(_warning_mark(book, int(instant)) for instant in known)
    title = "outage" if isinstance(book.stream.task, ForecastTask) else "blocked"
    return {title: Text(blocked), "warned": Text(warned, style="yellow")}


def _warning_mark(book: StreamBook, instant: int) -> str:
    outcome = book.outcome[instant]
    if outcome == FrameOutcome.ANSWERED:
        return "!" if book.chosen[instant] == 1 else "·"
    return "?" if outcome not in {FrameOutcome.NOT_ASKED, FrameOutcome.AWAITED} else " "


def _beam_strip(book: StreamBook, known: Any, samples: Any) -> dict[str, Text]:
    """Bars of the power that the chosen beams lose, full from 3 dB on; empty where answers choose no beam."""
    beams = book.stream.task.known_beams(samples)
    if beams is None:
        return {}
    powers = beams.powers
    chosen = book.chosen[known]
    answered = chosen >= 0
    best = powers.max(axis=1)
    # beam 0 stands in where there is no answer; those bars are not drawn
    loss_db = 10 * np.log10(best / powers[np.arange(len(known)), np.maximum(chosen, 0)])
    drawn = answered & ~np.isnan(loss_db)
    level = np.minimum(np.nan_to_num(loss_db) / _FULL_BAR_DB * len(_BARS), len(_BARS) - 1).astype(int)
    bars = "".join(_BARS[one] if there else " " for one, there in zip(level, drawn, strict=True))
    numbers = ""
    if answered.any():
        at = int(np.flatnonzero(answered)[-1])
        lost = "power not known" if np.isnan(loss_db[at]) else f"{loss_db[at]:.1f} dB lost"
        numbers = f"  beam {chosen[at]}, best {int(samples.label[at])}, {lost}"
    return {"dB lost": Text(bars + numbers, style="yellow")}
