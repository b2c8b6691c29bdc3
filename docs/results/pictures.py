"""Pictures of the page: differences that decide, and curves of regimes in which a setting varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill

from judged_controls import n_seeds  # a script beside its modules
from ledger import ALL, RegimeScores
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from sheafedge.scenarios.compare.result_table import without_zero
from sheafedge.scenarios.report.figure_style import (
    COLORS,
    INK,
    MUTED,
    figure_style,
    new_figure,
    save_figure,
    series_style,
)
from verdicts import BETTER, NOT_SHOWN, WORSE, Difference

#: Key of a cost -> name of its axis.
COSTS: Mapping[str, str] = {"megabytes": "MB sent", "virtual_s": "simulated s", "joules": "J spent"}

#: Characters of a row's label before it goes on in a second line.
LABEL_WIDTH = 44

#: Word -> color, marker and filling: they differ in grey, too.
WORDS: Mapping[str, Mapping[str, str]] = {
    BETTER: {"color": COLORS[0], "marker": ">", "markerfacecolor": COLORS[0]},
    NOT_SHOWN: {"color": MUTED, "marker": "o", "markerfacecolor": "white"},
    WORSE: {"color": COLORS[1], "marker": "<", "markerfacecolor": COLORS[1]},
}


def overview_figure(things: Sequence[str], columns: Mapping[str, Sequence[Difference | None]]) -> Figure:
    """Differences that decide, with their intervals: a panel per regime, a row per thing praised.

    Args:
        things: that are praised, from above.
        columns: regime -> a difference per thing; None: not run. Its name breaks at underscores.
    """
    with figure_style():
        height = 1.0 + 0.3 * len(things)
        figure, axes = new_figure(2, height_in=height, grid=(1, len(columns)), sharex=True, sharey=True)
        for ax, (regime, column) in zip(axes, columns.items(), strict=True):
            for row, one in enumerate(column):
                if one is not None and one.mean is not None and one.interval is not None:
                    ends = [[one.mean - one.interval[0]], [one.interval[1] - one.mean]]
                    ax.errorbar([one.mean], [row], xerr=ends, linestyle="", **WORDS[one.word])
            ax.axvline(0.0, color=INK, linewidth=0.7)
            title = regime.replace("_", "_\n")
            ax.set_title(f"{title}\nn = {n_seeds(column)}", fontsize=7.0)
            ax.xaxis.set_major_formatter(FuncFormatter(_without_zero))
        axes[0].set_yticks(range(len(things)), [fill(thing, LABEL_WIDTH) for thing in things])
        axes[0].invert_yaxis()
        figure.supxlabel("difference of scores over all clients, with its 95 % interval", fontsize=7.0)
        shown = [Line2D([], [], linestyle="", label=word, **looks) for word, looks in WORDS.items()]
        figure.legend(handles=shown, loc="outside upper right", ncols=len(shown))
    return figure


def draw_curves(found: Mapping[str, RegimeScores], varied_key: str, arms: Sequence[str], stem: Path) -> None:
    """Write `stem.png`: a line per arm, over the values of the setting and over each cost that some arm has.

    Bars are standard deviations over seeds. An arm that sends nothing has no place on an axis of megabytes.

    Args:
        found: value of the varied setting, as text -> its scores; those without any are left out.
        varied_key: the setting.
        arms: in order.
        stem: path without its suffix.
    """
    there = {value: scores for value, scores in found.items() if scores.arms}
    is_number = all(_is_number(value) for value in there)
    spent = {arm: [scores.costs(arm) for scores in there.values() if arm in scores.arms] for arm in arms}
    labels = {
        key: label for key, label in COSTS.items() if any(one[key] > 0.0 for each in spent.values() for one in each)
    }
    rows, columns = grid = (2, 2) if len(labels) == len(COSTS) else (1, 1 + len(labels))
    with figure_style():
        figure, axes = new_figure(2, height_in=2.2 * rows, grid=grid, sharey=True)
        for index, arm in enumerate(arms):
            points = {value: scores for value, scores in there.items() if arm in scores.arms}
            style = series_style(index)
            looks = {"color": style.color, "linestyle": style.line, "marker": style.marker, "label": arm}
            each = [list(scores.values(arm, ALL).values()) for scores in points.values()]
            means = [fmean(values) for values in each]
            bars = [stdev(values) if len(values) > 1 else 0.0 for values in each]
            at = [float(value) if is_number else list(there).index(value) for value in points]
            axes[0].errorbar(at, means, yerr=bars, **looks)
            for ax, key in zip(axes[1:], labels, strict=True):
                costs = [one[key] for one in spent[arm]]
                shown = sorted((cost, mean) for cost, mean in zip(costs, means, strict=True) if cost > 0.0)
                if shown:
                    ax.plot(*zip(*shown, strict=True), **looks)
        axes[0].set_xlabel(varied_key)
        if not is_number:
            axes[0].set_xticks(range(len(there)), list(there), rotation=30)
        elif _spans_decades([float(value) for value in there]):
            _logarithmic(axes[0])
        for ax, label in zip(axes[1:], labels.values(), strict=True):
            ax.set_xlabel(label)
            _logarithmic(ax)
        for ax in axes[::columns]:
            ax.set_ylabel("score, all clients")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        save_figure(figure, stem, ("png",))


def _without_zero(value: float, _: int) -> str:
    """A difference as the page writes it: .1 and -.1, and 0."""
    return without_zero(f"{value:g}")


def _logarithmic(ax: Axes) -> None:
    """A logarithmic axis with plain numbers; powers of ten would overlap within a decade."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _spans_decades(values: Sequence[float]) -> bool:
    return min(values) > 0.0 and max(values) / min(values) > 20.0
