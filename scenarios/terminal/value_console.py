"""Table of the value of prediction, and one line per group about deadlines and warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

_POLICIES = ("nothing", "reactive", "predictive", "oracle")
_TITLES = {"handover": "handover", "beam": "beam tracking"}


class _Figure(NamedTuple):
    """One figure of the table: its key in the summary, its title, and its format."""

    key: str
    title: str
    written: Callable[[float], str]


_OUTAGE = _Figure("outage_ms_per_min", "outage, ms/min", "{:,.0f}".format)
_RATE = _Figure("rate_bps", "Mbit/s", lambda bps: f"{bps / 1e6:.1f}")
_LOST = _Figure("lost_db", "power lost, dB", "{:.2f}".format)


def value_table(value: Mapping[str, Any]) -> Table:
    """Table with the figures of each group as rows and the policies as columns.

    The last column is the share of the oracle's gain over reactive control that prediction reaches.
    """
    table = Table(
        title=f"Value of prediction: {_TITLES[value['decision']]}",
        title_justify="left",
        caption="gained: share of the oracle's gain over reactive control",
        caption_justify="left",
    )
    table.add_column("group (clients)", overflow="fold")
    for name in _POLICIES:
        table.add_column(name, justify="right")
    table.add_column("gained", justify="right")
    for group, figures in value["groups"].items():
        rows = [row for row in (_OUTAGE, _RATE, _LOST) if row.key in figures["nothing"]]
        table.add_row(f"{escape(group)} ({figures['clients']})")
        for row in rows:
            gained = figures["share_of_oracle_gain"].get(row.key)
            table.add_row(
                f"  {row.title}",
                *(row.written(figures[name][row.key]) for name in _POLICIES),
                "-" if gained is None else f"{gained:.0%}",
                end_section=row is rows[-1],
            )
    return table


def deadline_lines(value: Mapping[str, Any]) -> list[str]:
    """One sentence per group: deadlines met, blockages predicted in time, false alarms."""
    return [f"{name}: {_deadline(figures)}" for name, figures in value["groups"].items()]


def _deadline(figures: Mapping[str, Any]) -> str:
    facts = figures["deadline"]
    met = f"met by {facts['met_by']} of {figures['clients']} devices ({facts['answer_ms']:.1f} ms per answer)"
    if not facts.get("blockages"):
        return met
    lead = f", median lead {facts['median_lead_ms']:.0f} ms" if "median_lead_ms" in facts else ""
    return (
        f"{met}; of {facts['blockages']} blockages {facts['in_time']} predicted in time, {facts['late']} late,"
        f" {facts['missed']} missed{lead}; {facts['false_alarms_per_min']:.1f} false alarms per minute"
    )
