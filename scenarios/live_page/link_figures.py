"""Figures of links that change: losses and rates of all directions over the rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..report.figure_style import Columns, new_figure
from ..report.report_figure import ReportFigure, draw_band, group_styles, legend_below, rounds_axis, widen_if_far_apart
from ..report.round_records import Array, RoundRecords
from .edge_history import EdgeHistory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAND = "Line: mean over the links from nodes of a group; band: from the lowest to the highest link."


def fading_figures(edges: EdgeHistory, records: RoundRecords) -> Iterator[ReportFigure]:
    """Loss and rate of links, each since the instant before; none before there are two instants.

    Args:
        edges: what edges carried.
        records: nodes and their groups.
    """
    rounds, losses, rates = edges.curves()
    if len(rounds) < 2:
        return
    senders = {
        group: [place for place, (sender, _) in enumerate(edges.edges) if records.groups[sender] == group]
        for group in group_styles(records)
    }
    if np.nansum(losses) > 0.0:
        caption = f"Share of packets that links lost, round by round. {_BAND}"
        draw = partial(_over_rounds, records, rounds, 100.0 * losses, senders, "lost packets [%]")
        yield ReportFigure("fading-loss", caption, draw)
    if np.isfinite(rates).any() and np.nanmax(rates) > np.nanmin(rates):
        caption = f"Bits per second on the air, round by round. {_BAND}"
        draw = partial(_over_rounds, records, rounds, 1e-6 * rates, senders, "rate [Mbit/s]")
        yield ReportFigure("fading-rate", caption, draw)


def _over_rounds(
    records: RoundRecords,
    rounds: Array,
    values: Array,
    senders: Mapping[str, Sequence[int]],
    label: str,
    columns: Columns,
) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    for group, style in group_styles(records).items():
        draw_band(panel, rounds, values[list(senders[group])], style, f"from {group}")
    widen_if_far_apart(panel, values)
    panel.set_ylabel(label)
    rounds_axis(panel, int(rounds[-1]))
    legend_below(figure, panel)
    return figure
