"""Drawing of the page of a run that goes on: the sections of its report, as far as they are known by now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..report.figure_style import figure_style, inline_svg
from ..report.html_page import PageFacts, PageFigure, PagePart, PageSection, PageStatus, PageText, html_page
from ..report.learning_figures import learning_figures
from ..report.network_figures import network_figures
from ..report.report_figure import ReportFigure
from ..report.round_records import RoundRecords
from ..report.run_tables import (
    changed_fields,
    fault_table,
    link_table,
    node_table,
    off_facts,
    score_table,
    traffic_facts,
)
from ..report.sheaf_figures import sheaf_figures
from ..report.time_figures import time_figures
from ..running.progress_pace import rate_text, time_text
from .link_figures import fading_figures
from .run_so_far import RunSoFar

#: Processor time in s for the figures of one drawing; a figure that was begun is finished.
BUDGET_S = 0.6
SCORES, NETWORK, TIME, COUPLING = "Scores", "Network and traffic", "Time and energy", "Coupling"
_SCRIPT = Path(__file__).with_name("live.js")
#: Figures of edges that show the last rounds alone.
_OF_LAST_ROUNDS = frozenset({"network", "links"})
_DOING = {"loading": "Loading", "recording": "Recording the world", "exporting": "Exporting models"}
_UNITS = {"recording": "frames", "training": "rounds", "exporting": "models"}


class LiveDrawer:
    """Draws the page again and again. All its figures take seconds: each time the oldest are drawn anew.

    Attributes:
        is_behind: whether a figure of the last page shows fewer rounds than its numbers.
    """

    def __init__(self) -> None:
        self._drawn: dict[str, _DrawnFigure] = {}
        self.is_behind = False

    def page(self, run: RunSoFar, version: int, budget_s: float = BUDGET_S) -> str:
        """Whole text of the page.

        Args:
            run: what is shown.
            version: number of its state.
            budget_s: processor time in s after which no more figures are drawn anew; one is.
        """
        facts, records = run.facts, run.records()
        figures = {} if records is None else _figures(run, records)
        with figure_style():
            self._draw_oldest([one for several in figures.values() for one in several], run.rounds_done, budget_s)
        parts = {section: self._parts(several) for section, several in figures.items()}
        return html_page(
            f"{facts['scenario']}, {facts['algorithm']}, seed {facts['seed']}",
            _subtitle(run),
            list(_sections(run, records, parts)),
            f"Run {facts['folder']}, drawn by sheafedge {facts['sheafedge']} while it goes on.",
            _status(run, version),
        )

    def _draw_oldest(self, figures: Sequence[ReportFigure], rounds_done: int, budget_s: float) -> None:
        for figure in figures:
            self._drawn.setdefault(figure.name, _DrawnFigure(-1, ""))
        until_s = time.process_time() + budget_s
        stale = [figure for figure in figures if self._drawn[figure.name].rounds_done != rounds_done]
        for figure in sorted(stale, key=lambda one: self._drawn[one.name].rounds_done):
            svg = inline_svg(figure.draw(1), figure.name, figure.caption)
            self._drawn[figure.name] = _DrawnFigure(rounds_done, svg)
            if time.process_time() >= until_s:
                break
        self.is_behind = any(self._drawn[figure.name].rounds_done != rounds_done for figure in figures)

    def _parts(self, figures: Sequence[ReportFigure]) -> list[PagePart]:
        return [PageFigure(svg, one.caption) for one in figures if (svg := self._drawn[one.name].svg)]


class _DrawnFigure(NamedTuple):
    """A figure as it was after so many rounds; -1 and "" before it is drawn for the first time."""

    rounds_done: int
    svg: str


def _subtitle(run: RunSoFar) -> str:
    task, nodes = run.facts["task"], run.nodes
    if nodes is None:
        return f"{task}, {run.n_rounds} rounds"
    members = ", ".join(f"{n} {group}" for group, n in nodes["members"].items())
    server = " and a server" if len(nodes["groups"]) > sum(nodes["members"].values()) else ""
    return f"{task}, {run.n_rounds} rounds, clients: {members}{server}"


def _status(run: RunSoFar, version: int) -> PageStatus:
    if run.end is not None:
        tone, sentence = "complete" if run.end.state == "complete" else "stopped", run.end.sentence
    else:
        tone, sentence = "running", _doing(run)
    left_s = None if run.end or not run.total else run.pace.left_s(run.total)
    return PageStatus(
        sentence=sentence,
        tone=tone,  # type: ignore[arg-type]  # one of the two above
        share=run.done / run.total if run.total and not run.end else None,
        numbers=dict(_numbers(run)),
        left_s=left_s or None,
        version=version,
        gone="No answer: the run has ended, or its process was stopped. Where it is complete, its report is"
        f" {run.facts['report'] or run.facts['folder']}",
        script=_script(),
    )


def _doing(run: RunSoFar) -> str:
    if run.phase != "training":
        count = f": {run.done:,} of {run.total:,} {_UNITS[run.phase]}" if run.total else ""
        return f"{_DOING[run.phase]}{count}"
    if run.rounds_done == run.n_rounds:
        return f"All {run.n_rounds} rounds are complete; writing results"
    return f"Training: {run.rounds_done} of {run.n_rounds} rounds are complete"


def _numbers(run: RunSoFar) -> Iterator[tuple[str, str]]:
    first = run.columns[0]
    for group, figures in run.scored.items():
        if (value := figures.get(first.key)) is not None:
            yield f"{first.title}, {group}", first.form.format(value)
    if run.rounds_done:
        yield "simulated", f"{run.now_s:.1f} s"
        yield "sent", f"{1e-6 * run.traffic['bytes']:,.1f} MB"
    if run.end is None:
        if rate := rate_text(run.pace.per_s, _UNITS.get(run.phase, "")):
            yield "pace", rate
        yield "so far", time_text(run.pace.elapsed_s)


def _figures(run: RunSoFar, records: RoundRecords) -> dict[str, list[ReportFigure]]:
    """Section -> its figures."""
    network = [
        replace(figure, caption=f"{figure.caption} {_last_rounds(run)}") if figure.name in _OF_LAST_ROUNDS else figure
        for figure in network_figures(records)
    ]
    return {
        SCORES: list(learning_figures(records)),
        NETWORK: [*network, *fading_figures(run.edges, records)],
        TIME: list(time_figures(records)),
        COUPLING: list(sheaf_figures(records)),
    }


def _last_rounds(run: RunSoFar) -> str:
    first, last = run.edges.last_rounds
    return f"Round {first} alone." if first == last else f"Rounds {first} to {last} alone."


def _sections(
    run: RunSoFar, records: RoundRecords | None, figures: Mapping[str, Sequence[PagePart]]
) -> Iterator[PageSection]:
    facts = run.facts
    if run.notes:
        yield PageSection("Notes", [PageText(note, "warning") for note in run.notes])
    if records is not None:
        scores = [score_table(records)] if run.scored else []
        yield PageSection(SCORES, [*scores, *figures[SCORES]])
        yield PageSection(NETWORK, [*figures[NETWORK], traffic_facts(records), *_edges(run, records)])
        yield PageSection(TIME, [*figures[TIME], node_table(records)])
    yield PageSection("Faults", list(_faults(run, records)))
    if records is not None:
        yield PageSection(COUPLING, figures[COUPLING])
    yield PageSection("What is run", [PageFacts(facts["shown"])])
    yield PageSection("Settings", [changed_fields(facts["changed"])])


def _edges(run: RunSoFar, records: RoundRecords) -> Iterator[PagePart]:
    if records.diagnostics.edges:
        table = link_table(records)
        yield replace(table, note=f"{table.note} {_last_rounds(run)}")


def _faults(run: RunSoFar, records: RoundRecords | None) -> Iterator[PagePart]:
    table = fault_table(run.facts["changed"])
    if table.rows:
        yield table
        if records is not None and (off := off_facts(records)):
            yield PageFacts(off)


@cache
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")
