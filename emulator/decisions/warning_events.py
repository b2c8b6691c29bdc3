"""Which blockages were predicted, how long ahead, and which alarms were false: from single answers to events.

This is the only place where warnings are counted; the end of a run and a replay both call it.

The rule: a blockage is predicted if a warning is in force when it begins. A warning is in force from an answer that
warns until the next answer that does not, and for no longer than the horizon after its last answer. The lead counts
from the first warning of the unbroken series that reaches the onset.

Why this rule, and not "any warning within the horizon before": a user acts on the state that holds, exactly as
`handover.warned_times` plays it. A warning that was withdrawn said "stays clear" last, so a user who followed it was
back, or stayed, when the blockage came. Counting any warning would also reward noise: a model that warns at random of
three frames in ten would predict nearly every blockage with a horizon of ten frames.

All instants are seconds on one clock, such as that of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .service import S_PER_MINUTE

#: What became of a blockage; a user who needs to know no more calls the last two missed.
EventOutcome = Literal["in_time", "late", "missed", "unanswered"]
#: Instants of a clock that ticks at a rate are whole multiples of its period up to rounding.
_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class WarningRecord:
    """Answers about the frames of one base station, and what really happened.

    Attributes:
        time_s: [n] instant of every frame, ascending.
        blocked: [n] bool, whether the line of sight is blocked.
        begins: [n] bool, whether an unbroken stretch of frames begins here.
        soon: [n] bool, whether it is blocked in any frame of the horizon after; the right answer.
        answered: [n] bool, whether there is an answer about the frame.
        warned: [n] bool, whether the answer is a warning.
        delay_s: [n] from the frame to the arrival of its answer; NaN where no clock is kept.
        horizon_s: horizon of the answers.
        needed_s: lead by which a warning must arrive before its blockage to be of use; 0: just before.
    """

    time_s: NDArray[np.float64]
    blocked: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    soon: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    warned: NDArray[np.bool_]
    delay_s: NDArray[np.float64]
    horizon_s: float
    needed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Onset:
    """A blockage that began after a clear frame.

    Attributes:
        at_s: instant of the first blocked frame.
        outcome: `in_time`: a warning was in force, and had arrived early enough; `late`: the warning arrived too late;
            `missed`: the last answer before was no warning; `unanswered`: there was no answer within the horizon.
        lead_s: time from the first frame of the series of warnings that reached the onset; 0 without one.
        usable_s: from the arrival of that series' first answer, negative if it arrived after the onset; NaN where no
            clock is kept.
        exceeds_horizon: whether the series began before the horizon, when it was still a false alarm.
    """

    at_s: float
    outcome: EventOutcome
    lead_s: float = 0.0
    usable_s: float = 0.0
    exceeds_horizon: bool = False

    @property
    def is_warned(self) -> bool:
        """Whether a warning was in force, in time or not."""
        return self.outcome in {"in_time", "late"}


@dataclass(frozen=True, slots=True)
class WarningEvents:
    """Blockages and alarms that a record of warnings comes down to.

    Attributes:
        onsets: in the order of time.
        n_alarms: unbroken series of warnings while the line of sight was clear.
        n_false_alarms: those after none of whose warnings a blockage came within the horizon; also a warning that
            outlasts its blockage.
        clear_s: seconds of clear line of sight for which an answer held; false alarms are counted over them.
    """

    onsets: tuple[Onset, ...] = ()
    n_alarms: int = 0
    n_false_alarms: int = 0
    clear_s: float = 0.0

    def n(self, outcome: EventOutcome) -> int:
        """Number of onsets with this outcome."""
        return sum(onset.outcome == outcome for onset in self.onsets)

    @property
    def n_beyond_horizon(self) -> int:
        """Number of onsets whose warning had stood for longer than the horizon, so that it was of little use."""
        return sum(onset.exceeds_horizon for onset in self.onsets)

    @property
    def leads_s(self) -> NDArray[np.float64]:
        """[n_warned] lead of every onset with a warning, in time or not."""
        return np.array([onset.lead_s for onset in self.onsets if onset.is_warned])

    @property
    def usable_s(self) -> NDArray[np.float64]:
        """[n_warned] lead that was left when the answer arrived; negative where it arrived after the onset."""
        return np.array([onset.usable_s for onset in self.onsets if onset.is_warned])

    @property
    def false_alarms_per_min(self) -> float:
        """False alarms per minute of clear line of sight; 0 before any."""
        return S_PER_MINUTE * self.n_false_alarms / self.clear_s if self.clear_s else 0.0


def warning_events(record: WarningRecord) -> WarningEvents:
    """Blockages that were predicted or not, and alarms, of one base station.

    A series of warnings is broken by an answer that is none, by a blockage, by the end of an unbroken stretch, and by
    a silence longer than the horizon. An onset is judged by the last answer about a frame before it.
    """
    segment = _segments(record)
    # Answers about blocked frames are no predictions.
    answers = np.flatnonzero(record.answered & ~record.blocked)
    first = _first_of_series(record, answers, segment[answers])
    warnings = np.flatnonzero(record.warned[answers])
    # a series is named by its first answer, so distinct first answers count series
    # One alarm per series, however many of its answers warn.
    alarms = np.unique(first[warnings])
    right = np.unique(first[warnings[record.soon[answers[warnings]]]])
    return WarningEvents(
        tuple(_judged(record, onset, answers, first, segment) for onset in onset_frames(record.blocked, record.begins)),
        len(alarms),
        len(alarms) - len(right),
        _clear_s(record, answers, segment),
    )


def together(parts: Sequence[WarningEvents]) -> WarningEvents:
    """Events of several base stations or stretches."""
    return WarningEvents(
        tuple(sorted((onset for part in parts for onset in part.onsets), key=lambda onset: onset.at_s)),
        sum(part.n_alarms for part in parts),
        sum(part.n_false_alarms for part in parts),
        sum(part.clear_s for part in parts),
    )


def onset_frames(blocked: NDArray[np.bool_], begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[m] frames that are blocked after a clear one of the same stretch.

    >>> onset_frames(np.array([True, False, True, True]), np.array([True, False, False, False]))
    array([2])
    """
    clear_before = np.concatenate([[False], ~blocked[:-1]])
    onsets: NDArray[np.int64] = np.flatnonzero(blocked & clear_before & ~begins)
    return onsets


def _segments(record: WarningRecord) -> NDArray[np.int64]:
    """[n] number of the stretch of one state, blocked or clear, that each frame is part of."""
    # prepending the first state itself makes the first frame no change
    changes = record.begins | (np.diff(record.blocked, prepend=record.blocked[:1]) != 0)
    segments: NDArray[np.int64] = np.cumsum(changes)
    return segments


def _first_of_series(
    record: WarningRecord, answers: NDArray[np.int64], segment: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[n_answers] number of the answer with which the series of each warning begins; of no warning, its own."""
    warned, apart_s = record.warned[answers], np.diff(record.time_s[answers])
    goes_on = np.zeros(len(answers), dtype=np.bool_)
    goes_on[1:] = warned[1:] & warned[:-1] & (np.diff(segment) == 0) & (apart_s <= record.horizon_s + _ROUNDING_S)
    # an answer that goes on takes over the number of the answer before it
    first: NDArray[np.int64] = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(answers))))
    return first


def _clear_s(record: WarningRecord, answers: NDArray[np.int64], segment: NDArray[np.int64]) -> float:
    """Seconds of clear frames about which an answer held: their own, or one of the horizon before.

    A slow device answers few of the frames, and still watches all of them.
    """
    if len(record.time_s) < 2 or not len(answers):
        return 0.0
    frames = np.flatnonzero(~record.blocked)
    last = np.searchsorted(answers, frames, side="right") - 1
    newest = answers[np.maximum(last, 0)]
    age_s = record.time_s[frames] - record.time_s[newest]
    holds = (last >= 0) & (segment[newest] == segment[frames]) & (age_s < record.horizon_s - _ROUNDING_S)
    # median: rests between stretches are longer than a period
    return float(np.median(np.diff(record.time_s))) * int(holds.sum())


def _judged(
    record: WarningRecord,
    onset: np.int64,
    answers: NDArray[np.int64],
    first: NDArray[np.int64],
    segment: NDArray[np.int64],
) -> Onset:
    at_s = float(record.time_s[onset])
    last = int(np.searchsorted(answers, onset)) - 1
    holds_from_s = at_s - record.horizon_s - _ROUNDING_S
    # An answer of another stretch, or from before the horizon, is not in force.
    if last < 0 or segment[answers[last]] != segment[onset - 1] or record.time_s[answers[last]] < holds_from_s:
        return Onset(at_s, "unanswered")
    if not record.warned[answers[last]]:
        return Onset(at_s, "missed")
    # the first answer to arrive need not be the first of the series: a device may answer a later frame sooner
    series = answers[first[last] : last + 1]
    lead_s = at_s - float(record.time_s[series[0]])
    usable_s = at_s - float((record.time_s[series] + record.delay_s[series]).min())
    # NaN is neither: without a clock nothing is late
    is_late = usable_s <= 0.0 or usable_s < record.needed_s - _ROUNDING_S
    return Onset(at_s, "late" if is_late else "in_time", lead_s, usable_s, lead_s > record.horizon_s + _ROUNDING_S)
