"""Users of all base stations between two cells: signals, readings, and how they are played under one rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...emulator.contracts import Labels
from ...emulator.decisions.handover import A3Event, MeasuredUser, PlannedMoves, hand_over
from ...emulator.decisions.handover_limits import least_outage_s, most_bits
from ...emulator.decisions.service import Service
from ...emulator.decisions.two_cells import Spans, TwoCells, warned_times
from ...emulator.decisions.warning_events import WarningEvents, WarningRecord, warning_events
from ...emulator.random_streams import named_stream
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import ForecastTask, KnownBlockages, SensorTask
from .served_stations import ServedStation, StationValue
from .snr_history import snr_history_logits

#: Thresholds that are tried when the history of the signal shall prepare as much as the models do.
_N_THRESHOLDS = 101


@dataclass(frozen=True, slots=True, eq=False)
class UserStretch:
    """Unbroken frames of one user.

    Attributes:
        station: number of its base station.
        rows: [n] rows of the link that are played.
        neighbor: number of the base station of the other cell.
        theirs: [n] rows of its link that are played beside them.
        user: the user, with the other cell prepared at no time.
    """

    station: int
    rows: NDArray[np.int64]
    neighbor: int
    theirs: NDArray[np.int64]
    user: MeasuredUser


class Users:
    """Users of all base stations, cut into unbroken stretches."""

    def __init__(
        self, task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], seed: int
    ) -> None:
        self._task, self._decision, self._stations, self._seed = task, decision, stations, seed
        self._known = [_known(task, station.link.samples) for station in stations]
        self._neighbors = [_neighbor(stations, own) for own in range(len(stations))]
        self.stretches = [one for own in range(len(stations)) for one in self._cut(own)]
        self.never = [one.user.prepared for one in self.stretches]

    def _cut(self, own: int) -> list[UserStretch]:
        station, chain = self._stations[own], self._decision.measurement
        neighbor = self._stations[self._neighbors[own]]
        draws = named_stream(self._seed, "decision", station.client.client_id, "readings")
        cut, n_before = [], 0
        for rows in station.link.stretches:
            # the neighbor's frames begin again where they end, so that every frame of the user has one beside it
            theirs = (n_before + np.arange(len(rows))) % len(neighbor.delay_s)
            n_before += len(rows)
            cells = self._cells(station, rows, neighbor, theirs)
            readings_db = chain.readings_db(cells.snr_db, cells.frame_s, draws)
            known_s = chain.instants_s(cells.end_s) + chain.delay_s
            known = known_s < cells.end_s
            never = np.zeros(int(known.sum()), dtype=np.bool_)
            user = MeasuredUser(cells, known_s[known], readings_db[:, known], never)
            cut.append(UserStretch(own, rows, self._neighbors[own], theirs, user))
        return cut

    def _cells(
        self, station: ServedStation, rows: NDArray[np.int64], neighbor: ServedStation, theirs: NDArray[np.int64]
    ) -> TwoCells:
        decision, n_steps = self._decision, station.link.n_steps
        # gains are relative to a clear view; the neighbor is weaker by a fixed margin
        own_db = decision.clear_snr_db + station.link.served_gain_db[rows]
        # at the user's own steps, also where the neighbor's powers were recorded more or less often
        step = np.arange(n_steps) * neighbor.link.n_steps // n_steps
        other_db = decision.clear_snr_db - decision.neighbor_below_db + neighbor.link.served_gain_db[theirs][:, step]
        return TwoCells.of(np.stack([own_db.ravel(), other_db.ravel()]), station.link.frame_s / n_steps, decision.link)

    def played(
        self, events: Sequence[A3Event], prepared: Sequence[NDArray[np.bool_]], *, back: bool = False
    ) -> list[list[Service]]:
        """[n_stations][n_events] service, with the other cell prepared at some readings [m] of each stretch."""
        users = [replace(one.user, prepared=ready) for one, ready in zip(self.stretches, prepared, strict=True)]
        return self.summed(hand_over(users, self._decision.handover, events, way_back_prepared=back))

    def planned(self, events: Sequence[A3Event], plans: Sequence[PlannedMoves]) -> list[list[Service]]:
        """[n_stations][n_events] service under plans of each stretch, one for every event; nothing is prepared."""
        users = [replace(one.user, planned=moves) for one, moves in zip(self.stretches, plans, strict=True)]
        return self.summed(hand_over(users, self._decision.handover, events, way_back_prepared=False))

    def summed(self, services: Sequence[Sequence[Service]]) -> list[list[Service]]:
        """[n_stretches][n_events] -> [n_stations][n_events]."""
        parts: list[list[Sequence[Service]]] = [[] for _ in self._stations]
        for stretch, of_events in zip(self.stretches, services, strict=True):
            parts[stretch.station].append(of_events)
        return [[Service.total(each) for each in zip(*one, strict=True)] for one in parts]

    def foreseen(self, cells: TwoCells) -> Service:
        """Limits of all handovers to prepared cells; least outage and most bits are two plans."""
        rule = self._decision.handover
        interruption_s = min(rule.interruption_s, rule.prepared_interruption_s)
        return Service(
            duration_s=cells.end_s,
            outage_s=least_outage_s(cells, interruption_s),
            bits=most_bits(cells, interruption_s),
        )

    def warned(self) -> list[NDArray[np.bool_]]:
        """[n] of every base station, whether its model's answers warn."""
        above = self._decision.warn_above_logit
        return [warning_logits(self._task, station.logits) > above for station in self._stations]

    def prepared_on(self, warned: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
        """[m] of every stretch, whether a warning has lasted for long enough when a reading arrives."""
        return [self._lasting(one, warned[one.station]).holds(one.user.known_s) for one in self.stretches]

    def _lasting(self, stretch: UserStretch, warned: NDArray[np.bool_]) -> Spans:
        station, rows = self._stations[stretch.station], stretch.rows
        arrival_s = station.link.instants_s(rows) + station.delay_s[rows]
        return warned_times(arrival_s, warned[rows]).lasting(self._decision.handover.prepare_s)

    def prepared_like(self, models: Sequence[NDArray[np.bool_]], halves: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """[m] of every stretch, prepared on the signal's history as often as the models at the other half do."""
        soon = [_soon(self._task, station.client.data.train.label) for station in self._stations]
        logits = snr_history_logits(self._decision.measurement, self._stations, soon, self._seed)
        levels = np.unique(np.quantile(np.concatenate(logits), np.linspace(0.0, 1.0, _N_THRESHOLDS)))
        by_level = [self.prepared_on([found > level for found in logits]) for level in levels]
        chosen = []
        for index, stretch in enumerate(self.stretches):
            others = [i for i, one in enumerate(self.stretches) if halves[one.station] != halves[stretch.station]]
            wanted = _share(models, others)
            best = int(np.argmin([abs(_share(prepared, others) - wanted) for prepared in by_level]))
            chosen.append(by_level[best][index])
        return chosen

    def value(self, own: int, services: dict[str, Service]) -> StationValue:
        """Service of one base station's user, and what its warnings foresaw."""
        station, known = self._stations[own], self._known[own]
        horizon_s = known.horizon * station.link.frame_s
        return StationValue(
            station,
            services,
            deadline_met=station.slowest_answer_s + self._decision.handover.prepare_s <= horizon_s,
            warnings=events_of_warnings(self._task, self._decision, station, known),
            facts={"neighbor": self._stations[self._neighbors[own]].client.client_id},
        )


def _share(prepared: Sequence[NDArray[np.bool_]], chosen: Sequence[int]) -> float:
    return float(np.concatenate([prepared[index] for index in chosen]).mean())


def _neighbor(stations: Sequence[ServedStation], own: int) -> int:
    # clients can share a base station, whose frames are the user's own: a blockage would hit both cells
    here = stations[own].client.data.station_index
    order: list[int] = [*range(own + 1, len(stations)), *range(own)]
    return next(other for other in order if stations[other].client.data.station_index != here)


def _known(task: SensorTask, samples: Samples) -> KnownBlockages:
    blockages = task.known_blockages(samples)
    assert blockages is not None, "answers that hand users over are warnings of blockages"
    return blockages


def _soon(task: SensorTask, label: Labels) -> NDArray[np.bool_]:
    """[n] right answers of warnings, from the labels of samples, live ones as well."""
    return task.soon(label) if isinstance(task, ForecastTask) else np.asarray(label == 1)


def warning_logits(task: SensorTask, logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """[n] logit of the warning that every answer [n, n_outputs] amounts to."""
    return task.warning_logits(logits) if isinstance(task, ForecastTask) else logits[:, 0]


def events_of_warnings(
    task: SensorTask, decision: DecisionSection, station: ServedStation, blockages: KnownBlockages
) -> WarningEvents:
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
            warned=warning_logits(task, station.logits) > decision.warn_above_logit,
            delay_s=station.delay_s,
            horizon_s=blockages.horizon * link.frame_s,
            needed_s=decision.handover.prepare_s,
        )
    )
