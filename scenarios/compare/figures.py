"""Figures of a comparison: scores over rounds, bytes and simulated time, and over the varied field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..tasks.task_spec import Column
from ..tasks.task_table import TASKS
from .curves import Array, Curve
from .result_table import group_names, heading
from .results import ALL_CLIENTS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Axis = Literal["rounds", "bytes", "time"]
#: What `draw_costs` draws beside each other, of `LABELS`.
COSTS = ("time", "bytes", "energy")

#: Color-blind safe colors (Okabe and Ito, without yellow); with more methods, line styles and markers change too.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GRAY = "#777777"
LABELS: dict[str, str] = {
    "rounds": "rounds of training",
    "bytes": "sent by all nodes [MB]",
    "time": "simulated time [s]",
    "energy": "energy of computing [J]",
}
#: If the largest end of a curve exceeds the smallest by this factor, the axis is logarithmic.
FAR_APART = 12.0
#: Curves with fewer points get markers.
FEW_POINTS = 13
PANELS_IN_A_ROW, METHODS_PER_PANEL = 4, 1.5
#: Margin around the range [0, 1] of a score.
MARGIN = 0.02
#: Varied numbers closer than this share of their range are drawn evenly spaced.
CLOSE = 1 / 15
#: Horizontal offset between error bars of methods, as a share of the range.
ASIDE = 0.012


class LineStyle(NamedTuple):
    """Style of a method, the same in all figures.

    Attributes:
        color, line, marker: values for matplotlib.
        level_line: dash pattern whose offset differs per method, so that overlapping level lines stay visible.
    """

    color: str
    line: Any
    marker: str
    level_line: Any


def line_styles(methods: Sequence[str]) -> dict[str, LineStyle]:
    """Style of every method of a comparison."""
    return {
        method: LineStyle(
            COLORS[i % len(COLORS)],
            LINES[i // len(COLORS) % len(LINES)],
            MARKERS[i % len(MARKERS)],
            (4 * i, (4, 4)),
        )
        for i, method in enumerate(methods)
    }


def draw_curves(results: Mapping[str, Any], curves: Sequence[Curve], axis: Axis) -> Figure:
    """Learning curves: a panel per group, the mean over seeds in a band of ± one standard deviation.

    A method that sends nothing cannot be drawn over bytes; its last score is a level line.
    """
    groups = group_names(results)
    figure, panels = _panels(len(groups))
    styles = line_styles(list(results["comparison"]["arms"]))
    is_logarithmic = axis != "rounds" and _far_apart([float(_axis_values(curve, axis)[-1]) for curve in curves])
    for group, panel in zip(groups, panels, strict=True):
        for curve in curves:
            if group in curve.scores:
                _draw_curve(panel, curve, group, axis, styles[curve.method])
        if is_logarithmic:
            panel.set_xscale("log")
        elif any(len(curve.rounds) > 1 for curve in curves):
            panel.set_xlim(left=0)
        _draw_baseline(panel, results, group)
        _finish(panel, results, group, LABELS[axis])
    varied = results["comparison"].get("vary", {}).get(results["vary"], [])
    # `curves_of` takes the curves at the first varied value
    at = f", {results['vary']} = {varied[0]}" if varied else ""
    _add_legend(figure, panels, _title(results) + at)
    return figure


def draw_costs(results: Mapping[str, Any], curves: Sequence[Curve]) -> Figure:
    """Scores over all clients against what they cost: a panel for simulated time, for bytes and for energy."""
    figure, panels = _panels(len(COSTS))
    styles = line_styles(list(results["comparison"]["arms"]))
    for axis, panel in zip(COSTS, panels, strict=True):
        for curve in curves:
            _draw_curve(panel, curve, ALL_CLIENTS, axis, styles[curve.method])
        if _far_apart([float(_axis_values(curve, axis)[-1]) for curve in curves]):
            panel.set_xscale("log")
        _draw_baseline(panel, results, ALL_CLIENTS)
        _finish(panel, results, ALL_CLIENTS, LABELS[axis])
    _add_legend(figure, panels, _title(results))
    return figure


def draw_varied(results: Mapping[str, Any]) -> Figure:
    """First score over the varied field: a panel per group, a line per method, bars of ± one standard deviation."""
    groups, values = group_names(results), results["comparison"]["vary"][results["vary"]]
    places = _places(values)
    figure, panels = _panels(len(groups))
    styles = line_styles(list(results["comparison"]["arms"]))
    for group, panel in zip(groups, panels, strict=True):
        for number, (method, style) in enumerate(styles.items()):
            entries = [entry for entry in results["entries"] if entry["arm"] == method]
            offset = ASIDE * (number - (len(styles) - 1) / 2) * float(np.ptp(places))
            _draw_line(panel, results, entries, places + offset, group, style)
        panel.set_xticks(places, [f"{value:g}" if isinstance(value, float) else str(value) for value in values])
        _finish(panel, results, group, results["vary"])
    _add_legend(figure, panels, _title(results))
    return figure


def _draw_curve(panel: Axes, curve: Curve, group: str, axis: str, style: LineStyle) -> None:
    x, scores = _axis_values(curve, axis), curve.scores[group]
    mean = scores.mean(axis=0)
    if axis == "bytes" and x[-1] == 0.0:
        panel.axhline(mean[-1], color=style.color, ls=style.level_line, lw=1.5, label=f"{curve.method} (sends nothing)")
        return
    marker = style.marker if len(x) < FEW_POINTS else ""
    panel.plot(x, mean, color=style.color, ls=style.line, lw=1.8, marker=marker, ms=4, label=curve.method)
    if len(scores) > 1:
        deviation = scores.std(axis=0, ddof=1)
        panel.fill_between(x, mean - deviation, mean + deviation, color=style.color, alpha=0.14, lw=0)


def _draw_line(
    panel: Axes,
    results: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    x: Array,
    group: str,
    style: LineStyle,
) -> None:
    key = _first(results).key
    figures = [entry["groups"].get(group, {}).get("scores", {}).get(key) for entry in entries]
    known = [(place, figure) for place, figure in zip(x, figures, strict=True) if figure]
    panel.errorbar(
        [place for place, _ in known],
        [figure["mean"] for _, figure in known],
        yerr=[figure["sd"] or 0.0 for _, figure in known],
        color=style.color,
        ls=style.line,
        lw=1.7,
        marker=style.marker,
        ms=5,
        capsize=3,
        label=entries[0]["arm"],
    )


def _draw_baseline(panel: Axes, results: Mapping[str, Any], group: str) -> None:
    """Draws the score of the persistence baseline, or of the last where there is none, as a level line."""
    # the baseline depends on the data alone; the entry with most seeds gives the most reliable mean
    entry = max(results["entries"], key=lambda entry: entry["n"])
    baselines = entry["groups"].get(group, {}).get("baselines", {})
    name = "persistence" if "persistence" in baselines else next(reversed(baselines), "")
    figure = baselines.get(name, {}).get(_first(results).key)
    if figure:
        panel.axhline(figure["mean"], color=GRAY, lw=1.2, ls=":", label=name)


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


def _panels(n_panels: int) -> tuple[Figure, list[Axes]]:
    # not pyplot, which would choose a backend and keep every figure open
    from matplotlib.figure import Figure

    n_columns = min(n_panels, PANELS_IN_A_ROW)
    n_rows = -(-n_panels // n_columns)
    figure = Figure(figsize=(max(3.3 * n_columns, 6.0), 3.1 * n_rows + 0.9), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for unused in axes[n_panels:]:
        unused.set_visible(False)
    return figure, list(axes[:n_panels])


def _finish(panel: Axes, results: Mapping[str, Any], group: str, label: str) -> None:
    clients = next((entry["groups"][group]["clients"] for entry in results["entries"] if group in entry["groups"]), 0)
    counted = f"{group} ({clients} client{'s' if clients > 1 else ''})"
    panel.set_title(group if group == ALL_CLIENTS else counted, fontsize=10)
    if _first(results).better == "higher":  # such scores lie in [0, 1], errors anywhere; bands may exceed that
        lowest, highest = panel.get_ylim()
        panel.set_ylim(max(lowest, -MARGIN), min(highest, 1.0 + MARGIN))
    panel.set_xlabel(label)
    panel.set_ylabel(heading(_first(results)))
    panel.grid(alpha=0.25)
    panel.tick_params(labelsize=8)


def _first(results: Mapping[str, Any]) -> Column:
    return TASKS[results["task"]].columns[0]


def _title(results: Mapping[str, Any]) -> str:
    n_seeds = len(results["seeds"])
    over = f"mean ± standard deviation over {n_seeds} seeds" if n_seeds > 1 else f"seed {results['seeds'][0]}"
    samples = "validation samples" if results["scored"] == "validation" else "held-out samples"
    return f"{results['name']}: {samples}, {over}"


def _add_legend(figure: Figure, panels: Sequence[Axes], title: str) -> None:
    """Adds one legend below all panels with the methods of all panels."""
    named: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.suptitle(title, fontsize=10)
    n_columns = max(2, int(METHODS_PER_PANEL * min(len(panels), PANELS_IN_A_ROW)))
    handles, labels = list(named.values()), list(named)
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=9)
