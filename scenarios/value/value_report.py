"""The section "value" of a run's summary: what users get whoever decides, and whether answers came in time.

Every base station serves one user over its held-out frames. The ways of deciding are played on the same powers: do
nothing, react to a loss, act on the model's answers, and the limit of what anybody could have had. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...emulator.contracts import Learner, NodeId
from ...emulator.decisions.deadline import Deadline
from ...emulator.decisions.service import MS_PER_S, Service
from ..schema.scenario import Scenario
from ..wiring.client import Client
from .beam_value import play_beams
from .handover_value import play_handovers
from .served_stations import Played, Server, servers

Figures = dict[str, Any]

#: Of what can be gained over reacting, shares of less than this part of the figure itself mean nothing.
LEAST_GAIN = 1e-6


def value_of_prediction(
    scenario: Scenario,
    clients: Sequence[Client],
    learners: Sequence[Learner],
    reported: Mapping[str, str],
    recordings: Sequence[Path],
    absent: Collection[NodeId] = (),
) -> Figures:
    """Play all ways of deciding with the models as they are now.

    Args:
        scenario: of the run.
        clients: all of them, ...
        learners: ... and what they have learned.
        reported: group -> name of the model that it reports.
        recordings: that the base stations are in.
        absent: clients whose models are not here.

    Returns:
        `decision`, and figures of `groups`, `everybody` and `clients`; or `skipped`, with the reason.
    """
    present = [client for client in clients if client.client_id not in absent]
    if reason := _why_not(scenario, present):
        return {"skipped": reason}
    return value_of_servers(scenario, servers(scenario, present, learners, reported, recordings))


def value_of_servers(scenario: Scenario, served: Sequence[Server]) -> Figures:
    """The same of models that have answered; rules are those of the scenario."""
    play = play_handovers if scenario.task_spec.decision == "handover" else play_beams
    played = play(scenario, served)
    names = [group.name for group in scenario.clients.groups]
    groups = {name: [one for one in played if one.server.client.group == name] for name in names}
    return {
        "decision": scenario.task_spec.decision,
        "groups": {name: _of_group(members) for name, members in groups.items() if members},
        "everybody": _of_group(played),
        "clients": [_of_client(one) for one in played],
    }


def _why_not(scenario: Scenario, present: Sequence[Client]) -> str:
    """Why there is nothing to tell; empty if there is."""
    if not scenario.decision.evaluate:
        return "decision.evaluate = false"
    if scenario.data.source == "deepsense":
        return "gathered rows carry no times; import the folder (sheafedge import deepsense) to see it"
    if scenario.data.split == "random":
        return "data.split = 'random' holds out no stretch of time"
    n_places = len({client.data.station_index for client in present})
    if n_places < (2 if scenario.task_spec.decision == "handover" else 1):
        return "a handover needs two base stations in places of their own"
    return ""


def _of_group(members: Sequence[Played]) -> Figures:
    services = {name: Service.total(one.services[name] for one in members) for name in members[0].services}
    ways = {name: _service_figures(service, members[0]) for name, service in services.items()}
    gains = {
        key: gain
        for key in ("outage_ms_per_min", "rate_bps")
        if (gain := _share_of_gain(*(ways[name][key] for name in ("reactive", "predictive", "oracle")))) is not None
    }
    return {"clients": len(members), **ways, "share_of_oracle_gain": gains, "deadline": _deadline_of_group(members)}


def _share_of_gain(reactive: float, predictive: float, oracle: float) -> float | None:
    """Of what the oracle gains over reacting, how much predicting does; None where there is nothing to gain."""
    gain = oracle - reactive
    return (predictive - reactive) / gain if abs(gain) > LEAST_GAIN * abs(reactive) else None


def _deadline_of_group(members: Sequence[Played]) -> Figures:
    told: Figures = {
        "met_by": sum(one.deadline_met for one in members),
        "answer_ms": MS_PER_S * float(np.mean([one.server.seconds for one in members])),
        "slowest_answer_ms": MS_PER_S * max(one.server.slowest_answer_s for one in members),
    }
    warned = Deadline()
    for one in members:
        if one.deadline is None:
            return told
        warned.add(one.deadline)
    return {**told, **warned.figures()}


def _of_client(one: Played) -> Figures:
    server = one.server
    return {
        "client": server.client.client_id,
        "group": server.client.group,
        **one.facts,
        **{name: _service_figures(service, one) for name, service in one.services.items()},
        "deadline": {
            "met": one.deadline_met,
            "device": server.device,
            "answer_ms": MS_PER_S * server.seconds,
            "frame_ms": MS_PER_S * server.link.frame_s,
            **({} if one.deadline is None else one.deadline.figures()),
        },
    }


def _service_figures(service: Service, one: Played) -> Figures:
    return {**service.figures(), **({"lost_db": service.lost_db} if one.deadline is None else {})}
