"""Users on one of many beams, whose service follows the models' answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...datasets.baselines import majority_predictions
from ...emulator.decisions.beam_rules import BeamSignals, best, follow_answers, keep, react
from ...emulator.decisions.service import Service
from ...emulator.radio.waves import Array
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import SensorTask
from .served_stations import PlayedUsers, ServedStation, StationValue


def play_beams(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], _seed: int
) -> PlayedUsers:
    """Service of every base station's user under all policies, on beams in the base station's own numbers."""
    return PlayedUsers([_served_on_beams(task, decision, station) for station in stations])


def _served_on_beams(task: SensorTask, decision: DecisionSection, station: ServedStation) -> StationValue:
    frame_s, beams = station.link.frame_s, task.known_beams(station.link.samples)
    assert beams is not None, "answers that point beams are about samples that know them"
    snr_db = _snr_db(decision, beams.powers)
    ranking = np.argsort(-station.logits, axis=1, kind="stable").astype(np.int64)
    # training labels: what was best most often is all that is known without a model
    known = station.client.data.train.label.astype(np.int64)  # as they are: beams
    usual_beam = int(majority_predictions(known, 1, len(beams.numbering), 1, numbering=beams.numbering)[0, 0])
    services: dict[str, list[Service]] = {"nothing": [], "reactive": [], "predictive": [], "oracle": []}
    # every stretch is played on its own: between two of them frames are missing, or another user comes
    for rows in station.link.stretches:
        signals = BeamSignals.of(snr_db[rows], frame_s, decision.link)
        arrival_s = station.link.instants_s(rows) + station.delay_s[rows]
        services["nothing"].append(keep(signals, usual_beam))
        services["reactive"].append(react(signals, decision.beams))
        services["predictive"].append(follow_answers(signals, decision.beams, ranking[rows], arrival_s, usual_beam))
        services["oracle"].append(best(signals))
    return StationValue(
        station,
        {name: Service.total(parts) for name, parts in services.items()},
        deadline_met=station.slowest_answer_s <= frame_s,
    )


def _snr_db(decision: DecisionSection, powers: Array) -> Array:
    """[n, n_beams] signal-to-noise ratio, dB, of linear powers: the median of the best beam is the user's usual one."""
    # recorded powers have an unknown scale; only ratios to the usual power count
    usual = np.median(powers.max(axis=1))
    # a power of 0 would be minus infinity dB, which sums over time do not survive
    return np.asarray(decision.clear_snr_db + 10.0 * np.log10(np.maximum(powers / usual, np.finfo(np.float64).tiny)))
