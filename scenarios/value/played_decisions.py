"""Users whose service follows the models' answers: handed over between two cells, or switched between beams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...datasets.baselines import majority_predictions
from ...emulator.decisions.beam_rules import BeamSignals, best, follow_answers, keep, react
from ...emulator.decisions.handover import TwoCells, Warnings, least_outage_s, most_bits, serve, stay, warned_times
from ...emulator.decisions.service import Service
from ...emulator.decisions.warning_events import WarningEvents, WarningRecord, warning_events
from ...emulator.radio.waves import Array
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import KnownBlockages, SensorTask
from .served_stations import ServedStation, StationValue


class _Cell(NamedTuple):
    """Cell of a handover: one base station, and the frames of it that are played one after the other.

    Attributes:
        station: base station of the cell.
        blockages: blockages of all samples of its link.
        rows: [n] rows of its link that are played.
    """

    station: ServedStation
    blockages: KnownBlockages
    rows: NDArray[np.int64]


def play_handovers(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation]
) -> list[StationValue]:
    """Service of every base station's user under all policies; the next other base station is the neighboring cell.

    The neighbor's frames are of another street, which serves as well as any: it has blockages and warnings of its own.
    They are played one for one beside the user's, from its first held-out frame on, again where they end.
    """
    return [_served_by_cells(task, decision, station, _neighbor(stations, own)) for own, station in enumerate(stations)]


def _neighbor(stations: Sequence[ServedStation], own: int) -> ServedStation:
    # clients can share a base station, whose frames are the user's own: a blockage would hit both cells
    here = stations[own].client.data.station_index
    order = (*stations[own + 1 :], *stations[:own])
    return next(other for other in order if other.client.data.station_index != here)


def _known(task: SensorTask, station: ServedStation) -> KnownBlockages:
    blockages = task.known_blockages(station.link.samples)
    assert blockages is not None, "answers that hand users over are warnings of blockages"
    return blockages


def _served_by_cells(
    task: SensorTask, decision: DecisionSection, station: ServedStation, neighbor: ServedStation
) -> StationValue:
    own, other, frame_s = _known(task, station), _known(task, neighbor), station.link.frame_s
    services: dict[str, list[Service]] = {}
    n_before = 0
    for rows in station.link.stretches:
        # the neighbor's frames begin again where they end, so that every frame of the user has one beside it
        theirs = (n_before + np.arange(len(rows))) % len(neighbor.delay_s)
        n_before += len(rows)
        cells = _Cell(station, own, rows), _Cell(neighbor, other, theirs)
        for name, service in _one_stretch(decision, frame_s, *cells).items():
            services.setdefault(name, []).append(service)
    return StationValue(
        station,
        {name: Service.total(parts) for name, parts in services.items()},
        deadline_met=station.slowest_answer_s + decision.handover.lead_s <= own.horizon * frame_s,
        warnings=_warning_events(decision, station, own),
        facts={"neighbor": neighbor.client.client_id},
    )


def _one_stretch(decision: DecisionSection, frame_s: float, own: _Cell, other: _Cell) -> dict[str, Service]:
    # gains are relative to a clear view; the neighbor is weaker by a fixed margin
    neighbor_db = decision.clear_snr_db - decision.neighbor_below_db
    own_gain_db, other_gain_db = (cell.station.link.gain_db[cell.rows] for cell in (own, other))
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


def _warnings(decision: DecisionSection, own: _Cell, other: _Cell) -> Warnings:
    """Warnings of the models in both cells, at the instants at which the devices gave them."""
    spans = []
    for station, _, rows in (own, other):
        # both cells play on the clock of the user's frames
        arrival_s = own.station.link.instants_s(rows) + station.delay_s[rows]
        spans.append(warned_times(arrival_s, station.logits[rows, 0] > decision.warn_above_logit))
    return Warnings(spans[0], spans[1])


def _true_warnings(own: _Cell, other: _Cell) -> Warnings:
    """Warnings that follow the labels in both cells, without delay."""
    spans = []
    for _, blockages, rows in (own, other):
        spans.append(warned_times(own.station.link.instants_s(rows), blockages.soon[rows]))
    return Warnings(spans[0], spans[1])


def _warning_events(decision: DecisionSection, station: ServedStation, blockages: KnownBlockages) -> WarningEvents:
    """Blockages and warnings of one base station, counted by the rule that a replay uses."""
    link = station.link
    begins = np.zeros(len(link.samples), dtype=np.bool_)
    begins[[rows[0] for rows in link.stretches if len(rows)]] = True
    return warning_events(
        WarningRecord(
            time_s=link.instants_s(np.arange(len(link.samples))),  # rests between stretches end every series anyway
            blocked=blockages.blocked,
            begins=begins,
            soon=blockages.soon,
            answered=np.isfinite(station.delay_s),
            warned=station.logits[:, 0] > decision.warn_above_logit,
            delay_s=station.delay_s,
            horizon_s=blockages.horizon * link.frame_s,
            needed_s=decision.handover.lead_s,
        )
    )


def play_beams(task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation]) -> list[StationValue]:
    """Service of every base station's user under all policies, on beams in the base station's own numbers."""
    return [_served_on_beams(task, decision, station) for station in stations]


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
