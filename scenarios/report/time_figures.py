"""Figures of time and energy: what nodes did in every round, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .figure_style import COLORS, GRID, INK, MUTED, Columns, new_figure
from .report_figure import BAND, ReportFigure, draw_band, group_styles, legend_below, rounds_axis, whole_numbers
from .round_records import Array, RoundRecords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Columns of simulated seconds that follow each other in a round, with name and color; transmissions go on beside.
PARTS = (("compute_s", "computing", COLORS[0]), ("waiting_s", "waiting", GRID))
AIRTIME, AIRTIME_COLOR = "airtime_s", COLORS[1]
#: Rounds and nodes of a timeline, the most that can be told apart.
MOST_ROUNDS, MOST_NODES = 8, 40


def time_figures(records: RoundRecords) -> Iterator[ReportFigure]:
    """Figures of where the simulated time went."""
    if records.has(AIRTIME, *(name for name, *_ in PARTS)):
        yield ReportFigure("timeline", _timeline_caption(records), partial(_timeline, records))
        caption = (
            "Simulated time per round that every node computed and waited; narrow: airtime of its own messages, which"
            " goes on beside; that of several links adds up, and can exceed the round. Mean over all rounds."
        )
        yield ReportFigure("round-parts", caption, partial(_parts, records))
    if records.has("energy_j"):
        caption = f"Energy of computing since the start of the run. {BAND}"
        yield ReportFigure("energy", caption, partial(_over_rounds, records, "energy_j", "energy [J]"))
    if records.has("staleness_mean"):
        caption = f"Staleness of the messages that were used: own round minus the message's. {BAND}"
        yield ReportFigure("staleness", caption, partial(_over_rounds, records, "staleness_mean", "staleness [rounds]"))
    if records.has("neighbors"):
        caption = f"Neighbors in range. {BAND}"
        yield ReportFigure("neighbors", caption, partial(_over_rounds, records, "neighbors", "neighbors in range"))


def _timeline_caption(records: RoundRecords) -> str:
    first, last = _shown_rounds(records)
    which = "all rounds" if last - first == records.n_rounds else f"rounds {first + 1} to {last}"
    nodes = "" if len(records.groups) <= MOST_NODES else f" of the first {MOST_NODES} nodes"
    return (
        f"Timeline of {which}{nodes}: every bar is a round of a node, which ends at the vertical line. Computing,"
        " waiting and, narrow, the airtime of its own messages are totals of the round, drawn in this order."
        f"{' White: the node was off.' if records.has('off') else ''}"
    )


def _shown_rounds(records: RoundRecords) -> tuple[int, int]:
    """First of the last rounds, and the number of all."""
    return max(0, records.n_rounds - MOST_ROUNDS), records.n_rounds


def _timeline(records: RoundRecords, columns: Columns) -> Figure:
    nodes = list(range(min(len(records.groups), MOST_NODES)))
    figure, (panel,) = new_figure(columns, 0.9 + 0.13 * len(nodes))
    first, last = _shown_rounds(records)
    ends_s = records.columns["time_s"]
    for node in nodes:
        for index in range(first, last):
            begin_s = ends_s[node, index - 1] if index else 0.0
            _draw_round(panel, records, node, index, begin_s)
        panel.vlines(ends_s[node, first:last], node - 0.45, node + 0.45, color=INK, lw=0.7)
    for name, color in (*((name, color) for _, name, color in PARTS), ("transmitting", AIRTIME_COLOR)):
        panel.fill_between([], [], color=color, label=name)  # for the legend
    names = [f"{node} {records.groups[node]}" for node in nodes]
    panel.set_yticks(nodes, names, fontsize=6 if len(nodes) < 25 else 5)
    panel.set_ylim(len(nodes) - 0.4, -0.6)
    panel.grid(visible=False, axis="y")
    begin_s = float(np.nanmin(ends_s[nodes, first - 1])) if first else 0.0
    panel.set_xlim(begin_s, float(np.nanmax(ends_s[nodes, first:last])))
    panel.set_xlabel("simulated time [s]")
    legend_below(figure, panel)
    return figure


def _draw_round(panel: Axes, records: RoundRecords, node: int, index: int, begin_s: float) -> None:
    """Draws a round: computing, then waiting, and from the end of computing on the airtime, as far as it goes."""
    end_s = float(records.columns["time_s"][node, index])
    at_s = begin_s
    for column, _, color in PARTS:
        length_s = float(np.nan_to_num(records.columns[column][node, index]))
        panel.broken_barh([(at_s, min(length_s, end_s - at_s))], (node - 0.35, 0.7), fc=color, lw=0.0)
        at_s = min(at_s + length_s, end_s)
    computed_s = begin_s + float(np.nan_to_num(records.columns["compute_s"][node, index]))
    airtime_s = min(float(np.nan_to_num(records.columns[AIRTIME][node, index])), end_s - computed_s)
    if airtime_s > 0.0:
        panel.broken_barh([(computed_s, airtime_s)], (node - 0.12, 0.24), fc=AIRTIME_COLOR, lw=0.0)


def _parts(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    nodes, begin = np.arange(len(records.groups)), np.zeros(len(records.groups))
    border = 0.3 if len(nodes) <= MOST_NODES else 0.0  # of narrow bars little else would be seen
    for column, name, color in PARTS:
        seconds = _mean_over_rounds(records.columns[column])
        panel.bar(nodes, seconds, bottom=begin, color=color, ec=INK, lw=border, label=name)
        begin = begin + seconds
    airtime_s = _mean_over_rounds(records.columns[AIRTIME])
    panel.bar(nodes, airtime_s, width=0.3, color=AIRTIME_COLOR, ec=INK, lw=border, label="transmitting")
    panel.set_ylim(0.0, 1.05 * float(np.maximum(begin, airtime_s).max()) or 1.0)
    whole_numbers(panel)
    panel.set_xlabel("node")
    panel.set_ylabel("time per round [s]")
    panel.grid(visible=False, axis="x")
    legend_below(figure, panel)
    return figure


def _mean_over_rounds(values: Array) -> Array:
    """[N] mean over the rounds that are known, 0 where none is."""
    return np.asarray(np.nansum(values, axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1))


def _over_rounds(records: RoundRecords, column: str, label: str, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    for group, style in group_styles(records).items():
        draw_band(panel, records.rounds, records.columns[column][records.members(group)], style, group)
    panel.axhline(0.0, color=MUTED, lw=0.6)
    panel.set_ylabel(label)
    rounds_axis(panel, records.n_rounds)
    legend_below(figure, panel)
    return figure
