"""Former names of scenario fields.

A user who writes a former name gets an error with the present one: scenario files are edited by hand, and two names for
one field would both stay in use forever. Files written by a run may still have former names, because they are not
edited, and a run folder must open in every later version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PresentName:
    """Present name of a renamed field.

    Attributes:
        field: its dotted name; `*` stands for the number of a list item.
        advice: what to set instead, where the values have changed as well; empty: the values are the same.
    """

    field: str
    advice: str = ""


#: Former dotted name -> where the field is now.
FORMER_NAMES: Mapping[str, PresentName] = {
    "link.blockage_loss": PresentName("link.blocked_loss_probability"),
    "links.edges.*.blockage_loss": PresentName("links.edges.*.blocked_loss_probability"),
    "server.sampled": PresentName("clients.sampled"),
    "decision.handover.warned_for_s": PresentName("decision.handover.prepare_s"),
    "link.loss_model": PresentName(
        "links.model", "set links.model = 'gilbert_elliott' for bursts, and leave it out for 'iid'"
    ),
}

_TUNED_BEAMS = "rules of beams are tuned over periods, losses and numbers of beams"
_COST_OF_BEAMS = "set decision.beams.csi_rs_beam_s for beams on request, decision.beams.ssb_beam_s for those of bursts"
#: Former dotted name of a field that has no successor -> what there is instead. Each was about the evaluation after a
#: run and decided nothing in it, so that files of runs are read on without it.
GONE_NAMES: Mapping[str, str] = {
    "decision.beams.drop_db": _TUNED_BEAMS,
    "decision.beams.resweep_s": _TUNED_BEAMS,
    "decision.beams.candidates": _TUNED_BEAMS,
    "decision.beams.beam_s": _COST_OF_BEAMS,
    "decision.beams.report_s": "set decision.beams.report_delay_s, from a measurement to its report, or"
    " decision.beams.notice_s, until a weak beam is noticed",
}


def answer_to_former_name(where: Sequence[str]) -> str | None:
    """Sentence about the present field, or about what there is instead; None where no field ever had this name.

    Args:
        where: parts of the dotted name as it was written, list items as their numbers.
    """
    if (name := ".".join(where)) in GONE_NAMES:
        return f"{name} is gone; {GONE_NAMES[name]}"
    now = FORMER_NAMES.get(".".join("*" if part.isdigit() else part for part in where))
    if now is None:
        return None
    numbers = iter([part for part in where if part.isdigit()])
    field = ".".join(next(numbers) if part == "*" else part for part in now.field.split("."))
    return f"{'.'.join(where)} is now {field}; {now.advice or 'use that name'}"


def with_present_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables that a run wrote, with the present names of all fields, and without fields that are gone."""
    renamed = {old: now.field for old, now in FORMER_NAMES.items() if not now.advice}
    return _renamed(_without_gone(tables), renamed)


def with_former_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables with the former names of all fields, for hashes that must not change when a field is renamed."""
    renamed = {now.field: old for old, now in FORMER_NAMES.items() if not now.advice}
    return _renamed(tables, renamed)


def _without_gone(tables: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    return {
        key: _without_gone(value, f"{where}{key}.") if isinstance(value, Mapping) else value
        for key, value in tables.items()
        if f"{where}{key}" not in GONE_NAMES
    }


def _renamed(tables: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Copy of the tables with the fields of these dotted names called otherwise, in the same table or in another."""
    moved = {name: other for name, other in names.items() if name.rpartition(".")[0] != other.rpartition(".")[0]}
    last_names = {name: other.rpartition(".")[2] for name, other in names.items() if name not in moved}

    def copied(value: Any, where: str) -> Any:
        if isinstance(value, Mapping):
            return {last_names.get(f"{where}{key}", key): copied(one, f"{where}{key}.") for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [copied(item, f"{where}*.") for item in value]
        return value

    copy: dict[str, Any] = copied(tables, "")
    for name, other in moved.items():
        (table, last), (other_table, other_last) = name.split("."), other.split(".")
        if last in copy.get(table, {}):
            copy.setdefault(other_table, {})[other_last] = copy[table].pop(last)
    return copy
