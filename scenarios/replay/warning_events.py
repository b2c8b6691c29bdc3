"""Which blockages were foretold, how long ahead, and which alarms were false: from single answers to events.

An answer says something about the next `horizon_s` and holds until the next answer, for so long at most. All instants
are seconds of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Fate = Literal["foretold", "late", "missed", "unanswered"]
#: Instants of a clock that ticks at a rate are whole multiples of its period up to rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """What one base station was told until now.

    Attributes:
        time_s: [n] instant of every frame, ascending.
        blocked: [n] bool, whether the line of sight is.
        begins: [n] bool, whether an unbroken stretch begins.
        soon: [n] bool, whether it is blocked in any frame of the horizon after.
        answered: [n] bool, whether there is an answer about the frame.
        warned: [n] bool, whether it was a warning.
        delay_s: [n] how long after its frame it came; NaN where nobody keeps to the clock.
        horizon_s: how far answers look ahead.
    """

    time_s: NDArray[np.float64]
    blocked: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    soon: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    warned: NDArray[np.bool_]
    delay_s: NDArray[np.float64]
    horizon_s: float


@dataclass(frozen=True, slots=True)
class Onset:
    """A blockage that began in plain sight.

    Attributes:
        at_s: first blocked frame.
        fate: `foretold`; `late`: warned of, but the answer came after it; `missed`: the last answer before was no
            warning; `unanswered`: there was no answer within the horizon before.
        lead_s: from the first warning of the unbroken series that reached it; 0 where there was none.
        usable_s: what was left of the lead when that series' first answer had come; NaN where nobody keeps to the
            clock.
        stood: whether the series began before the horizon of the answers, when it was a false alarm still.
    """

    at_s: float
    fate: Fate
    lead_s: float = 0.0
    usable_s: float = 0.0
    stood: bool = False


@dataclass(frozen=True, slots=True)
class Foresight:
    """What answers were worth as a watch.

    Attributes:
        onsets: in the order of time.
        n_alarms: unbroken series of warnings while the line of sight was clear.
        n_false_alarms: those after none of whose warnings a blockage came within the horizon; also a warning that
            outlives its blockage.
        clear_s: time that was clear and answered, which false alarms are counted over.
    """

    onsets: tuple[Onset, ...]
    n_alarms: int
    n_false_alarms: int
    clear_s: float

    def n(self, fate: Fate) -> int:
        """Onsets that went so."""
        return sum(onset.fate == fate for onset in self.onsets)

    @property
    def n_standing(self) -> int:
        """Onsets that an alarm foretold which stood for longer than the horizon, and so is worth little."""
        return sum(onset.stood for onset in self.onsets)

    @property
    def leads_s(self) -> NDArray[np.float64]:
        """[n] of the onsets that were warned of, in time or not."""
        return np.array([onset.lead_s for onset in self.onsets if onset.fate in {"foretold", "late"}])

    @property
    def usable_s(self) -> NDArray[np.float64]:
        """[n] of the same; negative where the answer came after the onset."""
        return np.array([onset.usable_s for onset in self.onsets if onset.fate in {"foretold", "late"}])

    @property
    def false_alarms_per_min(self) -> float:
        """Per minute of clear sight; 0 before any."""
        return 60.0 * self.n_false_alarms / self.clear_s if self.clear_s else 0.0


def foresight(watch: Watch) -> Foresight:
    """Judge the answers of one base station.

    A series of warnings is broken by an answer that is none, by a blockage, by the end of an unbroken stretch, and by
    silence of more than the horizon. An onset is judged by the last answer before it.
    """
    segment = _segments(watch)
    answers = np.flatnonzero(watch.answered & ~watch.blocked)
    first = _first_of_series(watch, answers, segment[answers])
    warnings = np.flatnonzero(watch.warned[answers])
    alarms = np.unique(first[warnings])
    right = np.unique(first[warnings[watch.soon[answers[warnings]]]])
    period_s = float(np.median(np.diff(watch.time_s))) if len(watch.time_s) > 1 else 0.0
    return Foresight(
        tuple(_judged(watch, onset, answers, first, segment) for onset in _onsets(watch)),
        len(alarms),
        len(alarms) - len(right),
        period_s * len(answers),
    )


def together(parts: Sequence[Foresight]) -> Foresight:
    """Of several base stations."""
    return Foresight(
        tuple(sorted((onset for part in parts for onset in part.onsets), key=lambda onset: onset.at_s)),
        sum(part.n_alarms for part in parts),
        sum(part.n_false_alarms for part in parts),
        sum(part.clear_s for part in parts),
    )


def _segments(watch: Watch) -> NDArray[np.int64]:
    """[n] number of the stretch of one state, blocked or clear, that each frame is part of."""
    changes = watch.begins | (np.diff(watch.blocked, prepend=watch.blocked[:1]) != 0)
    segments: NDArray[np.int64] = np.cumsum(changes)
    return segments


def _onsets(watch: Watch) -> NDArray[np.int64]:
    """Frames that are blocked after a clear one."""
    clear_before = np.concatenate([[False], ~watch.blocked[:-1]])
    onsets: NDArray[np.int64] = np.flatnonzero(watch.blocked & clear_before & ~watch.begins)
    return onsets


def _first_of_series(watch: Watch, answers: NDArray[np.int64], segment: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n_answers] number of the answer with which the series of each warning begins; of no warning, its own."""
    warned, apart_s = watch.warned[answers], np.diff(watch.time_s[answers])
    goes_on = np.zeros(len(answers), dtype=np.bool_)
    goes_on[1:] = warned[1:] & warned[:-1] & (np.diff(segment) == 0) & (apart_s <= watch.horizon_s + _ROUNDING)
    first: NDArray[np.int64] = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(answers))))
    return first


def _judged(
    watch: Watch,
    onset: np.int64,
    answers: NDArray[np.int64],
    first: NDArray[np.int64],
    segment: NDArray[np.int64],
) -> Onset:
    at_s = float(watch.time_s[onset])
    last = int(np.searchsorted(answers, onset)) - 1
    holds_from_s = at_s - watch.horizon_s - _ROUNDING
    if last < 0 or segment[answers[last]] != segment[onset - 1] or watch.time_s[answers[last]] < holds_from_s:
        return Onset(at_s, "unanswered")
    if not watch.warned[answers[last]]:
        return Onset(at_s, "missed")
    series = answers[first[last] : last + 1]
    lead_s = at_s - float(watch.time_s[series[0]])
    usable_s = at_s - float((watch.time_s[series] + watch.delay_s[series]).min())
    stood = lead_s > watch.horizon_s + _ROUNDING
    return Onset(at_s, "late" if usable_s <= 0.0 else "foretold", lead_s, usable_s, stood)
