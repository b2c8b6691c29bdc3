"""Figures of the value of predicted beams: outage, rate and lost power of the users under every policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .figure_style import COLORS, GRID, INK, Columns, new_figure
from .report_figure import FAR_APART, ReportFigure, legend_below
from .run_records import RunRecords

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Policies with their color and hatch, from none to what no decision can exceed.
POLICIES = {
    "nothing": (GRID, ""),
    "reactive": (COLORS[4], "...."),
    "predictive": (COLORS[0], ""),
    "oracle": (COLORS[2], "////"),
}
#: Figure of the summary -> label, and factor to its unit.
FIGURES = {
    "outage_ms_per_min": ("outage [ms per min]", 1.0),
    "rate_bps": ("rate of a user [Mbit/s]", 1e-6),
    "lost_db": ("lost power [dB]", 1.0),
}


_LOGARITHMIC = " The axis is logarithmic."


def value_figures(records: RunRecords) -> Iterator[ReportFigure]:
    """Figures of what predicted beams are worth; none where predictions control nothing, or handovers."""
    value = records.summary.get("value", {})
    groups = value.get("groups", {}) if value.get("decision") == "beam" else {}
    for key, (label, _) in FIGURES.items():
        if groups and all(key in figures[policy] for figures in groups.values() for policy in POLICIES):
            what = label.partition(" [")[0].capitalize()
            caption = (
                f"{what} if nothing is done, after a loss, on the answers of the models, and with perfect foresight;"
                " one user per base station of the group over its held-out time."
                f"{_LOGARITHMIC if _is_logarithmic(groups, key) else ''}"
            )
            yield ReportFigure(f"value-{key.partition('_')[0]}", caption, partial(_bars, groups, key))


def _is_logarithmic(groups: Mapping[str, Mapping[str, Any]], key: str) -> bool:
    positive = [value for figures in groups.values() for policy in POLICIES if (value := figures[policy][key]) > 0.0]
    return key == "outage_ms_per_min" and bool(positive) and max(positive) > FAR_APART * min(positive)


def _bars(groups: Mapping[str, Mapping[str, Any]], key: str, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    label, factor = FIGURES[key]
    x, width = np.arange(len(groups)), 0.8 / len(POLICIES)
    for index, (policy, (color, hatch)) in enumerate(POLICIES.items()):
        heights = np.array([factor * figures[policy][key] for figures in groups.values()])
        places = x + width * (index - (len(POLICIES) - 1) / 2)
        panel.bar(places, heights, width, color=color, hatch=hatch, ec=INK, lw=0.3, label=policy)
        for place in places[heights == 0.0]:  # a bar that is not missing
            panel.annotate(
                "0", (place, 0.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
                ha="center", fontsize=6,
            )  # fmt: skip
    if _is_logarithmic(groups, key):
        panel.set_yscale("log")
    panel.set_xticks(x, list(groups), rotation=0 if len(groups) < 2 + 2 * columns else 25)
    panel.grid(visible=False, axis="x")
    panel.set_ylabel(label)
    legend_below(figure, panel)
    return figure
