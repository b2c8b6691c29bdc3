"""Users between their own cell and a neighboring one, handed over on warnings of blockages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.sensor_windows import BlockageWindows
from ...emulator.decisions.deadline import Deadline, deadline
from ...emulator.decisions.foresight import least_outage_s, most_bits
from ...emulator.decisions.handover import TwoCells, Warnings, serve, stay, warned_times
from ...emulator.decisions.service import Service
from ..schema.decision_section import DecisionSection
from ..schema.scenario import Scenario
from .served_stations import Played, Server


class _Seen(NamedTuple):
    """Frames of one base station that are played, one after the other: `rows` [n] of its link."""

    server: Server
    rows: NDArray[np.int64]


def play_handovers(scenario: Scenario, servers: Sequence[Server]) -> list[Played]:
    """Every base station's user, with the next base station in another place as the neighboring cell.

    The neighbor's frames are of another street, which serves as well as any: it has blockages and warnings of its own.
    They are played one for one beside the user's, from its first held-out frame on, again where they end.
    """
    return [_played(scenario, server, _neighbor(servers, own)) for own, server in enumerate(servers)]


def _neighbor(servers: Sequence[Server], own: int) -> Server:
    here = servers[own].client.data.station_index
    order = (*servers[own + 1 :], *servers[:own])
    return next(other for other in order if other.client.data.station_index != here)


def _played(scenario: Scenario, server: Server, neighbor: Server) -> Played:
    decision, frame_s = scenario.decision, server.link.frame_s
    services: dict[str, list[Service]] = {}
    warned, n_before = Deadline(), 0
    for rows in server.link.stretches:
        theirs = (n_before + np.arange(len(rows))) % len(neighbor.delay_s)
        n_before += len(rows)
        for name, service in _one_stretch(decision, frame_s, _Seen(server, rows), _Seen(neighbor, theirs)).items():
            services.setdefault(name, []).append(service)
        warned.add(_deadline(decision, _Seen(server, rows)))
    looks_ahead_s = scenario.data_of(server.client.group).horizon * frame_s
    return Played(
        server,
        {name: Service.total(parts) for name, parts in services.items()},
        deadline_met=server.slowest_answer_s + decision.handover.lead_s <= looks_ahead_s,
        deadline=warned,
        facts={"neighbor": neighbor.client.client_id},
    )


def _one_stretch(decision: DecisionSection, frame_s: float, own: _Seen, other: _Seen) -> dict[str, Service]:
    neighbor_db = decision.clear_snr_db - decision.neighbor_below_db
    own_gain_db, other_gain_db = (seen.server.link.gain_db[seen.rows] for seen in (own, other))
    snr_db = np.stack([decision.clear_snr_db + own_gain_db, neighbor_db + other_gain_db])
    cells, rule = TwoCells.of(snr_db, frame_s, decision.link), decision.handover
    return {
        "nothing": stay(cells),
        "reactive": serve(cells, rule),
        "predictive": serve(cells, rule, _warnings(decision, own, other)),
        "perfect": serve(cells, rule, _true_warnings(own, other)),
        "oracle": Service(
            duration_s=cells.end_s,
            outage_s=least_outage_s(cells, rule.interruption_s),
            bits=most_bits(cells, rule.interruption_s),
        ),
    }


def _warnings(decision: DecisionSection, own: _Seen, other: _Seen) -> Warnings:
    """As the models gave them, when the devices did."""
    spans = []
    for server, rows in (own, other):
        arrival_s = own.server.link.instants_s(rows) + server.delay_s[rows]
        spans.append(warned_times(arrival_s, server.logits[rows, 0] > decision.warn_above_logit))
    return Warnings(spans[0], spans[1])


def _true_warnings(own: _Seen, other: _Seen) -> Warnings:
    """As the labels say, at once."""
    spans = []
    for server, rows in (own, other):
        spans.append(warned_times(own.server.link.instants_s(rows), server.link.samples.label[rows] > 0))
    return Warnings(spans[0], spans[1])


def _deadline(decision: DecisionSection, seen: _Seen) -> Deadline:
    server, rows = seen
    samples, frame_s = server.link.samples, server.link.frame_s
    assert isinstance(samples, BlockageWindows), "warnings are of blockages"
    return deadline(
        samples.blocked_now[rows],
        server.logits[rows, 0] > decision.warn_above_logit,
        server.link.instants_s(rows) + server.delay_s[rows],
        frame_s,
        samples.horizon,
        decision.handover.lead_s,
    )
