"""Figures of the network: its map with measured loss and rate, and the traffic by kind of message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .figure_style import COLORS, INK, MUTED, PAPER, Columns, new_figure
from .report_figure import ReportFigure, group_styles, legend_below
from .round_records import Array, Edge, MeasuredEdge, RoundRecords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A map of more nodes is a circle: a layout by distances takes seconds, and says little.
MOST_PLACED = 60
#: Width in points of the slowest and of the fastest edge.
WIDTHS = (0.6, 3.2)
#: Of more edges all are thinner, so that they do not fill the map.
MOST_WIDE = 200
#: From no loss to the largest: both ends are seen on light and on dark ground, and differ for every color vision.
LOSS_COLORS = ("#9fb3c4", COLORS[1])


def network_figures(records: RoundRecords) -> Iterator[ReportFigure]:
    """Figures of edges and messages."""
    if edges := records.diagnostics.edges:
        rated = _rated([1e-6 * edge.rate_bps for edge in edges if edge.rate_bps])
        caption = (
            f"Edges of the network, colored by the share of packets that was lost, in both directions together.{rated}"
            " Positions say which nodes are close in the graph, not where they stand."
        )
        yield ReportFigure("network", caption, partial(_map, records))
        if len(edges) > 1 and any(edge.rate_bps for edge in edges):
            caption = "Every direction of an edge: measured rate and share of lost packets."
            yield ReportFigure("links", caption, partial(_links, records))
    if any(counts["messages"] for counts in records.summary["traffic"].get("by_kind", {}).values()):
        caption = (
            "Traffic of the run by kind of message; behind each bar the number of messages, and how many were lost."
        )
        yield ReportFigure("traffic", caption, partial(_traffic, records))


def _rated(rates: list[float]) -> str:
    """What widths mean, for measured rates in Mbit/s."""
    if not rates:
        return ""
    slowest, fastest = (f"{rate:,.1f}" for rate in (min(rates), max(rates)))
    return f" All at {fastest} Mbit/s." if slowest == fastest else f" Wider: faster, {slowest} to {fastest} Mbit/s."


def merged_edges(edges: list[MeasuredEdge]) -> dict[Edge, MeasuredEdge]:
    """Edge -> both directions together; rate and delay are those of the slower direction."""
    merged: dict[Edge, MeasuredEdge] = {}
    for one in edges:
        key = min(one.sender, one.receiver), max(one.sender, one.receiver)
        other = merged.get(key)
        if other is None:
            merged[key] = one
            continue
        rates = [rate for rate in (one.rate_bps, other.rate_bps) if rate is not None]
        delays = [delay for delay in (one.mean_delay_s, other.mean_delay_s) if delay is not None]
        merged[key] = MeasuredEdge(
            sender=key[0],
            receiver=key[1],
            messages=one.messages + other.messages,
            bytes=one.bytes + other.bytes,
            lost_messages=one.lost_messages + other.lost_messages,
            packets=one.packets + other.packets,
            lost_packets=one.lost_packets + other.lost_packets,
            mean_delay_s=max(delays, default=None),
            rate_bps=min(rates, default=None),
        )
    return merged


def _map(records: RoundRecords, columns: Columns) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    figure, (panel,) = new_figure(columns, 3.1 if columns == 1 else 4.2)
    edges = merged_edges(records.diagnostics.edges)
    places = _places(len(records.groups), edges)
    scale = Normalize(0.0, max([1.0, *(100.0 * edge.loss for edge in edges.values())]))
    colors = LinearSegmentedColormap.from_list("loss", LOSS_COLORS)
    # the fastest rate is the widest; without rates all are alike
    rates = np.array([edge.rate_bps or 0.0 for edge in edges.values()])
    widths = np.interp(rates, (rates.min(), rates.max()), WIDTHS) if np.ptp(rates) > 0 else np.full(len(rates), 1.4)
    widths *= min(1.0, MOST_WIDE / len(edges))
    for ((one, other), edge), width in zip(edges.items(), widths, strict=True):
        x, y = places[[one, other]].T
        panel.plot(x, y, color=colors(float(scale(100.0 * edge.loss))), lw=width, zorder=1, solid_capstyle="round")
    _draw_nodes(panel, records, places)
    panel.set_axis_off()
    panel.set_aspect("equal")
    panel.margins(0.06)
    figure.colorbar(ScalarMappable(scale, colors), ax=panel, shrink=0.75, pad=0.02, label="lost packets [%]")
    legend_below(figure, panel)
    return figure


def _draw_nodes(panel: Axes, records: RoundRecords, places: Array) -> None:
    size = 60 if len(places) <= 30 else 25
    for group, style in group_styles(records).items():
        members = records.members(group)
        x, y = places[members].T
        panel.scatter(x, y, s=size, marker=style.marker, color=style.color, ec=PAPER, lw=0.7, label=group, zorder=2)
    if len(places) <= 30:
        for node, (x, y) in enumerate(places):
            panel.annotate(
                str(node), (x, y), xytext=(5, 5), textcoords="offset points", fontsize=6, color=INK, zorder=3
            )


def _places(n_nodes: int, edges: Mapping[Edge, MeasuredEdge]) -> Array:
    """[n, 2] places of nodes in the picture, the same for the same graph."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(edges)
    placed = nx.kamada_kawai_layout(graph) if 2 < n_nodes <= MOST_PLACED else nx.circular_layout(graph)
    return np.array([placed[node] for node in range(n_nodes)], dtype=np.float64)


def _links(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.4)
    by_group: dict[str, list[MeasuredEdge]] = defaultdict(list)
    for edge in records.diagnostics.edges:
        if edge.rate_bps:
            by_group[records.groups[edge.sender]].append(edge)
    for group, style in group_styles(records).items():
        edges = by_group[group]
        rates = [1e-6 * (edge.rate_bps or 0.0) for edge in edges]
        panel.plot(
            rates, [100.0 * edge.loss for edge in edges], ls="", marker=style.marker, color=style.color,
            alpha=0.8, label=f"from {group}" if edges else "",
        )  # fmt: skip
    panel.set_xlabel("measured rate [Mbit/s]")
    panel.set_ylabel("lost packets [%]")
    largest = 100.0 * max(edge.loss for edge in records.diagnostics.edges)
    panel.set_ylim(0.0, 1.08 * largest or 1.0)
    panel.margins(x=0.08)
    for line in panel.lines:
        line.set_clip_on(False)  # most edges lose nothing, and stand on the axis
    legend_below(figure, panel)
    return figure


def _traffic(records: RoundRecords, columns: Columns) -> Figure:
    by_kind = records.summary["traffic"]["by_kind"].items()
    kinds = sorted(((kind, counts) for kind, counts in by_kind if counts["messages"]), key=lambda one: one[1]["bytes"])
    figure, (panel,) = new_figure(columns, 0.7 + 0.24 * len(kinds))
    sizes = [1e-6 * counts["bytes"] for _, counts in kinds]
    panel.barh(range(len(kinds)), sizes, color=COLORS[0], height=0.6)
    for place, (_, counts) in enumerate(kinds):
        lost = f", {counts['lost_messages']:,} lost" if counts["lost_messages"] else ""
        panel.annotate(
            f"{counts['messages']:,}{lost}", (sizes[place], place), xytext=(3, 0), textcoords="offset points",
            va="center", fontsize=6.5, color=MUTED,
        )  # fmt: skip
    panel.set_yticks(range(len(kinds)), [name.replace("_", " ") for name, _ in kinds])
    panel.set_xlim(0.0, 1.35 * max(sizes) or 1.0)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel("offered to links [MB]")
    return figure
