"""Users between two cells under every rule of the ladder, from doing nothing to foresight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...emulator.decisions.handover import A3Event, MeasuredUser, hand_over
from ...emulator.decisions.handover_limits import least_outage_s, most_bits
from ...emulator.decisions.service import Service
from ...emulator.decisions.two_cells import Spans, TwoCells, stay, warned_times
from ...emulator.decisions.warning_events import WarningEvents, WarningRecord, warning_events
from ...emulator.random_streams import named_stream
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import KnownBlockages, SensorTask
from .handover_ladder import EVENTS, ladder, reaction_fronts, tuned
from .served_stations import PlayedUsers, ServedStation, StationValue
from .snr_history import snr_history_logits

#: Thresholds that are tried when the history of the signal shall prepare as much as the models do.
_N_THRESHOLDS = 101


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Unbroken frames of one user.

    Attributes:
        station: number of its base station.
        rows: [n] rows of the link that are played.
        user: the user, with the other cell prepared at no time.
    """

    station: int
    rows: NDArray[np.int64]
    user: MeasuredUser


def play_handovers(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], seed: int
) -> PlayedUsers:
    """Service of every base station's user under all rules; the next other base station is the neighboring cell.

    The neighbor's frames are of another street, which serves as well as any: it has blockages of its own. They are
    played one for one beside the user's, from its first held-out frame on, again where they end.

    Tuned rules have the event, of `EVENTS`, with the least outage at the other half of the base stations.
    """
    users = _Users(task, decision, stations, seed)
    halves = _halves(stations)
    services = {"nothing": users.summed([[stay(one.user.cells)] for one in users.stretches])}
    rule = decision.handover
    services["reactive"] = users.played([A3Event(rule.offset_db, rule.offset_db, rule.time_to_trigger_s)], users.never)
    warned = users.prepared_on(users.warned())
    tried = {
        "reactive_tuned": users.played(EVENTS, users.never),
        "way_back_prepared": users.played(EVENTS, users.never, back=True),
        "prepare_on_snr_history": users.played(EVENTS, users.prepared_like(warned, halves), back=True),
        "always_prepared": users.played(EVENTS, [np.ones_like(one) for one in users.never], back=True),
        "prepare_on_warning": users.played(EVENTS, warned, back=True),
    }
    events = {rule: tuned(found, halves) for rule, found in tried.items()}
    services |= {
        rule: [[found[index][best]] for index, best in enumerate(events[rule])] for rule, found in tried.items()
    }
    services["oracle"] = users.summed([[users.foreseen(one.user.cells)] for one in users.stretches])
    of_rule = {rule: [of_station[0] for of_station in found] for rule, found in services.items()}
    return PlayedUsers(
        [users.value(index, {rule: found[index] for rule, found in of_rule.items()}) for index in range(len(stations))],
        {
            "ladder": ladder(of_rule, {rule: [EVENTS[best] for best in chosen] for rule, chosen in events.items()}),
            "fronts": reaction_fronts(tried),
            "powers_hz": min(station.link.n_steps / station.link.frame_s for station in stations),
        },
    )


class _Users:
    """Users of all base stations, cut into unbroken stretches."""

    def __init__(
        self, task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], seed: int
    ) -> None:
        self._decision, self._stations, self._seed = decision, stations, seed
        self._known = [_known(task, station) for station in stations]
        self._neighbors = [_neighbor(stations, own) for own in range(len(stations))]
        self.stretches = [one for own in range(len(stations)) for one in self._cut(own)]
        self.never = [one.user.prepared for one in self.stretches]

    def _cut(self, own: int) -> list[_Stretch]:
        station, neighbor, chain = self._stations[own], self._neighbors[own], self._decision.measurement
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
            cut.append(_Stretch(own, rows, MeasuredUser(cells, known_s[known], readings_db[:, known], never)))
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
        return [station.logits[:, 0] > self._decision.warn_above_logit for station in self._stations]

    def prepared_on(self, warned: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
        """[m] of every stretch, whether a warning has lasted for long enough when a reading arrives."""
        return [self._lasting(one, warned[one.station]).holds(one.user.known_s) for one in self.stretches]

    def _lasting(self, stretch: _Stretch, warned: NDArray[np.bool_]) -> Spans:
        station, rows = self._stations[stretch.station], stretch.rows
        arrival_s = station.link.instants_s(rows) + station.delay_s[rows]
        return warned_times(arrival_s, warned[rows]).lasting(self._decision.handover.prepare_s)

    def prepared_like(self, models: Sequence[NDArray[np.bool_]], halves: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """[m] of every stretch, prepared on the signal's history as often as the models at the other half do."""
        logits = snr_history_logits(self._decision.measurement, self._stations, self._seed)
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
            warnings=events_of_warnings(self._decision, station, known),
            facts={"neighbor": self._neighbors[own].client.client_id},
        )


def _share(prepared: Sequence[NDArray[np.bool_]], chosen: Sequence[int]) -> float:
    return float(np.concatenate([prepared[index] for index in chosen]).mean())


def _halves(stations: Sequence[ServedStation]) -> NDArray[np.bool_]:
    """[n_stations] half of each; base stations at one place are in one half, and every second place in the other."""
    places = sorted({station.client.data.station_index for station in stations})
    return np.array([places.index(station.client.data.station_index) % 2 == 1 for station in stations])


def _neighbor(stations: Sequence[ServedStation], own: int) -> ServedStation:
    # clients can share a base station, whose frames are the user's own: a blockage would hit both cells
    here = stations[own].client.data.station_index
    order = (*stations[own + 1 :], *stations[:own])
    return next(other for other in order if other.client.data.station_index != here)


def _known(task: SensorTask, station: ServedStation) -> KnownBlockages:
    blockages = task.known_blockages(station.link.samples)
    assert blockages is not None, "answers that hand users over are warnings of blockages"
    return blockages


def events_of_warnings(decision: DecisionSection, station: ServedStation, blockages: KnownBlockages) -> WarningEvents:
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
            needed_s=decision.handover.prepare_s,
        )
    )
