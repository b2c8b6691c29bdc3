"""Ladder of beam rules in a run's report: its tables, and what is lost against the time spent measuring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..value.beam_ladder import AT_EQUAL_BEAMS, COMPARED_WITH, MODEL
from ..value.handover_ladder import rule_title
from .figure_style import COLORS, GRID, INK, Columns, new_figure
from .html_page import PageTable
from .report_figure import ReportFigure, legend_below
from .run_records import RunRecords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Front -> rule of the filled marker, color and marker.
_LOOKS: Mapping[str, tuple[str, str, str]] = {
    "sweep_tuned_on_bursts": ("sweep", INK, "X"),
    "sweep_tuned": ("sweep_tuned", COLORS[4], "o"),
    "hierarchical_sweep": ("hierarchical_sweep", COLORS[3], "s"),
    "neighbor_sweep": ("neighbor_sweep", COLORS[5], "^"),
    "prior_sweep": ("prior_sweep", COLORS[1], "v"),
    "model_first_k": ("model_first_k", COLORS[0], "D"),
}
_FRONT_TITLES = {"sweep_tuned_on_bursts": "sweep on bursts", "sweep_tuned": "sweep on request"}
#: Shares of time below which the axis is linear: 0 is a share too.
_LINEAR_PERCENT = 0.03
#: Smallest loss that is drawn, Mbit/s: the axis is logarithmic.
_SMALLEST_LOSS = 0.01
_CAPTION = (
    "Throughput lost against the best beam of every frame, over the time spent measuring; better is to the lower left."
    " Lines: sweeps by their period, from 5 ms (bursts) or every frame (on request) on; lists and neighbors by their"
    " number of beams in every frame. Filled: as configured (bursts), and as tuned on other base stations."
)
_NOTE = (
    "Mean over base stations; ± is one standard error of the paired difference over them. Measuring: share of the time"
    " in which beams are measured and no data are sent, with the sweeps that models read. Tuned rules have the setting"
    " of most throughput at the other half of the base stations; the model's first beams at that of their group."
)


def beam_ladder_figure(records: RunRecords) -> Iterator[ReportFigure]:
    """Figure of the ladder; none in a run without one."""
    value = records.summary.get("value", {})
    if value.get("decision") == "beam" and "ladder" in value:
        yield ReportFigure("value-beams", _CAPTION, partial(_draw, value))


def beam_ladder_tables(value: Mapping[str, Any]) -> list[PageTable]:
    """Rules of all base stations and of every group, and lists of equal numbers of beams."""
    groups = value["of_groups"]
    parts = {"Everybody": value, **({f"Group {name}": one for name, one in groups.items()} if len(groups) > 1 else {})}
    return [*(_ladder_table(title, figures["ladder"]) for title, figures in parts.items()), _equal_beams_table(groups)]


def _ladder_table(title: str, ladder: Sequence[Mapping[str, Any]]) -> PageTable:
    rows = [
        [
            rule_title(row["rule"]),
            f"{row['throughput_mbit_s']:.2f}",
            _difference(row, "throughput"),
            f"{row['lost_db']:.3f}",
            _difference(row, "lost_db", 3),
            f"{row['measuring_share']:.2%}",
            _settings(row.get("settings", ())),
        ]
        for row in ladder
    ]
    head = [
        "rule",
        "throughput [Mbit/s]",
        "less the tuned sweep",
        "power lost [dB]",
        "less the tuned sweep",
        "measuring",
        "tuned to",
    ]
    best = frozenset((place, column) for place, row in enumerate(ladder) if row["rule"] == MODEL for column in range(7))
    return PageTable(head, rows, title, note=_NOTE, best=best)


def _difference(row: Mapping[str, Any], name: str, digits: int = 2) -> str:
    if row["rule"] == COMPARED_WITH:
        return "0"
    return f"{row[f'{name}_difference']:+.{digits}f} ± {row[f'{name}_standard_error']:.{digits}f}"


def _settings(settings: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(map(_setting, settings)) if len(settings) <= 2 else f"{len(settings)} settings"


def _setting(one: Mapping[str, Any]) -> str:
    if one["measured_on"] == "ssb":
        return f"bursts every {1e3 * one['period_s']:g} ms"
    period_s, drop_db = one["period_s"], one["drop_db"]
    often = "once" if period_s is None else f"every {period_s:g} s" if period_s else "every frame"
    listed = f"{one['beams']} {'beam' if one['beams'] == 1 else 'beams'} " if "beams" in one else ""
    return f"{listed}{often}{'' if drop_db is None else f', after {drop_db:g} dB'}"


def _equal_beams_table(groups: Mapping[str, Mapping[str, Any]]) -> PageTable:
    _, *others = AT_EQUAL_BEAMS
    rows = [
        [
            group,
            str(row["beams"]),
            *(f"{row[rule]['throughput_mbit_s']:.2f}" if rule in row else "–" for rule in AT_EQUAL_BEAMS),
            *(
                f"{row[f'less_{rule}_difference']:+.2f} ± {row[f'less_{rule}_standard_error']:.2f}"
                if rule in row
                else "–"
                for rule in others
            ),
        ]
        for group, figures in groups.items()
        for row in figures["equal_beams"]
    ]
    differences = [f"model less {rule_title(rule)}" for rule in others]
    return PageTable(
        ["group", "beams", *map(rule_title, AT_EQUAL_BEAMS), *differences],
        rows,
        "Equal numbers of beams, measured in every frame",
        note="Throughput in Mbit/s. One beam of a list is trusted, and not measured. No rule has a fallback here.",
    )


def _draw(value: Mapping[str, Any], columns: Columns) -> Figure:
    groups = value["of_groups"]
    grid = (1, len(groups)) if columns > 1 else (len(groups), 1)
    figure, panels = new_figure(
        columns, 2.8 if columns > 1 else 0.8 + 1.9 * len(groups), grid, sharex=True, sharey=True
    )
    for panel, (group, figures) in zip(panels, groups.items(), strict=True):
        _draw_group(panel, figures)
        panel.set_title(group)
    for panel in panels[-1:] if columns == 1 else panels:
        panel.set_xlabel("measuring [%]")
    for panel in panels if columns == 1 else panels[:1]:
        panel.set_ylabel("lost [Mbit/s]")
    legend_below(figure, panels[0])
    return figure


def _draw_group(panel: Axes, figures: Mapping[str, Any]) -> None:
    rows = {row["rule"]: row for row in figures["ladder"]}
    limit = rows["oracle"]["throughput_mbit_s"]

    def places(points: Sequence[Mapping[str, float]]) -> tuple[list[float], list[float]]:
        x = [100.0 * point["measuring_share"] for point in points]
        return x, [max(limit - point["throughput_mbit_s"], _SMALLEST_LOSS) for point in points]

    for front, (rule, color, marker) in _LOOKS.items():
        look: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "mec": INK, "mew": 0.4, "lw": 0.9}
        title = _FRONT_TITLES.get(front, rule_title(front))
        panel.plot(*places(figures["fronts"][front]), label=title, **look, mfc="none")
        panel.plot(*places([rows[rule]]), ls="none", **{**look, "lw": 0, "ms": 6})
    panel.set_xscale("symlog", linthresh=_LINEAR_PERCENT)
    panel.set_yscale("log")
    panel.grid(color=GRID)
