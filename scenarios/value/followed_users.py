"""Users of base stations whose frames and codebooks are alike, played under every setting of every beam rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...datasets.baselines import majority_predictions
from ...emulator.decisions.beam_measurement import SSB_PERIODS_S
from ...emulator.decisions.beam_rules import Trigger, play
from ...emulator.decisions.beam_searches import (
    Procedure,
    Search,
    arrived_answers,
    hierarchical_sweep,
    listed_beams,
    neighbor_sweep,
    sweep_on_bursts,
    sweep_on_request,
)
from ...emulator.decisions.beam_signals import BeamSignals
from ...emulator.decisions.service import Service
from ...emulator.radio.waves import Array
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import SensorTask
from .beam_ladder import EVERY_FRAME, LISTED_BEAMS, NEIGHBORS, TRIGGERS, Tried
from .served_stations import ServedStation

#: [n_stations][n_triggers]
Services = list[list[Service]]


class FollowedUsers:
    """Users of some base stations, one after the other at each; beams are in the order of the codebook.

    Args:
        task: task of the models.
        decision: parameters of the rules.
        stations: base stations with frames of one length and codebooks of one size.
    """

    def __init__(self, task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation]) -> None:
        of_stations = [list(_users(task, decision, station)) for station in stations]
        users = [user for of_station in of_stations for user in of_station]
        ends = np.cumsum([len(of_station) for of_station in of_stations])
        self._parts = [slice(end - len(of_station), end) for end, of_station in zip(ends, of_stations, strict=True)]
        self._users = users
        self._measurement = decision.beams
        self._signals = BeamSignals.of([user.snr_db for user in users], stations[0].link.frame_s, decision.link)
        self._first = np.array([user.usual[0] for user in users], dtype=np.int64)
        swept_s = self._measurement.on_request(self._signals.n_beams).airtime_s
        self._inputs_s = np.array([swept_s * user.reads_sweeps for user in users])
        self._sweep = sweep_on_request(self._signals, self._measurement)

    def fixed(self) -> dict[str, list[Service]]:
        """Rule without settings to tune -> service per base station."""
        signals = self._signals
        usual = np.repeat(self._first[:, None], signals.n_frames, axis=1)
        return {
            "nothing": self._summed(signals.on(usual)),
            "sweep": [of_station[0] for of_station in self._on_bursts(self._measurement.ssb_period_s)],
            "model_one_beam": [of_station[0] for of_station in self._answered(1, [EVERY_FRAME])],
            "oracle": self._summed(signals.on(signals.best)),
        }

    def tried(self) -> Tried:
        """Rule -> [n_stations] service under each of its settings, in the order of `beam_ladder.SETTINGS`."""
        wide_first = hierarchical_sweep(self._signals, self._measurement)
        return {
            "sweep_tuned": _joined(
                [
                    *(self._on_bursts(period_s) for period_s in SSB_PERIODS_S),
                    self._played(Procedure(self._sweep, self._sweep)),
                ]
            ),
            "hierarchical_sweep": self._played(Procedure(wide_first, wide_first)),
            "neighbor_sweep": _joined([self._beside(n_beams) for n_beams in NEIGHBORS]),
            "prior_sweep": _joined([self._usual(n_beams) for n_beams in LISTED_BEAMS]),
            "model_first_k": _joined([self._answered(n_beams, TRIGGERS) for n_beams in LISTED_BEAMS]),
        }

    def _on_bursts(self, period_s: float) -> Services:
        bursts = sweep_on_bursts(self._signals, self._measurement, period_s)
        return self._played(Procedure(bursts, bursts), [EVERY_FRAME])

    def _beside(self, n_beams: int) -> Services:
        beside = neighbor_sweep(self._signals, self._measurement, n_beams)
        return self._played(Procedure(beside, self._sweep, swept_first=True))

    def _usual(self, n_beams: int) -> Services:
        def listed(user: _User) -> tuple[NDArray[np.int64], Array]:
            n_frames = len(user.snr_db)
            return np.tile(user.usual[:n_beams], (n_frames, 1)), np.zeros(n_frames)

        return self._played(Procedure(self._listed(listed), self._sweep))

    def _answered(self, n_beams: int, triggers: Sequence[Trigger]) -> Services:
        def listed(user: _User) -> tuple[NDArray[np.int64], Array]:
            return arrived_answers(user.ranking[:, :n_beams], user.arrival_s, self._signals.frame_s)

        return self._played(Procedure(self._listed(listed), self._sweep), triggers, self._inputs_s)

    def _listed(self, listed: Callable[[_User], tuple[NDArray[np.int64], Array]]) -> Search:
        beams, at_s = zip(*map(listed, self._users), strict=True)
        return listed_beams(self._signals, self._measurement, beams, at_s)

    def _played(
        self, procedure: Procedure, triggers: Sequence[Trigger] = TRIGGERS, inputs_s: Array | None = None
    ) -> Services:
        played = play(self._signals, self._measurement, procedure, triggers, self._first, inputs_s)
        return [played.services(part) for part in self._parts]

    def _summed(self, services: Sequence[Service]) -> list[Service]:
        return [Service.total(services[part]) for part in self._parts]


class _User(NamedTuple):
    """User over an unbroken stretch of frames.

    Attributes:
        snr_db: [n_frames, n_beams].
        usual: [n_beams] beams by how often they were best in training.
        ranking: [n_frames, n_beams] beams of the model's answers.
        arrival_s: [n_frames] when these arrive, from the first frame on.
        reads_sweeps: whether the model reads the sweep of every frame, which has to be made.
    """

    snr_db: Array
    usual: NDArray[np.int64]
    ranking: NDArray[np.int64]
    arrival_s: Array
    reads_sweeps: bool


def _users(task: SensorTask, decision: DecisionSection, station: ServedStation) -> Iterator[_User]:
    """Users of a base station; between two stretches frames are missing, or another user comes."""
    beams, client = task.known_beams(station.link.samples), station.client
    assert beams is not None, "answers that point beams are about samples that know them"
    numbering = beams.numbering
    snr_db = _snr_db(decision, beams.powers)[:, np.argsort(numbering)]
    ranking = numbering[np.argsort(-station.logits, axis=1, kind="stable")].astype(np.int64)
    known = client.data.train.label.astype(np.int64)  # as they are: beams
    usual = numbering[majority_predictions(known, 1, len(numbering), len(numbering), numbering=numbering)[0]]
    reads_sweeps = bool(set(task.swept) & set(client.modalities))
    for rows in station.link.stretches:
        arrival_s = station.link.instants_s(rows) + station.delay_s[rows]
        yield _User(snr_db[rows], usual.astype(np.int64), ranking[rows], arrival_s, reads_sweeps)


def _snr_db(decision: DecisionSection, powers: Array) -> Array:
    """[n, n_beams] signal-to-noise ratio, dB, of linear powers: the median of the best beam is the user's usual one."""
    # recorded powers have an unknown scale; only ratios to the usual power count
    usual = np.median(powers.max(axis=1))
    # a power of 0 would be minus infinity dB, which sums over time do not survive
    return np.asarray(decision.clear_snr_db + 10.0 * np.log10(np.maximum(powers / usual, np.finfo(np.float64).tiny)))


def _joined(parts: Sequence[Services]) -> Services:
    """[n_stations] services of all parts, one after the other."""
    return [[one for of_part in of_station for one in of_part] for of_station in zip(*parts, strict=True)]
