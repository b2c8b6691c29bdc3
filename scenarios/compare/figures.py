"""Figures of a comparison: scores over rounds, bytes and simulated time, and over the varied field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..report.figure_style import COLUMN_WIDTHS_IN, MUTED, Columns, SeriesStyle, figure_style, new_figure, series_style
from ..report.report_figure import whole_numbers
from ..report.shown_scores import heading, limit_scores
from ..tasks.task_spec import Column
from ..tasks.task_table import TASKS
from .curves import Array, Curve
from .result_table import figure_of, group_names
from .results import ALL_CLIENTS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Axis = Literal["rounds", "bytes", "time"]
#: What `draw_costs` draws beside each other, of `LABELS`.
COSTS = ("time", "bytes", "energy")

LABELS: dict[str, str] = {
    "rounds": "rounds of training",
    "bytes": "sent by all nodes [MB]",
    "time": "simulated time [s]",
    "energy": "energy of computing [J]",
}
#: If the largest end of a curve exceeds the smallest by this factor, the axis is logarithmic.
FAR_APART = 12.0
#: Curves with fewer points have a marker at each.
FEW_POINTS = 13
PANELS_IN_A_ROW, FEW_METHODS = 4, 6
#: Height of a row of panels, of what surrounds them, and of a row of the legend, in inches.
PANEL_IN, AROUND_IN, LEGEND_IN = 1.55, 0.75, 0.14
#: Width of a letter of the legend in inches, and letters that a line and the space around it are wide.
LETTER_IN, LINE_LETTERS = 0.055, 9
#: Width of a letter of a title in inches.
TITLE_IN = 0.062
#: Varied numbers closer than this share of their range are drawn evenly spaced.
CLOSE = 1 / 15
#: Horizontal offset between error bars of methods, as a share of the range.
ASIDE = 0.012


def line_styles(methods: Sequence[str]) -> dict[str, SeriesStyle]:
    """Style of every method of a comparison, the same in all figures."""
    return {method: series_style(place) for place, method in enumerate(methods)}


@figure_style()
def draw_curves(results: Mapping[str, Any], curves: Sequence[Curve], axis: Axis) -> Figure:
    """Learning curves: a panel per group, the mean over seeds in a band of ± one standard deviation.

    A method that sends nothing cannot be drawn over bytes; its last score is a level line.
    """
    groups = group_names(results)
    figure, panels = _panels(len(groups), [curve.method for curve in curves], sharex=True, sharey=True)
    styles = line_styles(list(results["comparison"]["arms"]))
    is_logarithmic = axis != "rounds" and _far_apart([float(_axis_values(curve, axis)[-1]) for curve in curves])
    for group, panel in zip(groups, panels, strict=True):
        for curve in curves:
            if group in curve.scores:
                _draw_curve(panel, curve, group, axis, styles[curve.method])
        if axis == "rounds":
            whole_numbers(panel)
        if is_logarithmic:
            _make_logarithmic(panel)
        elif any(len(curve.rounds) > 1 for curve in curves):
            panel.set_xlim(left=0)
        _draw_baseline(panel, results, group)
        _finish(panel, results, group, LABELS[axis])
    _limit_curves(panels, results, curves, groups)
    _add_legend(figure, panels, _title_of_curves(results))
    return figure


@figure_style()
def draw_costs(results: Mapping[str, Any], curves: Sequence[Curve]) -> Figure:
    """Scores over all clients against what they cost: a panel for simulated time, for bytes and for energy."""
    figure, panels = _panels(len(COSTS), [curve.method for curve in curves], sharey=True)
    styles = line_styles(list(results["comparison"]["arms"]))
    for axis, panel in zip(COSTS, panels, strict=True):
        for curve in curves:
            _draw_curve(panel, curve, ALL_CLIENTS, axis, styles[curve.method])
        if _far_apart([float(_axis_values(curve, axis)[-1]) for curve in curves]):
            _make_logarithmic(panel)
        _draw_baseline(panel, results, ALL_CLIENTS)
        _finish(panel, results, ALL_CLIENTS, LABELS[axis])
    _limit_curves(panels, results, curves, [ALL_CLIENTS])
    _add_legend(figure, panels, _title_of_curves(results))
    return figure


@figure_style()
def draw_varied(results: Mapping[str, Any]) -> Figure:
    """First score over the varied field: a panel per group, a line per method, bars of ± one standard deviation."""
    groups, values = group_names(results), results["comparison"]["vary"][results["vary"]]
    places = _places(values)
    figure, panels = _panels(len(groups), list(results["comparison"]["arms"]), sharex=True, sharey=True)
    styles = line_styles(list(results["comparison"]["arms"]))
    for group, panel in zip(groups, panels, strict=True):
        for number, (method, style) in enumerate(styles.items()):
            entries = [entry for entry in results["entries"] if entry["arm"] == method]
            offset = ASIDE * (number - (len(styles) - 1) / 2) * float(np.ptp(places))
            _draw_line(panel, results, entries, places + offset, group, style)
        panel.set_xticks(places, [f"{value:g}" if isinstance(value, float) else str(value) for value in values])
        _finish(panel, results, group, results["vary"])
    scores = [_first_score(entry, group, results) for entry in results["entries"] for group in groups]
    limit_scores(panels[0], _first(results), [list(score["values"].values()) for score in scores if score])
    _add_legend(figure, panels, _title(results))
    return figure


def _draw_curve(panel: Axes, curve: Curve, group: str, axis: str, style: SeriesStyle) -> None:
    x, scores = _axis_values(curve, axis), curve.scores[group]
    mean = scores.mean(axis=0)
    if axis == "bytes" and x[-1] == 0.0:
        label = f"{curve.method} (sends nothing)"
        panel.axhline(mean[-1], color=style.color, ls=style.line, marker=style.marker, markevery=0.5, label=label)
        return
    # among many rounds a few markers tell methods apart where colors do not
    every = None if len(x) < FEW_POINTS else max(1, len(x) // 6)
    marked: dict[str, Any] = {"marker": style.marker, "markevery": every}
    panel.plot(x, mean, color=style.color, ls=style.line, label=curve.method, **marked)
    if len(scores) > 1:
        deviation = scores.std(axis=0, ddof=1)
        panel.fill_between(x, mean - deviation, mean + deviation, color=style.color, alpha=0.14, lw=0)


def _draw_line(
    panel: Axes,
    results: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    x: Array,
    group: str,
    style: SeriesStyle,
) -> None:
    figures = [_first_score(entry, group, results) for entry in entries]
    known = [(place, figure) for place, figure in zip(x, figures, strict=True) if figure]
    panel.errorbar(
        [place for place, _ in known],
        [figure["mean"] for _, figure in known],
        yerr=[figure["sd"] or 0.0 for _, figure in known],
        color=style.color,
        ls=style.line,
        marker=style.marker,
        label=entries[0]["arm"],
    )


def _first_score(entry: Mapping[str, Any], group: str, results: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Spread of the first score over seeds; None: the method has none in this group."""
    return figure_of(entry, group, "scores", _first(results))


def _draw_baseline(panel: Axes, results: Mapping[str, Any], group: str) -> None:
    """Draws the score of a baseline as a level line."""
    name, level = _baseline(results, group)
    if level is not None:
        panel.axhline(level, color=MUTED, lw=1.2, ls=":", label=name)


def _baseline(results: Mapping[str, Any], group: str) -> tuple[str, float | None]:
    """Name and score of the persistence baseline, or of the last where there is none; None: it has no score."""
    # the baseline depends on the data alone; the entry with most seeds gives the most reliable mean
    entry = max(results["entries"], key=lambda entry: entry["n"])
    baselines = entry["groups"].get(group, {}).get("baselines", {})
    name = "persistence" if "persistence" in baselines else next(reversed(baselines), "")
    figure = baselines.get(name, {}).get(_first(results).key)
    return name, figure["mean"] if figure else None


def _axis_values(curve: Curve, axis: str) -> Array:
    """[R] values of the curve on this axis."""
    of_axis = {
        "rounds": curve.rounds,
        "bytes": curve.sent_bytes * 1e-6,
        "time": curve.time_s,
        "energy": curve.energy_j,
    }
    return of_axis[axis]


def _far_apart(ends: Sequence[float]) -> bool:
    # a method that sends nothing ends at 0, which has no place on a logarithmic axis
    positive = [end for end in ends if end > 0.0]
    return bool(positive) and max(positive) > FAR_APART * min(positive)


def _places(values: Sequence[Any]) -> Array:
    """[V] positions on the axis: the numbers themselves, or even spacing if some would overlap."""
    evenly = np.arange(len(values), dtype=float)
    # bool is an int in Python
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return evenly
    numbers = np.array(values, dtype=float)
    gaps = np.diff(np.sort(numbers))
    return numbers if len(numbers) > 1 and gaps.min() >= CLOSE * np.ptp(numbers) else evenly


def _panels(n_panels: int, methods: Sequence[str], **shared: bool) -> tuple[Figure, list[Axes]]:
    """Figure for the paper with this many panels in rows, and room for a legend with these methods and a baseline."""
    n_columns = min(n_panels, PANELS_IN_A_ROW)
    n_rows = -(-n_panels // n_columns)
    # a legend of many methods is higher than a panel in a single column
    columns: Columns = 1 if n_panels == 1 and len(methods) <= FEW_METHODS else 2
    in_a_line = _legend_columns(methods, COLUMN_WIDTHS_IN[columns])
    height_in = PANEL_IN * n_rows + AROUND_IN + LEGEND_IN * -(-(len(methods) + 1) // in_a_line)
    figure, axes = new_figure(columns, height_in, (n_rows, n_columns), **shared)
    for unused in axes[n_panels:]:
        unused.set_visible(False)
    return figure, axes[:n_panels]


def _legend_columns(labels: Sequence[str], width_in: float) -> int:
    letters = max(map(len, labels), default=1) + LINE_LETTERS
    return max(1, min(len(labels), int(width_in / (LETTER_IN * letters))))


def _finish(panel: Axes, results: Mapping[str, Any], group: str, label: str) -> None:
    clients = next((entry["groups"][group]["clients"] for entry in results["entries"] if group in entry["groups"]), 0)
    counted = f"{group} ({clients} client{'s' if clients > 1 else ''})"
    panel.set_title(group if group == ALL_CLIENTS else counted)
    panel.set_xlabel(label)
    # the axis of scores is shared, and named at the left end of a row
    if panel.get_subplotspec().is_first_col():  # type: ignore[union-attr]  # panels of a grid have one
        panel.set_ylabel(heading(_first(results)))


def _first(results: Mapping[str, Any]) -> Column:
    return TASKS[results["task"]].columns[0]


def _title(results: Mapping[str, Any]) -> str:
    n_seeds = len(results["seeds"])
    over = f"mean ± standard deviation over {n_seeds} seeds" if n_seeds > 1 else f"seed {results['seeds'][0]}"
    samples = "validation samples" if results["scored"] == "validation" else "held-out samples"
    return f"{results['name']}: {samples}, {over}"


def _title_of_curves(results: Mapping[str, Any]) -> str:
    varied = results["comparison"].get("vary", {}).get(results["vary"], [])
    # `curves_of` takes the curves at the first varied value
    return _title(results) + (f", {results['vary']} = {varied[0]}" if varied else "")


def _limit_curves(
    panels: Sequence[Axes], results: Mapping[str, Any], curves: Sequence[Curve], groups: Sequence[str]
) -> None:
    """Limits the common axis of the scores of these groups, and of their baselines."""
    scores = [curve.scores[group] for curve in curves for group in groups if group in curve.scores]
    levels = [level for _, level in (_baseline(results, group) for group in groups) if level is not None]
    limit_scores(panels[0], _first(results), [*scores, levels])


def _make_logarithmic(panel: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    # more labels would overlap in a narrow panel, fewer leave some with one
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _add_legend(figure: Figure, panels: Sequence[Axes], title: str) -> None:
    """Adds a title above, and below all panels one legend with the methods of all of them."""
    named: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    width_in = figure.get_figwidth()
    figure.suptitle("\n".join(wrap(title, int(width_in / TITLE_IN))), fontsize="medium")
    n_columns = _legend_columns(list(named), width_in)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=n_columns)
