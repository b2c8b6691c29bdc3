"""A figure of a report, and what several figures draw alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .figure_style import Columns, SeriesStyle, series_style
from .round_records import Array, RoundRecords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Curves with fewer points get markers.
FEW_POINTS = 13
#: Where the largest value exceeds the smallest by this factor, the axis is logarithmic.
FAR_APART = 30.0
#: Letters of a legend in an inch, and the width of a handle with its margins in letters.
LETTERS_PER_IN, HANDLE_LETTERS = 19.0, 8
#: What lines and bands of `draw_band` are.
BAND = "Line: mean over the clients of a group; band: from the lowest to the highest client."


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure of a report.

    Attributes:
        name: stem of its files, unique in a report.
        caption: what is shown, with bands and whiskers; a sentence or two.
        draw: draws it for one or two columns of a paper, inside of `figure_style.figure_style`.
    """

    name: str
    caption: str
    draw: Callable[[Columns], Figure]


def group_styles(records: RoundRecords) -> dict[str, SeriesStyle]:
    """Style of every group of clients, and of the server after them; the same in all figures of a run."""
    names = dict.fromkeys([*records.group_names, *records.groups])
    return {group: series_style(index) for index, group in enumerate(names)}


def draw_band(panel: Axes, x: Array, values: Array, style: SeriesStyle, label: str, *, dashed: bool = False) -> None:
    """Mean over the rows of values [n, R] at x [R], in a band from the lowest to the highest row.

    Instants at which no row has a value are left out.
    """
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return
    x, values = x[known], values[:, known]
    mean = np.nanmean(values, axis=0)
    marker = style.marker if len(x) < FEW_POINTS else ""
    line = (0, (2.5, 1.5)) if dashed else style.line
    panel.plot(x, mean, color=style.color, ls=line, marker=marker, label=label, lw=1.0 if dashed else None)
    if len(values) > 1 and not dashed:
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        panel.fill_between(x, low, high, color=style.color, alpha=0.15, lw=0)


def rounds_axis(panel: Axes, n_rounds: int) -> None:
    """The axis of completed rounds, with whole numbers only."""
    panel.set_xlabel("completed rounds")
    panel.set_xlim(0.0 if n_rounds > 1 else 0.5, n_rounds * 1.02 + 0.02)
    whole_numbers(panel)


def whole_numbers(panel: Axes) -> None:
    """Ticks along x at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    # one tick suffices where one round was scored: with two at least, they would be fractions
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))


def widen_if_far_apart(panel: Axes, values: Array) -> None:
    """A logarithmic axis where values are positive and far apart."""
    known = values[np.isfinite(values)]
    if known.size and known.min() > 0.0 and known.max() > FAR_APART * known.min():
        panel.set_yscale("log")


def legend_below(figure: Figure, panel: Axes, least: int = 2) -> None:
    """A legend below the panel, in as many columns as its texts leave room for; none for fewer than `least` lines."""
    handles, labels = panel.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    if len(named) >= least:
        most = max(1, int(LETTERS_PER_IN * figure.get_figwidth() / (HANDLE_LETTERS + max(map(len, named)))))
        n_rows = -(-len(named) // most)
        n_columns = -(-len(named) // n_rows)  # rows of equal length
        figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=n_columns)
