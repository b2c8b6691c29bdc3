"""The ladder of beam rules: each tuned on other base stations, and compared with the tuned sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.decisions.beam_measurement import SSB_PERIODS_S
from ...emulator.decisions.beam_rules import Trigger
from ...emulator.decisions.service import Service
from .handover_ladder import figures_of, paired

#: Rules from the lowest rung to the highest.
RULES = (
    "nothing",
    "sweep",
    "sweep_tuned",
    "hierarchical_sweep",
    "neighbor_sweep",
    "prior_sweep",
    "model_one_beam",
    "model_first_k",
    "oracle",
)
#: What the others are compared with.
COMPARED_WITH = "sweep_tuned"
#: The tuned rule on answers, which groups may be good or bad at: each tunes its own; and its tuned rivals.
MODEL = "model_first_k"
RIVALS = ("sweep_tuned", "hierarchical_sweep", "neighbor_sweep", "prior_sweep")
#: Numbers of beams among which the lists of the model and of the training samples are tuned, and neighbors.
LISTED_BEAMS, NEIGHBORS = (1, 2, 3, 5, 8), (2, 3, 5, 8)
#: Seconds from a search to the next (0: every frame), and losses in dB that cause one, among which rules are tuned.
_PERIODS_S, _DROPS_DB = (0.0, 0.5, 1.0, 2.0, 5.0, np.inf), (1.0, 3.0, 6.0, np.inf)
TRIGGERS = tuple(Trigger(*settings) for settings in product(_PERIODS_S, _DROPS_DB))
#: In every frame, and nothing else: what rules are compared by at an equal number of beams.
EVERY_FRAME = Trigger(0.0)


class BeamSetting(NamedTuple):
    """Setting of a rule that is tuned.

    Attributes:
        trigger: when it searches.
        n_beams: beams of its list, or neighbors; 0: it has none.
        on_bursts: whether it sweeps on synchronization bursts, whose period the trigger has; else on request.
    """

    trigger: Trigger
    n_beams: int = 0
    on_bursts: bool = False

    def figures(self) -> dict[str, Any]:
        """Setting for summaries; a period or drop of None: never."""
        listed = {"beams": self.n_beams} if self.n_beams else {}
        return {**listed, "measured_on": "ssb" if self.on_bursts else "csi_rs", **self.trigger.figures()}


#: Rule -> its settings, in the order in which services are given.
SETTINGS: Mapping[str, tuple[BeamSetting, ...]] = {
    "sweep_tuned": (
        *(BeamSetting(Trigger(period_s), on_bursts=True) for period_s in SSB_PERIODS_S),
        *(BeamSetting(trigger) for trigger in TRIGGERS),
    ),
    "hierarchical_sweep": tuple(BeamSetting(trigger) for trigger in TRIGGERS),
    "neighbor_sweep": tuple(BeamSetting(trigger, n) for n in NEIGHBORS for trigger in TRIGGERS),
    "prior_sweep": tuple(BeamSetting(trigger, n) for n in LISTED_BEAMS for trigger in TRIGGERS),
    "model_first_k": tuple(BeamSetting(trigger, n) for n in LISTED_BEAMS for trigger in TRIGGERS),
}
#: Rules that measure so many beams in every frame, compared at equal numbers.
AT_EQUAL_BEAMS = (MODEL, "prior_sweep", "neighbor_sweep")

Tried = Mapping[str, Sequence[Sequence[Service]]]


def tuned(
    services: Sequence[Sequence[Service]], halves: NDArray[np.bool_], groups: Sequence[str] | None = None
) -> list[int]:
    """Of every base station the number of the setting with the most throughput at the other half of them.

    Where the other half has nobody of its group, all of that half count; where there is no other half, because all base
    stations are in one place, all the others; and of a single base station itself.

    Args:
        services: [n_stations][n_settings].
        halves: [n_stations] half of each.
        groups: [n_stations] group whose members count; None: all count.
    """
    rate_bps = np.array([[one.rate_bps for one in of_settings] for of_settings in services])
    group = np.zeros(len(halves)) if groups is None else np.unique(groups, return_inverse=True)[1]
    chosen = []
    for station in range(len(halves)):
        other = halves != halves[station]
        others = np.arange(len(halves)) != station
        counted = next((one for one in (other & (group == group[station]), other, others) if one.any()), ~others)
        chosen.append(int(rate_bps[counted].mean(axis=0).argmax()))
    return chosen


def beam_ladder(
    services: Mapping[str, Sequence[Service]], settings: Mapping[str, Sequence[BeamSetting]]
) -> list[dict[str, Any]]:
    """A row per rule: means over base stations, and paired differences to the tuned sweep.

    Args:
        services: rule -> [n_stations] service.
        settings: tuned rule -> [n_stations] setting that each has.
    """
    throughput = {rule: figures_of(found, "throughput") for rule, found in services.items()}
    lost_db = {rule: np.array([one.lost_db for one in found]) for rule, found in services.items()}
    return [
        {
            "rule": rule,
            "throughput_mbit_s": float(throughput[rule].mean()),
            "lost_db": float(lost_db[rule].mean()),
            "outage_ms_per_minute": float(figures_of(services[rule], "outage").mean()),
            "measuring_share": _measuring(services[rule]),
            **paired("throughput", throughput[rule] - throughput[COMPARED_WITH]),
            **paired("lost_db", lost_db[rule] - lost_db[COMPARED_WITH]),
            **({"settings": [one.figures() for one in dict.fromkeys(settings[rule])]} if rule in settings else {}),
        }
        for rule in RULES
        if rule in services
    ]


def model_less_rivals(services: Mapping[str, Sequence[Service]]) -> dict[str, dict[str, float]]:
    """Rival -> paired difference of throughput in Mbit/s of the model's first beams, with its standard error."""
    throughput = {rule: figures_of(services[rule], "throughput") for rule in (MODEL, *RIVALS)}
    return {rule: paired("throughput", throughput[MODEL] - throughput[rule]) for rule in RIVALS}


def beam_fronts(tried: Tried) -> dict[str, list[dict[str, Any]]]:
    """Rule -> points of share of time measuring, throughput and lost power, over all base stations.

    Sweeps have a point per period, without a reaction to losses; the others one per number of beams in every frame.
    """
    fronts: dict[str, list[dict[str, Any]]] = {}
    for rule, services in tried.items():
        kept: Mapping[str, list[int]] = {rule: [], f"{rule}_on_bursts": []}
        for place, one in enumerate(SETTINGS[rule]):
            if np.isinf(one.trigger.drop_db) and (one.trigger == EVERY_FRAME or not one.n_beams):
                kept[f"{rule}_on_bursts" if one.on_bursts else rule].append(place)
        fronts |= {
            name: [
                {**SETTINGS[rule][place].figures(), **_point([of_station[place] for of_station in services])}
                for place in places
            ]
            for name, places in kept.items()
            if places
        }
    return fronts


def at_equal_beams(tried: Tried) -> list[dict[str, Any]]:
    """A row per number of beams that are measured in every frame: the model's first, less those of other lists.

    `less_RULE` is the paired difference of throughput in Mbit/s, with its standard error over base stations.
    """
    rows = []
    for n_beams in LISTED_BEAMS:
        wanted = BeamSetting(EVERY_FRAME, n_beams)
        found = {
            rule: [of_station[SETTINGS[rule].index(wanted)] for of_station in tried[rule]]
            for rule in AT_EQUAL_BEAMS
            if wanted in SETTINGS[rule]
        }
        model, *others = found
        throughput = {rule: figures_of(services, "throughput") for rule, services in found.items()}
        rows.append(
            {
                "beams": n_beams,
                **{rule: _point(services) for rule, services in found.items()},
                **{
                    key: value
                    for rule in others
                    for key, value in paired(f"less_{rule}", throughput[model] - throughput[rule]).items()
                },
            }
        )
    return rows


def _point(services: Sequence[Service]) -> dict[str, float]:
    return {
        "measuring_share": _measuring(services),
        "throughput_mbit_s": float(figures_of(services, "throughput").mean()),
        "lost_db": float(np.mean([one.lost_db for one in services])),
    }


def _measuring(services: Sequence[Service]) -> float:
    return float(np.mean([one.interrupted_share for one in services]))
