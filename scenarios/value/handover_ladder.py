"""The ladder of rules: each compared with the tuned reaction, base station by base station."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.decisions.handover import A3Event
from ...emulator.decisions.service import Service
from ...emulator.radio.waves import Array

#: Offsets to leave and to come back in dB and times to trigger in s, among which rules are tuned.
_AWAY_DB, _BACK_DB, _TRIGGERS_S = (1.0, 2.0, 3.0, 5.0, 8.0), (0.0, 1.0, 3.0), (0.0, 0.04, 0.1, 0.16)
EVENTS = tuple(A3Event(*settings) for settings in product(_AWAY_DB, _BACK_DB, _TRIGGERS_S))
#: Rules from the lowest rung to the highest; `planner_model` only where answers forecast outage.
RULES = (
    "nothing",
    "reactive",
    "reactive_tuned",
    "way_back_prepared",
    "prepare_on_snr_history",
    "always_prepared",
    "planner_without_forecast",
    "planner_snr_history",
    "planner_model",
    "planner_truth",
    "prepare_on_warning",
    "oracle",
)
#: What the others are compared with.
COMPARED_WITH = "reactive_tuned"
_MBIT = 1e6
_KEYS: tuple[Literal["outage", "throughput"], ...] = ("outage", "throughput")


def rule_title(rule: str) -> str:
    """Name of a rule in tables and pictures, short enough for a terminal of eighty columns."""
    return {"planner_without_forecast": "planner, no forecast"}.get(rule, rule.replace("_", " "))


def tuned(services: Sequence[Sequence[Service]], halves: NDArray[np.bool_]) -> list[int]:
    """Of every base station the number of the event with the least outage at the other half of them.

    Args:
        services: [n_stations][n_events].
        halves: [n_stations] half of each; both halves have one.
    """
    outage_s = np.array([[one.outage_s for one in of_events] for of_events in services])
    best = {half: int(outage_s[halves != half].sum(axis=0).argmin()) for half in (False, True)}
    return [best[bool(half)] for half in halves]


def ladder(services: Mapping[str, Sequence[Service]], events: Mapping[str, Sequence[A3Event]]) -> list[dict[str, Any]]:
    """A row per rule: means over base stations, and paired differences to the tuned reaction.

    Args:
        services: rule -> [n_stations] service.
        events: tuned rule -> [n_stations] event that each has.
    """
    outage, throughput = ({rule: figures_of(found, key) for rule, found in services.items()} for key in _KEYS)
    return [
        {
            "rule": rule,
            "outage_ms_per_minute": float(outage[rule].mean()),
            "throughput_mbit_s": float(throughput[rule].mean()),
            **paired("outage", outage[rule] - outage[COMPARED_WITH]),
            **paired("throughput", throughput[rule] - throughput[COMPARED_WITH]),
            **_of_handovers(rule, Service.total(services[rule])),
            **({"events": [one._asdict() for one in dict.fromkeys(events[rule])]} if rule in events else {}),
        }
        for rule in RULES
        if rule in services
    ]


def figures_of(services: Sequence[Service], key: Literal["outage", "throughput"]) -> Array:
    """[n] ms of outage per minute, or throughput in Mbit/s, of every service."""
    return np.array([one.outage_ms_per_min if key == "outage" else one.rate_bps / _MBIT for one in services])


def paired(name: str, differences: Array) -> dict[str, float]:
    """Mean difference over base stations and its standard error."""
    n = len(differences)
    return {
        f"{name}_difference": float(differences.mean()),
        f"{name}_standard_error": float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0,
    }


def _of_handovers(rule: str, total: Service) -> dict[str, float]:
    # two plans, one of least outage and one of most bits: neither has a number of handovers
    if rule == "oracle":
        return {}
    return {
        "handovers_per_minute": total.figures()["actions_per_min"],
        "prepared_share": total.prepared_share,
    }


def reaction_fronts(tried: Mapping[str, Sequence[Sequence[Service]]]) -> dict[str, list[dict[str, float]]]:
    """Rule -> for every time to trigger the point of the offsets with the least outage, over all base stations.

    Args:
        tried: rule -> [n_stations][n_events] service.
    """
    fronts = {}
    for rule, services in tried.items():
        totals = [Service.total(of_event) for of_event in zip(*services, strict=True)]
        points = []
        for trigger_s in _TRIGGERS_S:
            best = min(
                (total for event, total in zip(EVENTS, totals, strict=True) if event.time_to_trigger_s == trigger_s),
                key=lambda total: total.outage_s,
            )
            points.append(
                {
                    "time_to_trigger_s": trigger_s,
                    "outage_ms_per_minute": best.outage_ms_per_min,
                    "throughput_mbit_s": best.rate_bps / _MBIT,
                }
            )
        fronts[rule] = points
    return fronts
