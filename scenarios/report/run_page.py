"""The report of a run: its sections, in order. What a run does not have is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets.data_folder import DataFolder
from ...emulator.contracts import DataError
from ...emulator.regular_file import is_regular, read_regular
from ...version import __version__
from .answer_figures import answer_figures
from .beam_ladder_parts import beam_ladder_figure, beam_ladder_tables
from .figure_style import inline_svg
from .html_page import PageFacts, PageFigure, PagePart, PagePicture, PageSection, PageTable, PageText, html_page
from .ladder_parts import ladder_figure, ladder_table
from .learning_figures import learning_figures
from .network_figures import network_figures
from .report_figure import ReportFigure
from .run_records import RunRecords
from .run_tables import (
    changed_fields,
    deadline_table,
    fault_table,
    link_table,
    node_table,
    off_facts,
    run_facts,
    score_table,
    traffic_facts,
)
from .sheaf_figures import sheaf_figures
from .theory_figures import theory_figures
from .time_figures import time_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Larger pictures are left in their folder, so that a page can be mailed.
MAX_PICTURE_BYTES = 4 << 20
_CAPTIONS = {"links": "Radio links that suffered most, with what stood in their way."}


class RunPage:
    """Report of a run as a page, and the figures that it has drawn.

    Args:
        records: records of the run.
    """

    def __init__(self, records: RunRecords) -> None:
        self._records = records
        self._drawn: dict[str, Figure] = {}
        self._figures = {
            "Scores": tuple(learning_figures(records)),
            "Held-out answers": tuple(answer_figures(records)),
            "Value of prediction": (*beam_ladder_figure(records), *ladder_figure(records)),
            "Time and energy": tuple(time_figures(records)),
            "Network and traffic": tuple(network_figures(records)),
            "Coupling": tuple(sheaf_figures(records)),
            "Theory": tuple(theory_figures(records)),
        }

    @property
    def figures(self) -> list[ReportFigure]:
        """All figures of the page, in order."""
        return [figure for figures in self._figures.values() for figure in figures]

    def drawn(self, figure: ReportFigure) -> Figure:
        """A figure one column wide, as it stands in the page; call it inside of `figure_style.figure_style`."""
        if figure.name not in self._drawn:
            self._drawn[figure.name] = figure.draw(1)
        return self._drawn[figure.name]

    def text(self) -> str:
        """Whole text of the page; call it inside of `figure_style.figure_style`."""
        records, summary = self._records, self._records.summary
        parts: dict[str, list[PagePart]] = {
            "What was run": [*self._warnings(), run_facts(records)],
            "Scores": [score_table(records), *self._shown("Scores")],
            "Held-out answers": self._shown("Held-out answers"),
            "Value of prediction": self._value(summary.get("value", {})),
            "Time and energy": [*self._shown("Time and energy"), node_table(records)],
            "Network and traffic": self._network(),
            "Faults": self._faults(),
            "Coupling": self._shown("Coupling"),
            "Theory": self._shown("Theory"),
            "Street": list(_pictures(records.folder, summary.get("pictures", ()))),
            "Settings": [changed_fields(records.changed)],
        }
        first = records.first
        scores = ", ".join(
            f"{group} {first.form.format(figures[first.key])}"
            for group, figures in summary["groups"].items()
            if figures.get(first.key) is not None
        )
        return html_page(
            f"{records.scenario.name}, {records.scenario.algorithm}, seed {records.scenario.seed}",
            f"{summary['rounds']} rounds, {summary['clients']} clients; {first.title}: {scores}",
            [PageSection(title, shown) for title, shown in parts.items()],
            f"Report of {records.folder.name}, written by sheafedge {__version__}. For papers, sheafedge report writes"
            " the figures as SVG and PDF into figures/, one and two columns wide.",
        )

    def _shown(self, section: str) -> list[PagePart]:
        return [
            PageFigure(inline_svg(self.drawn(figure), figure.name, figure.caption), figure.caption)
            for figure in self._figures[section]
        ]

    def _warnings(self) -> Iterator[PagePart]:
        for sentence in self._records.summary["warnings"]:
            yield PageText(f"Warning: {sentence}", "warning")

    def _value(self, value: dict[str, Any]) -> list[PagePart]:
        if "groups" not in value:
            skipped = value.get("skipped")
            return [PageText(f"Not evaluated: {skipped}.", "note")] if skipped else []
        return [*_ladder(value), *self._shown("Value of prediction"), deadline_table(value)]

    def _network(self) -> list[PagePart]:
        records = self._records
        table = [link_table(records)] if records.diagnostics.edges else []
        return [*self._shown("Network and traffic"), traffic_facts(records), *table]

    def _faults(self) -> list[PagePart]:
        table = fault_table(self._records.changed)
        facts = off_facts(self._records)
        return [table, *([PageFacts(facts)] if facts else [])] if table.rows else []


def _ladder(value: Mapping[str, Any]) -> list[PageTable]:
    """Tables of the rules; none in runs from before there was a ladder."""
    if "ladder" not in value:
        return []
    return beam_ladder_tables(value) if value["decision"] == "beam" else [ladder_table(value)]


def _pictures(folder: Path, names: Sequence[str]) -> Iterator[PagePicture]:
    """Pictures that the run has drawn, where they are still there."""
    for name in names:
        try:
            path = DataFolder(folder).below(folder, name)
        except DataError:  # a name that leads out of the run folder, in a summary that was edited
            continue
        if is_regular(path) and path.stat().st_size <= MAX_PICTURE_BYTES:
            caption = _CAPTIONS.get(path.stem, f"Recording of base station {path.stem.removeprefix('bs')}.")
            yield PagePicture(read_regular(path, MAX_PICTURE_BYTES), caption)
