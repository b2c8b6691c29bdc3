"""Figures of the coupling: energy of the sheaf, residuals per edge, norms of maps, distance from a consensus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .figure_style import MUTED, Columns, new_figure, series_style
from .report_figure import (
    BAND,
    FEW_POINTS,
    ReportFigure,
    draw_band,
    group_styles,
    legend_below,
    rounds_axis,
    widen_if_far_apart,
)
from .round_records import RoundRecords, last_known

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Edges with the largest last residuals, which have a line and a name of their own.
MOST_NAMED = 4
#: Column -> label of its axis, and caption.
_CURVES = {
    "sheaf_energy": (
        "sheaf energy",
        "Sheaf energy of a client: half of the squared residuals of its edges, whose other half its neighbors count.",
    ),
    "relative_residual": (
        "relative residual",
        "Squared differences of a client to its neighbors as a share of the squared norms that are compared.",
    ),
    "map_norm": ("norm of the maps", "Norm of all restriction maps of a client."),
    "projection_share": (
        "share of the head",
        "Squared norm of the projected head over that of the head, as a share of its start; low: the maps hide it.",
    ),
    "largest_map_step": (
        "largest map step",
        "Largest step of a restriction map in the round: map step size × coupling × squared norms; at 2 it diverges.",
    ),
    "consensus_distance": (
        "distance to the mean",
        "Consensus distance: norm of the shared parameters of a client less the mean of what it received.",
    ),
    "update_norm": (
        "change by local steps",
        "Norm of what local steps have changed a generated backbone by, relative to the backbone as it was received.",
    ),
    "dirichlet_energy": (
        "Dirichlet energy",
        "Dirichlet energy of the server's features on its graph of clients, seen through the maps of its first layer.",
    ),
    "client_edges": ("edges between clients", "Edges of the graph of clients that the server draws from embeddings."),
    "embedding_age": (
        "age in exchanges",
        "Mean age of the embeddings that the server uses, in exchanges, when it began to use them.",
    ),
}


def sheaf_figures(records: RoundRecords) -> Iterator[ReportFigure]:
    """Figures of what couples clients; none where nothing does."""
    for column, (_, caption) in _CURVES.items():
        if records.has(column):
            yield ReportFigure(column.replace("_", "-"), f"{caption} {BAND}", partial(_curve, records, column))
    if records.residuals:
        caption = (
            "Norm of the residual P_ij w_i − P_ji w_j of the heads on every edge, mean of what both ends know. Named:"
            " the edges where it is largest in the end; grey: all others."
        )
        yield ReportFigure("edge-residuals", caption, partial(_residuals, records))


def _curve(records: RoundRecords, column: str, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    values = records.columns[column]
    for group, style in group_styles(records).items():
        draw_band(panel, records.rounds, values[records.members(group)], style, group)
    widen_if_far_apart(panel, values)
    if panel.get_yscale() == "linear":
        panel.ticklabel_format(axis="y", useOffset=False)
    panel.set_ylabel(_CURVES[column][0])
    rounds_axis(panel, records.n_rounds)
    legend_below(figure, panel)
    return figure


def _residuals(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.4)
    ends = dict(zip(records.residuals, last_known(np.stack(list(records.residuals.values()))), strict=True))
    # asynchronous clients that are done are not heard any more: what was known of their edges in the end comes last
    largest = sorted(ends, key=lambda edge: (np.isnan(records.residuals[edge][-1]), -np.nan_to_num(ends[edge])))
    for edge in largest[MOST_NAMED:]:
        panel.plot(records.rounds, records.residuals[edge], color=MUTED, lw=0.6, alpha=0.5)
    for index, edge in enumerate(largest[:MOST_NAMED]):
        style = series_style(index)
        marker = style.marker if records.n_rounds < FEW_POINTS else ""
        label = f"{edge[0]} – {edge[1]}"
        panel.plot(
            records.rounds, records.residuals[edge], color=style.color, ls=style.line, marker=marker, label=label
        )
    widen_if_far_apart(panel, np.concatenate(list(records.residuals.values())))
    panel.set_ylabel("norm of the residual")
    rounds_axis(panel, records.n_rounds)
    legend_below(figure, panel)
    return figure
