"""The section "value" of a run's summary: service of users under every way of deciding, and warnings in time.

Every base station serves one user over its held-out frames. The ways of deciding are played on the same powers: do
nothing, react to a loss, act on the model's answers, and the limit of what any decision could reach. What is drawn, the
noise of readings, has streams of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...emulator.contracts import NodeId
from ...emulator.decisions.service import MS_PER_S, Service
from ...emulator.decisions.warning_events import WarningEvents, together
from ..schema.data_section import DataSection
from ..schema.decision_section import DecisionSection
from ..schema.scenario import Scenario
from ..tasks.task_spec import SensorTask
from ..wiring.client import Client
from ..wiring.members import client_devices
from ..wiring.predictions import Predictions
from .beam_ladder import COMPARED_WITH as SWEEP_TUNED
from .handover_ladder import COMPARED_WITH
from .played_beams import play_beams
from .played_handovers import play_handovers
from .served_stations import PlayedUsers, ServedStation, StationValue, served_stations
from .user_links import served_links

Figures = dict[str, Any]

#: Smallest gain of the oracle, relative to the reactive figure, of which a share is computed.
LEAST_GAIN = 0.01


class Decision(NamedTuple):
    """Row of the table of decisions: how answers of a task control the service of users.

    Attributes:
        play: service of the users of all base stations under every policy.
        reads_fades: whether received power is read from recordings; samples of beams hold it themselves.
        fewest_places: smallest number of base stations in different places.
        compared: policy without answers, and the one on answers, whose gain is compared with the oracle's.
        too_few: reason for skipping the evaluation where there are fewer.
    """

    play: Callable[[SensorTask, DecisionSection, Sequence[ServedStation], int], PlayedUsers]
    reads_fades: bool
    fewest_places: int
    compared: tuple[str, str]
    too_few: str = "no client is here"


#: `SensorTask.decision` -> how answers of the task are acted on.
DECISIONS: Mapping[str, Decision] = {
    "handover": Decision(
        play_handovers,
        True,
        2,
        (COMPARED_WITH, "prepare_on_warning"),
        "a handover needs two base stations in places of their own",
    ),
    "beam": Decision(play_beams, False, 1, (SWEEP_TUNED, "model_first_k")),
}


def value_of_prediction(
    scenario: Scenario,
    clients: Sequence[Client],
    predictions: Predictions,
    reported: Mapping[str, str],
    recordings: Sequence[Path],
    absent: Collection[NodeId] = (),
) -> Figures:
    """Value of prediction of the trained models, under all policies.

    Args:
        scenario: scenario of the run.
        clients: all clients.
        predictions: answers of the trained models.
        reported: group -> name of the model that it reports.
        recordings: recordings of the base stations.
        absent: clients whose models are in other processes.

    Returns:
        `decision`, figures of `groups`, `everybody` and `clients`, `ladder` and `fronts`, of handovers `powers_hz`, of
        beams `equal_beams` and `of_groups`; or `skipped`, with the reason; empty where the answers control nothing.
    """
    task = scenario.task_spec
    if not isinstance(task, SensorTask):
        return {}
    decision = DECISIONS[task.decision]
    present = [client for client in clients if client.client_id not in absent]
    if reason := _why_not(scenario.decision, scenario.data, decision, present) or _without_powers(task, present):
        return {"skipped": reason}
    links = served_links(present, recordings, scenario.links.settings_of("radio"), with_fades=decision.reads_fades)
    stations = served_stations(
        present, predictions, reported, links, client_devices(scenario.compute, scenario.clients, scenario.seed)
    )
    groups = [group.name for group in scenario.clients.groups]
    return value_of_stations(task, scenario.decision, stations, groups, scenario.seed)


def value_of_stations(
    task: SensorTask, rules: DecisionSection, stations: Sequence[ServedStation], groups: Sequence[str], seed: int
) -> Figures:
    """Value of prediction of base stations whose models have answered.

    Args:
        task: task of the models.
        rules: parameters of the policies.
        stations: base stations with their answers.
        groups: names of the groups, in the order of the report.
        seed: seed of the noise of readings.
    """
    decision = DECISIONS[task.decision]
    values, figures = decision.play(task, rules, stations, seed)
    members_of = {name: [one for one in values if one.station.client.group == name] for name in groups}
    return {
        "decision": task.decision,
        **figures,
        "groups": {name: _of_group(members, decision) for name, members in members_of.items() if members},
        "everybody": _of_group(values, decision),
        "clients": [_of_client(one) for one in values],
    }


def _why_not(rules: DecisionSection, data: DataSection, decision: Decision, present: Sequence[Client]) -> str:
    """Reason why nothing can be played; empty if it can."""
    if not rules.evaluate:
        return "decision.evaluate = false"
    if data.split == "random":
        return "data.split = 'random' holds out no stretch of time"
    n_places = len({client.data.station_index for client in present})
    return decision.too_few if n_places < decision.fewest_places else ""


def _without_powers(task: SensorTask, present: Sequence[Client]) -> str:
    """Reason why no beams can be played: held-out frames have best beams without powers; empty if all have powers."""
    n_frames = n_silent = 0
    for client in present:
        beams = None if client.data.served is None else task.known_beams(client.data.served)
        if beams is not None:
            n_frames, n_silent = n_frames + len(beams.powers), n_silent + int(np.isnan(beams.powers).all(axis=1).sum())
    return f"no powers: {n_silent:,} of {n_frames:,} held-out frames have a best beam alone" if n_silent else ""


def _of_group(members: Sequence[StationValue], decision: Decision) -> Figures:
    services = {name: Service.total(one.services[name] for one in members) for name in members[0].services}
    ways = {name: _service_figures(service, members[0]) for name, service in services.items()}
    gains = {
        key: gain
        for key in ("outage_ms_per_min", "rate_bps")
        if (gain := _share_of_gain(*(ways[name][key] for name in (*decision.compared, "oracle")))) is not None
    }
    return {"clients": len(members), **ways, "share_of_oracle_gain": gains, "deadline": _deadline_of_group(members)}


def _share_of_gain(reactive: float, predictive: float, oracle: float) -> float | None:
    """Share of the oracle's gain over reactive control that prediction reaches; None where there is nothing to gain."""
    gain = oracle - reactive
    return (predictive - reactive) / gain if abs(gain) > LEAST_GAIN * abs(reactive) else None


def _deadline_of_group(members: Sequence[StationValue]) -> Figures:
    figures: Figures = {
        "met_by": sum(one.deadline_met for one in members),
        "answer_ms": MS_PER_S * float(np.mean([one.station.seconds for one in members])),
        "slowest_answer_ms": MS_PER_S * max(one.station.slowest_answer_s for one in members),
    }
    warned = [one.warnings for one in members if one.warnings is not None]
    return {**figures, **(warning_figures(together(warned)) if warned else {})}


def warning_figures(events: WarningEvents) -> Figures:
    """Figures for summaries; shares and leads only where there is something to share."""
    n = len(events.onsets)
    in_time = events.n("in_time")
    figures: Figures = {
        "blockages": n,
        "in_time": in_time,
        "late": events.n("late"),
        "missed": events.n("missed") + events.n("unanswered"),
        "false_alarms_per_min": events.false_alarms_per_min,
    }
    if n:
        figures["in_time_share"] = in_time / n
    if len(events.usable_s):
        figures["median_lead_ms"] = MS_PER_S * float(np.median(events.usable_s))
    return figures


def _of_client(one: StationValue) -> Figures:
    station = one.station
    return {
        "client": station.client.client_id,
        "group": station.client.group,
        **one.facts,
        **{name: _service_figures(service, one) for name, service in one.services.items()},
        "deadline": {
            "met": one.deadline_met,
            "device": station.device,
            "answer_ms": MS_PER_S * station.seconds,
            "frame_ms": MS_PER_S * station.link.frame_s,
            **({} if one.warnings is None else warning_figures(one.warnings)),
        },
    }


def _service_figures(service: Service, one: StationValue) -> Figures:
    of_beams = {"lost_db": service.lost_db, "measuring_share": service.interrupted_share}
    return {**service.figures(), **(of_beams if one.warnings is None else {})}
