"""Figure of paired differences: what every method gains over the reference, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ..report.figure_style import COLUMN_WIDTHS_IN, INK, Columns, figure_style, new_figure
from ..report.shown_scores import heading
from ..tasks.task_spec import Column
from ..tasks.task_table import TASKS
from .figures import PANELS_IN_A_ROW, TITLE_IN, line_styles
from .result_table import figure_of, group_names, shown_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Height of a method, and of what surrounds the panels, in inches.
METHOD_IN, AROUND_IN = 0.2, 0.85
#: Names are broken after so many letters.
NAME_LETTERS = 26


@figure_style()
def draw_differences(results: Mapping[str, Any]) -> Figure:
    """Mean difference to the reference with its confidence interval: a panel per group, a line per method.

    Args:
        results: results with differences, from `with_differences`.
    """
    groups, column = group_names(results)[-PANELS_IN_A_ROW:], TASKS[results["task"]].columns[0]
    entries = [entry for entry in results["entries"] if entry["arm"] != results["reference"]]
    names = [fill(_name(entry, results), NAME_LETTERS) for entry in entries]
    columns: Columns = 1 if len(groups) == 1 else 2
    height_in = AROUND_IN + METHOD_IN * sum(1 + name.count("\n") / 2 for name in names)
    figure, panels = new_figure(columns, height_in, (1, len(groups)), sharex=True, sharey=True)
    for group, panel in zip(groups, panels, strict=True):
        _draw_group(panel, results, entries, group, column)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)  # from top to bottom, as in tables
    better = "right" if column.better == "higher" else "left"
    figure.supxlabel(f"{heading(column)} above {results['reference']} (better to the {better})", fontsize="medium")
    title = f"{results['name']}: {_whiskers(results)}"
    figure.suptitle(fill(title, int(COLUMN_WIDTHS_IN[columns] / TITLE_IN)), fontsize="medium")
    return figure


def _draw_group(
    panel: Axes, results: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], group: str, column: Column
) -> None:
    styles = line_styles(list(results["comparison"]["arms"]))
    panel.axvline(0.0, color=INK, lw=0.8)
    for place, entry in enumerate(entries):
        figure = figure_of(entry, group, "differences", column)
        if figure is None or figure["mean"] is None:
            continue
        style, mean = styles[entry["arm"]], figure["mean"]
        low, high = figure["interval"] or (mean, mean)
        panel.errorbar(
            mean, place, xerr=[[mean - low], [high - mean]], color=style.color, marker=style.marker, ls="", capsize=2.5
        )
    panel.set_title(group)
    panel.grid(visible=False, axis="y")


def _name(entry: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    method: str = entry["arm"]
    return f"{method}, {shown_value(entry['varied'])}" if results["vary"] else method


def _whiskers(results: Mapping[str, Any]) -> str:
    n = max(entry["n"] for entry in results["entries"])
    if n < 2:
        return "differences of one seed, which has no interval"
    return f"mean difference over {n} seeds, whiskers {results['statistics']['confidence']:.0%} confidence intervals"
