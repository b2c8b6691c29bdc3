"""Users on the beams of their base station, switched as the models say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...datasets.baselines import majority_predictions
from ...datasets.windows.sensor_windows import BeamWindows
from ...emulator.decisions.beam_rules import BeamSignals, best, follow_answers, keep, react
from ...emulator.decisions.service import Service
from ...emulator.radio.waves import Array
from ..schema.decision_section import DecisionSection
from ..schema.scenario import Scenario
from .served_stations import Played, Server


def play_beams(scenario: Scenario, servers: Sequence[Server]) -> list[Played]:
    """Every base station's user, on beams in the base station's own numbers."""
    return [_played(scenario.decision, server) for server in servers]


def _played(decision: DecisionSection, server: Server) -> Played:
    samples, frame_s = server.link.samples, server.link.frame_s
    assert isinstance(samples, BeamWindows), "beams have powers"
    snr_db = _snr_db(decision, samples.powers)
    ranking = np.argsort(-server.logits, axis=1, kind="stable").astype(np.int64)
    known = server.client.data.train.label
    usual_beam = int(majority_predictions(known, 1, samples.n_beams, 1, numbering=samples.numbering)[0, 0])
    services: dict[str, list[Service]] = {"nothing": [], "reactive": [], "predictive": [], "oracle": []}
    for rows in server.link.stretches:
        signals = BeamSignals.of(snr_db[rows], frame_s, decision.link)
        arrival_s = server.link.instants_s(rows) + server.delay_s[rows]
        services["nothing"].append(keep(signals, usual_beam))
        services["reactive"].append(react(signals, decision.beams))
        services["predictive"].append(follow_answers(signals, decision.beams, ranking[rows], arrival_s, usual_beam))
        services["oracle"].append(best(signals))
    return Played(
        server,
        {name: Service.total(parts) for name, parts in services.items()},
        deadline_met=server.slowest_answer_s <= frame_s,
    )


def _snr_db(decision: DecisionSection, powers: Array) -> Array:
    """[n, n_beams] linear -> dB: the median of the best beam is the user's usual signal."""
    usual = np.median(powers.max(axis=1))
    return np.asarray(decision.clear_snr_db + 10.0 * np.log10(np.maximum(powers / usual, np.finfo(np.float64).tiny)))
