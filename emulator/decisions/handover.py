"""A user between two cells, handed over when measurements say so, to a cell that may have been prepared before.

Powers are constant between frames; the rule decides whenever a reading arrives. A handover is prepared while the user
is still served, then interrupts it; nothing else is decided while one is under way. Many users and many settings of the
rule are played at once: what they do is summed up from integrals over time, so that nothing is rounded to steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..radio.waves import Array
from ..ranges import check_ranges
from .measurement import TIMES_TO_TRIGGER_S
from .service import Service
from .two_cells import NEVER, SAME_S, TwoCells

_RANGES = {
    "offset_db": (0.0, 30.0),
    "preparation_s": (0.0, 1.0),
    "interruption_s": (0.0, 1.0),
    "prepared_preparation_s": (0.0, 1.0),
    "prepared_interruption_s": (0.0, 1.0),
    "prepare_s": (0.0, 5.0),
    "command_lost_below_db": (-100.0, 60.0),
}


@dataclass(frozen=True, slots=True)
class HandoverRule:
    """Rule by which cells hand a user over.

    Attributes:
        offset_db: the other cell must measure better by more than this, ...
        time_to_trigger_s: ... for so long without a break; one of `TIMES_TO_TRIGGER_S`.
        preparation_s: time from the decision until the user leaves its cell, if the other was not prepared.
        interruption_s: time from then until the other cell serves it, likewise.
        prepared_preparation_s, prepared_interruption_s: the same to a cell that was prepared.
        prepare_s: time from a warning until the other cell is prepared.
        command_lost_below_db: SNR of the serving cell below which a handover's command does not reach the user; it is
            sent again at the next reading. -100: none is lost.
        prepared_command: whether a prepared handover needs such a command; otherwise the user decides by itself.

    Raises:
        ConfigError: a value is impossible.

    Source: event A3 and its time to trigger, 3GPP TS 38.331, clause 5.5.4.4. Preparation: 10 ms for the command, TS
    38.331, clause 12, and 10 ms assumed between base stations. Interruption to a cell that is known: 20 ms to the next
    random access, 20 ms of processing, 20 ms to the next synchronization block and 2 ms of margin, TS 38.133, clause
    6.1.1. Prepared: `HANDOVER_KINDS`. The time to prepare is assumed.
    """

    offset_db: float = 3.0
    time_to_trigger_s: float = 0.1
    preparation_s: float = 0.02
    interruption_s: float = 0.062
    prepared_preparation_s: float = 0.005
    prepared_interruption_s: float = 0.025
    prepare_s: float = 0.1
    command_lost_below_db: float = -100.0
    prepared_command: bool = True

    def __post_init__(self) -> None:
        check_ranges("decision.handover", self, _RANGES)
        if self.time_to_trigger_s not in TIMES_TO_TRIGGER_S:
            raise ConfigError(
                f"decision.handover.time_to_trigger_s must be one of {', '.join(f'{s:g}' for s in TIMES_TO_TRIGGER_S)}"
                f" (3GPP TS 38.331), got {self.time_to_trigger_s:g}"
            )


#: Kind of handover to a prepared cell -> settings of `HandoverRule`; all start from the same unprepared handover.
#: Source: conditional, 3GPP TS 38.300, clause 9.2.3.4: prepared beforehand, executed by the user without a command, as
#: long an interruption. L1/L2-triggered mobility (LTM), clause 9.2.3.5: 20 to 30 ms, since the user is synchronized
#: before; 5 ms for its command are assumed. Both cells at once (dual connectivity): no interruption.
HANDOVER_KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"prepared_preparation_s": 0.02, "prepared_interruption_s": 0.062},
    "conditional": {"prepared_preparation_s": 0.0, "prepared_interruption_s": 0.062, "prepared_command": False},
    "ltm": {"prepared_preparation_s": 0.005, "prepared_interruption_s": 0.025},
    "both cells": {"prepared_preparation_s": 0.005, "prepared_interruption_s": 0.0},
}


class A3Event(NamedTuple):
    """Settings of the event that starts a handover.

    Attributes:
        offset_db: from the own cell: the other must be better by more, ...
        back_offset_db: ... and to come back: the own cell by more than this, ...
        time_to_trigger_s: ... for so long.
    """

    offset_db: float
    back_offset_db: float
    time_to_trigger_s: float


class PlannedMoves(NamedTuple):
    """What plans say at every reading, while the user is in its own cell (row 0) or in the other (row 1).

    Attributes:
        go: [2, n_events, m] bool, whether to hand the user over now, whatever its event says.
        held: [2, n_events, m] bool, whether the event is not to do it.
    """

    go: NDArray[np.bool_]
    held: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredUser:
    """A user and what the rule knows of its cells.

    Attributes:
        cells: signals of both cells.
        known_s: [m] instants at which readings arrive, the same for all users that are played together.
        readings_db: [2, m] of both cells.
        prepared: [m] bool, whether the other cell is prepared for the user, while it is in its own.
        planned: plans beside the events, one for each; None: events alone decide.
    """

    cells: TwoCells
    known_s: Array
    readings_db: Array
    prepared: NDArray[np.bool_]
    planned: PlannedMoves | None = None


def hand_over(
    users: Sequence[MeasuredUser], rule: HandoverRule, events: Sequence[A3Event], *, way_back_prepared: bool
) -> list[list[Service]]:
    """Service of every user under every event; the rest of the rule is the same for all.

    Args:
        users: users, whose readings arrive at the same instants, until each of them ends.
        rule: durations and lost commands; its own event does not count.
        events: events that are tried.
        way_back_prepared: whether the own cell stays prepared while the user is in the other.

    Returns:
        [n_users][n_events] service.
    """
    played = _Played(users, rule, events)
    for step, now_s in enumerate(max((user.known_s for user in users), key=len).tolist()):
        played.decide(step, now_s, way_back_prepared=way_back_prepared)
    return played.services()


class _Played:
    """All users under all events: arrays are [n_users, n_events], and users end at instants of their own."""

    def __init__(self, users: Sequence[MeasuredUser], rule: HandoverRule, events: Sequence[A3Event]) -> None:
        self._rule, self._integrals = rule, _Integrals([user.cells for user in users])
        self._away_db, self._back_db, self._trigger_s = (np.array(column) for column in zip(*events, strict=True))
        # NaN after the end of a user: nothing is better than anything there
        self._better_db = _stacked([user.readings_db[1] - user.readings_db[0] for user in users], np.nan)
        self._prepared = _stacked([user.prepared for user in users], fill=False)
        self._serving_db = [_stacked([_true_db(user, cell) for user in users], NEVER) for cell in (0, 1)]
        # [m, 2, n_users, n_events]: one reading after the other
        plans = [user.planned for user in users if user.planned is not None]
        assert len(plans) in (0, len(users)), "users that are played together have all of them plans, or none"
        self._planned_go = _by_reading([plan.go for plan in plans], len(self._better_db[0])) if plans else None
        self._planned_held = _by_reading([plan.held for plan in plans], len(self._better_db[0])) if plans else None
        shape = (len(users), len(events))
        self._cell = np.zeros(shape, dtype=np.int64)
        self._since_s = np.full(shape, NEVER)
        self._from_s = np.zeros(shape)  # served from here on, or once the handover under way is over
        self._bits, self._outage_s, self._interrupted_s = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._n_actions, self._n_own, self._n_prepared = (np.zeros(shape, dtype=np.int64) for _ in range(3))

    def decide(self, step: int, now_s: float, *, way_back_prepared: bool) -> None:
        """Act on the readings that arrive now."""
        better_db, prepared = self._better_db[:, step, None], self._prepared[:, step, None]
        is_free, is_home = self._from_s <= now_s, self._cell == 0
        own = is_free & is_home & np.isfinite(better_db)
        self._n_own += own
        self._n_prepared += own & prepared
        better = is_free & np.where(is_home, better_db > self._away_db, -better_db > self._back_db)
        if self._planned_held is not None:
            better &= ~np.where(is_home, *self._planned_held[step])
        # in a new cell the time to trigger begins anew
        self._since_s = np.where(better, np.minimum(self._since_s, now_s), NEVER)
        due = better & (now_s - self._since_s >= self._trigger_s - SAME_S)
        if self._planned_go is not None:
            due |= is_free & np.where(is_home, *self._planned_go[step])
        if due.any():
            ready = np.where(is_home, prepared, way_back_prepared)
            serving_db = np.where(is_home, self._serving_db[0][:, step, None], self._serving_db[1][:, step, None])
            needs_command = ~ready | self._rule.prepared_command
            due &= ~(needs_command & (serving_db < self._rule.command_lost_below_db))
            user, event = np.nonzero(due)
            self._go(user, event, now_s, ready[due])

    def _go(self, user: NDArray[np.int64], event: NDArray[np.int64], now_s: float, ready: NDArray[np.bool_]) -> None:
        rule, end_s = self._rule, self._integrals.end_s[user]
        leaves_s = np.minimum(now_s + np.where(ready, rule.prepared_preparation_s, rule.preparation_s), end_s)
        lasts_s = np.where(ready, rule.prepared_interruption_s, rule.interruption_s)
        arrives_s = np.minimum(leaves_s + lasts_s, end_s)
        self._serve(user, event, leaves_s)
        self._interrupted_s[user, event] += arrives_s - leaves_s
        self._outage_s[user, event] += arrives_s - leaves_s
        self._from_s[user, event] = arrives_s
        self._cell[user, event] = 1 - self._cell[user, event]
        self._since_s[user, event] = NEVER
        self._n_actions[user, event] += 1

    def _serve(self, user: NDArray[np.int64], event: NDArray[np.int64], until_s: Array) -> None:
        """Add what the present cell gives, from where the account ends."""
        cell, from_s = self._cell[user, event], self._from_s[user, event]
        for total, kind in ((self._bits, self._integrals.bits), (self._outage_s, self._integrals.outage_s)):
            total[user, event] += self._integrals.until(kind, user, cell, until_s)
            total[user, event] -= self._integrals.until(kind, user, cell, from_s)

    def services(self) -> list[list[Service]]:
        """Service of every user under every event, once all readings have arrived."""
        n_users, n_events = self._cell.shape
        user, event = (index.ravel() for index in np.indices((n_users, n_events)))
        self._serve(user, event, self._integrals.end_s[user])
        return [
            [
                Service(
                    duration_s=float(self._integrals.end_s[one]),
                    outage_s=float(self._outage_s[one, other]),
                    interrupted_s=float(self._interrupted_s[one, other]),
                    bits=float(self._bits[one, other]),
                    n_actions=int(self._n_actions[one, other]),
                    n_own_readings=int(self._n_own[one, other]),
                    n_prepared_readings=int(self._n_prepared[one, other]),
                )
                for other in range(n_events)
            ]
            for one in range(n_users)
        ]


class _Integrals:
    """Bits and outage of every user in every cell from 0 until any instant.

    Attributes:
        end_s: [n_users] end of each user.
        bits, outage_s: [n_users, 2, n + 1] sums until the beginning of every frame.
    """

    def __init__(self, cells: Sequence[TwoCells]) -> None:
        self.end_s = np.array([one.end_s for one in cells])
        self._frame_s = np.array([one.frame_s for one in cells])
        self._last = np.array([one.n_frames - 1 for one in cells])
        shape = (len(cells), 2, int(self._last.max()) + 2)
        self.bits, self.outage_s = np.zeros(shape), np.zeros(shape)
        for index, one in enumerate(cells):
            self.bits[index, :, 1 : one.n_frames + 1] = np.cumsum(one.rate_bps * one.frame_s, axis=1)
            self.outage_s[index, :, 1 : one.n_frames + 1] = np.cumsum(one.outage * one.frame_s, axis=1)

    def until(self, sums: Array, user: NDArray[np.int64], cell: NDArray[np.int64], at_s: Array) -> Array:
        """[k] one of the sums of users in cells until instants, all [k]."""
        frames = at_s / self._frame_s[user]
        whole = np.minimum(frames.astype(np.int64), self._last[user])
        before = sums[user, cell, whole]
        return np.asarray(before + (frames - whole) * (sums[user, cell, whole + 1] - before))


def _by_reading(rows: Sequence[NDArray[np.bool_]], n_readings: int) -> NDArray[np.bool_]:
    """[2, n_events, m] of every user -> [n_readings, 2, n_users, n_events]; false after the end of a user."""
    found = np.zeros((n_readings, 2, len(rows), rows[0].shape[1]), dtype=np.bool_)
    for user, row in enumerate(rows):
        found[: row.shape[2], :, user] = np.moveaxis(row, 2, 0)
    return found


def _true_db(user: MeasuredUser, cell: int) -> Array:
    """[m] SNR of a cell at the instants at which readings arrive."""
    frame = np.minimum(((user.known_s + SAME_S) / user.cells.frame_s).astype(np.int64), user.cells.n_frames - 1)
    return np.asarray(user.cells.snr_db[cell, frame])


def _stacked(rows: Sequence[NDArray[Any]], fill: float | bool) -> NDArray[Any]:
    """[n, longest] rows of different lengths, filled up."""
    stacked = np.full((len(rows), max(map(len, rows))), fill)
    for index, row in enumerate(rows):
        stacked[index, : len(row)] = row
    return stacked
