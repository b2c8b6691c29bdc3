"""Ladder of handover rules in a run's report: its table, and outage against throughput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..value.handover_ladder import rule_title
from .figure_style import COLORS, GRID, INK, Columns, new_figure
from .html_page import PageTable
from .report_figure import ReportFigure, legend_below
from .run_records import RunRecords

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rule -> color and marker; colors repeat, markers do not.
_LOOKS: Mapping[str, tuple[str, str]] = {
    "reactive": (COLORS[4], "X"),
    "reactive_tuned": (COLORS[4], "o"),
    "way_back_prepared": (COLORS[3], "s"),
    "prepare_on_snr_history": (COLORS[5], "^"),
    "always_prepared": (INK, "v"),
    "planner_without_forecast": (COLORS[3], "<"),
    "planner_snr_history": (COLORS[5], ">"),
    "planner_model": (COLORS[0], "p"),
    "planner_truth": (COLORS[1], "h"),
    "prepare_on_warning": (COLORS[0], "D"),
    "oracle": (COLORS[2], "P"),
}
_CAPTION = (
    "Outage against throughput under the rules of handover; better is to the lower right. A line joins times to trigger"
    " from 0 (filled) to 160 ms, each with the offsets of least outage over all base stations; of planners, the prices"
    " of outage and handovers that no other is better than on both counts."
)


def ladder_figure(records: RunRecords) -> Iterator[ReportFigure]:
    """Figure of the ladder; none in a run without one."""
    value = records.summary.get("value", {})
    if value.get("decision") == "handover" and "ladder" in value:
        yield ReportFigure("value-ladder", _CAPTION, partial(_draw, value))


def _draw(value: Mapping[str, Any], columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 3.2)
    rows = {row["rule"]: row for row in value["ladder"]}
    for rule, (color, marker) in ((rule, look) for rule, look in _LOOKS.items() if rule in rows):
        points: Sequence[Mapping[str, float]] = value["fronts"].get(rule, [rows[rule]])
        x = [point["throughput_mbit_s"] for point in points]
        y = [point["outage_ms_per_minute"] for point in points]
        look: dict[str, Any] = {"color": color, "marker": marker, "ms": 5, "mec": INK, "mew": 0.4, "lw": 0.9}
        panel.plot(x, y, label=rule_title(rule), **look, mfc="none" if len(x) > 1 else color)
        panel.plot(x[:1], y[:1], ls="none", **{**look, "lw": 0})
    panel.grid(color=GRID)
    panel.set_ylim(bottom=0.0)
    panel.set_xlabel("throughput [Mbit/s]")
    panel.set_ylabel("outage [ms per min]")
    legend_below(figure, panel)
    return figure


def ladder_table(value: Mapping[str, Any]) -> PageTable:
    """A row per rule, from doing nothing to foresight."""
    rows = [
        [
            rule_title(row["rule"]),
            f"{row['outage_ms_per_minute']:,.0f}",
            _difference(row, "outage", "{:+,.0f} ± {:,.0f}"),
            f"{row['throughput_mbit_s']:.1f}",
            _difference(row, "throughput", "{:+.2f} ± {:.2f}"),
            f"{row['handovers_per_minute']:.1f}" if "handovers_per_minute" in row else "–",
            f"{row['prepared_share']:.0%}" if "prepared_share" in row else "–",
        ]
        for row in value["ladder"]
    ]
    return PageTable(
        [
            "rule",
            "outage [ms per min]",
            "less that of the tuned reaction",
            "throughput [Mbit/s]",
            "less that of the tuned reaction",
            "handovers per min",
            "prepared",
        ],
        rows,
        note="Mean over base stations; ± is one standard error of the paired difference over them. Prepared: share of"
        " the time in the own cell in which the other cell was. Tuned rules have the event of least outage at the other"
        " half of the base stations; planners the prices of least outage there among those with its throughput. Oracle:"
        " least outage and most throughput, two plans.",
        best=frozenset(
            (place, column)
            for place, row in enumerate(value["ladder"])
            if row["rule"] == "prepare_on_warning"
            for column in range(7)
        ),
    )


def _difference(row: Mapping[str, Any], name: str, form: str) -> str:
    if row["rule"] == "reactive_tuned":
        return "0"
    return form.format(row[f"{name}_difference"], row[f"{name}_standard_error"])
