"""Curves of regimes in which a setting varies: scores against the setting, and against what a run costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from ledger import ALL, RegimeScores  # a script beside its modules
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from sheafedge.scenarios.report.figure_style import figure_style, new_figure, save_figure, series_style

#: Key of a cost -> name of its axis.
COSTS: Mapping[str, str] = {"megabytes": "MB sent", "virtual_s": "simulated s", "joules": "J spent"}


def draw_curves(found: Mapping[str, RegimeScores], varied_key: str, arms: Sequence[str], stem: Path) -> None:
    """Write `stem.png`: a line per arm, over the values of the setting and over each cost.

    Bars are standard deviations over seeds. An arm that sends nothing has no place on an axis of megabytes.

    Args:
        found: value of the varied setting, as text -> its scores; those without any are left out.
        varied_key: the setting.
        arms: in order.
        stem: path without its suffix.
    """
    there = {value: scores for value, scores in found.items() if scores.arms}
    is_number = all(_is_number(value) for value in there)
    with figure_style():
        figure, axes = new_figure(2, height_in=4.4, grid=(2, 2), sharey=True)
        for index, arm in enumerate(arms):
            points = {value: scores for value, scores in there.items() if arm in scores.arms}
            style = series_style(index)
            looks = {"color": style.color, "linestyle": style.line, "marker": style.marker, "label": arm}
            each = [list(scores.values(arm, ALL).values()) for scores in points.values()]
            means = [fmean(values) for values in each]
            bars = [stdev(values) if len(values) > 1 else 0.0 for values in each]
            at = [float(value) if is_number else list(there).index(value) for value in points]
            axes[0].errorbar(at, means, yerr=bars, **looks)
            for ax, key in zip(axes[1:], COSTS, strict=True):
                costs = [scores.costs(arm)[key] for scores in points.values()]
                shown = sorted((cost, mean) for cost, mean in zip(costs, means, strict=True) if cost > 0.0)
                if shown:
                    ax.plot(*zip(*shown, strict=True), **looks)
        axes[0].set_xlabel(varied_key)
        if not is_number:
            axes[0].set_xticks(range(len(there)), list(there), rotation=30)
        elif _spans_decades([float(value) for value in there]):
            _logarithmic(axes[0])
        for ax, label in zip(axes[1:], COSTS.values(), strict=True):
            ax.set_xlabel(label)
            _logarithmic(ax)
        for ax in (axes[0], axes[2]):
            ax.set_ylabel("score, all clients")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        save_figure(figure, stem, ("png",))


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
