"""What prediction is worth, for people: a table, and a line on deadlines for every group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

_WAYS = ("nothing", "reactive", "predictive", "oracle")
_TITLES = {"handover": "a user handed over", "beam": "a user followed by a beam"}


class _Row(NamedTuple):
    """A figure of the table: its key, its title, and how it is written."""

    key: str
    title: str
    written: Callable[[float], str]


_OUTAGE = _Row("outage_ms_per_min", "outage, ms/min", "{:,.0f}".format)
_RATE = _Row("rate_bps", "Mbit/s", lambda bps: f"{bps / 1e6:.1f}")
_LOST = _Row("lost_db", "power lost, dB", "{:.2f}".format)


def value_table(value: Mapping[str, Any]) -> Table:
    """Rows per group, a column per way of deciding; the last is how much of the oracle's gain over reacting is had."""
    table = Table(
        title=f"What prediction is worth: {_TITLES[value['decision']]}",
        title_justify="left",
        caption="gained: share of what the oracle gains over reacting",
        caption_justify="left",
    )
    table.add_column("group (clients)", overflow="fold")
    for name in _WAYS:
        table.add_column(name, justify="right")
    table.add_column("gained", justify="right")
    rows = (_OUTAGE, _RATE) if value["decision"] == "handover" else (_OUTAGE, _RATE, _LOST)
    for group, figures in value["groups"].items():
        table.add_row(f"{escape(group)} ({figures['clients']})")
        for row in rows:
            gained = figures["share_of_oracle_gain"].get(row.key)
            table.add_row(
                f"  {row.title}",
                *(row.written(figures[name][row.key]) for name in _WAYS),
                "-" if gained is None else f"{gained:.0%}",
                end_section=row is rows[-1],
            )
    return table


def deadline_lines(value: Mapping[str, Any]) -> list[str]:
    """One sentence per group: do answers come soon enough?"""
    return [f"{name}: {_deadline(figures)}" for name, figures in value["groups"].items()]


def _deadline(figures: Mapping[str, Any]) -> str:
    seen = figures["deadline"]
    met = f"deadline met by {seen['met_by']} of {figures['clients']} devices ({seen['answer_ms']:.1f} ms an answer)"
    if not seen.get("blockages"):
        return met
    lead = f", {seen['median_lead_ms']:.0f} ms ahead (median)" if "median_lead_ms" in seen else ""
    return (
        f"{met}; of {seen['blockages']} blockages {seen['in_time']} predicted in time, {seen['late']} late,"
        f" {seen['missed']} missed{lead}; {seen['false_alarms_per_min']:.1f} false alarms a minute"
    )
