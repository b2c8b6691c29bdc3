"""A user between two cells: stay, react when the other has become better, or leave when a blockage is predicted.

Time is continuous; signals change at frames, warnings when they arrive. A handover is prepared while the user is still
served, then interrupts it. Nothing else is decided while one is under way.

The last functions give the limits of all handovers, as if the future were known: then a handover takes only its
interruption, prepared in time. What is summed over time is constant between frames, so that moving a handover changes
the sum at a constant rate until its beginning or its end meets a frame: a best plan exists in which every handover
begins or ends at one, and these are all that is searched.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from ..ranges import check_ranges
from .access_link import AccessLink
from .service import Service

NEVER = float("inf")
_RANGES = {
    "offset_db": (0.0, 30.0),
    "time_to_trigger_s": (0.0, 5.12),
    "warned_for_s": (0.0, 5.12),
    "preparation_s": (0.0, 1.0),
    "interruption_s": (0.0, 1.0),
}
#: Instants closer than this are one: far above what sums of floats lose, far below an interruption.
SAME_S = 1e-9


@dataclass(frozen=True, slots=True)
class HandoverRule:
    """Rule by which cells hand a user over.

    Attributes:
        offset_db: the other cell must be better by more than this, ...
        time_to_trigger_s: ... for so long without a break.
        warned_for_s: a warning counts when it has lasted so long; waiting follows fewer false ones, and leaves the
            user longer in its own cell.
        preparation_s: time from the decision until the user leaves its cell.
        interruption_s: time from then until the other cell serves it.

    Raises:
        ConfigError: a value is impossible.

    Source: event A3 and its time to trigger, 3GPP TS 38.331, clause 5.5.4.4. Preparation: 10 ms for the command, TS
    38.331, clause 12, and 10 ms assumed between base stations. Interruption to a cell that is known: 20 ms to the next
    random access, 20 ms of processing, 20 ms to the next synchronization block and 2 ms of margin, TS 38.133, clause
    6.1.1.
    """

    offset_db: float = 3.0
    time_to_trigger_s: float = 0.1
    warned_for_s: float = 0.0
    preparation_s: float = 0.02
    interruption_s: float = 0.062

    def __post_init__(self) -> None:
        check_ranges("decision.handover", self, _RANGES)

    @property
    def lead_s(self) -> float:
        """From a warning until the other cell serves: how much sooner than a blockage a warning must come."""
        return self.warned_for_s + self.preparation_s + self.interruption_s


@dataclass(frozen=True, slots=True, eq=False)
class TwoCells:
    """Signals of both cells at one user over n frames; cell 0 is its own.

    Attributes:
        frame_s: time from a frame to the next.
        snr_db: [2, n] from each frame until the next.
        rate_bps: [2, n] that they carry.
        outage: [2, n] bool, less than the user needs.
    """

    frame_s: float
    snr_db: Array
    rate_bps: Array
    outage: NDArray[np.bool_]

    @classmethod
    def of(cls, snr_db: Array, frame_s: float, link: AccessLink) -> TwoCells:
        """Signals as a link turns them into rates."""
        rate_bps = link.rate_bps(snr_db)
        return cls(frame_s, snr_db, rate_bps, link.in_outage(rate_bps))

    @property
    def n_frames(self) -> int:
        """Frames of the stretch."""
        return int(self.snr_db.shape[1])

    @property
    def end_s(self) -> float:
        """End of the last frame in s; the first begins at 0."""
        return self.n_frames * self.frame_s


class Spans(NamedTuple):
    """Times in which something holds: [m] ascending beginnings, and [m] ends before the next of them."""

    from_s: Array
    until_s: Array

    def lasting(self, seconds: float) -> Spans:
        """The part of each span that comes after it has held for so long."""
        begun_s = self.from_s + seconds
        return Spans(begun_s[begun_s < self.until_s], self.until_s[begun_s < self.until_s])


class Warnings(NamedTuple):
    """Times at which each cell expects to be blocked: the user's own, and the other."""

    own: Spans
    other: Spans


NO_WARNINGS = Warnings(Spans(np.zeros(0), np.zeros(0)), Spans(np.zeros(0), np.zeros(0)))


def warned_times(arrival_s: Array, warned: NDArray[np.bool_]) -> Spans:
    """Spans in which a warning of a cell is in force: from an answer that warns until the next one that does not.

    Args:
        arrival_s: [n] of the answers; infinite where there was none.
        warned: [n] whether they warn.
    """
    # stable: of answers that arrive at one instant the one about the later frame holds
    order = np.argsort(arrival_s, kind="stable")
    order = order[np.isfinite(arrival_s[order])]
    at_s, now = arrival_s[order], warned[order]
    # Only changes matter: a warning that follows a warning goes on.
    before = np.append(False, now[:-1])
    ends_s = at_s[before & ~now]
    return Spans(at_s[now & ~before], np.append(ends_s, NEVER) if len(now) and now[-1] else ends_s)


def stay(cells: TwoCells) -> Service:
    """Service of a user that is never handed over."""
    seconds = np.full(cells.n_frames, cells.frame_s)
    return Service(
        duration_s=float(seconds.sum()),
        outage_s=float(seconds[cells.outage[0]].sum()),
        bits=float((cells.rate_bps[0] * seconds).sum()),
    )


def serve(cells: TwoCells, rule: HandoverRule, warnings: Warnings = NO_WARNINGS) -> Service:
    """Service under a rule that hands over when the other cell has been better for long enough, or on a warning.

    On a warning the user goes, without waiting for a loss, to a cell that serves it and is not warned itself; it does
    not come back while the warning lasts, unless that cell fails it. Without warnings this is event A3 alone.
    """
    user = _CellUser(cells, rule)
    lasting = Warnings(*(spans.lasting(rule.warned_for_s) for spans in warnings))
    for piece in _pieces(cells, warnings, lasting):
        user.play(piece)
    return user.service


class _Piece(NamedTuple):
    """A stretch of time in which nothing changes but what the user does.

    Attributes:
        begin_s, end_s: beginning and end of it.
        frame: frame in which it lies.
        warned: per cell, whether it expects to be blocked, ...
        lasting: ... and whether it has for long enough.
    """

    begin_s: float
    end_s: float
    frame: int
    warned: tuple[bool, bool]
    lasting: tuple[bool, bool]


class _CellUser:
    """A user that is played: the cell that serves it, and the handover that is under way."""

    def __init__(self, cells: TwoCells, rule: HandoverRule) -> None:
        self.service = Service()
        self._cells, self._rule = cells, rule
        self._cell = 0
        self._better_since_s = NEVER
        self._leaves_s = self._arrives_s = NEVER

    def play(self, piece: _Piece) -> None:
        """Serve the user, and decide, over one piece of time."""
        now_s = piece.begin_s
        while now_s < piece.end_s:
            if self._arrives_s <= now_s:
                # In the new cell the time to trigger begins anew.
                self._cell, self._better_since_s = 1 - self._cell, NEVER
                self._leaves_s = self._arrives_s = NEVER
            if self._arrives_s == NEVER:
                self._decide(now_s, piece)
            # without preparation and interruption a handover takes no time: decide again in the new cell
            if self._arrives_s <= now_s:
                continue
            # until the piece ends or the state of the user changes, whichever is first
            until_s = min(piece.end_s, *(instant_s for instant_s in self._next_s() if instant_s > now_s))
            self._account(now_s, until_s, piece.frame)
            now_s = until_s

    def _next_s(self) -> tuple[float, float, float]:
        """Instants of its own next changes: it leaves, arrives, or has seen a better cell for long enough."""
        return self._leaves_s, self._arrives_s, self._better_since_s + self._rule.time_to_trigger_s

    def _decide(self, now_s: float, piece: _Piece) -> None:
        here, there, warned = self._cell, 1 - self._cell, piece.warned
        snr_db, outage = self._cells.snr_db[:, piece.frame], self._cells.outage[:, piece.frame]
        # The own warning must have lasted; that of the other cell counts at once, because the user would go there now.
        is_predicted = piece.lasting[here] and not warned[there] and not outage[there]
        is_better = snr_db[there] > snr_db[here] + self._rule.offset_db
        # a cell that is about to be blocked is better only for a moment
        is_a_trap = warned[there] and not warned[here] and not outage[here]
        if not is_better or is_a_trap:
            self._better_since_s = NEVER
        elif self._better_since_s == NEVER:
            self._better_since_s = now_s
        if is_predicted or now_s >= self._better_since_s + self._rule.time_to_trigger_s:
            self._leaves_s = now_s + self._rule.preparation_s
            self._arrives_s = self._leaves_s + self._rule.interruption_s
            self.service.n_actions += 1

    def _account(self, begin_s: float, end_s: float, frame: int) -> None:
        # between leaving one cell and arriving in the other nothing is sent
        if self._leaves_s <= begin_s:
            self.service.interrupted(end_s - begin_s)
        else:
            rate_bps, outage = self._cells.rate_bps[self._cell, frame], self._cells.outage[self._cell, frame]
            self.service.served(end_s - begin_s, float(rate_bps), outage=bool(outage))


def _pieces(cells: TwoCells, warned: Warnings, lasting: Warnings) -> list[_Piece]:
    """All time, in order, cut wherever a frame begins or a warning changes."""
    frames_s = cells.frame_s * np.arange(cells.n_frames + 1)
    changes = np.concatenate([frames_s, *warned.own, *warned.other, *lasting.own, *lasting.other])
    times = np.unique(changes[(changes >= 0.0) & (changes <= frames_s[-1])])
    begins = times[:-1]
    frame = np.searchsorted(frames_s, begins, side="right") - 1
    flags = [zip(*(_holds(spans, begins).tolist() for spans in both), strict=True) for both in (warned, lasting)]
    return list(map(_Piece, begins.tolist(), times[1:].tolist(), frame.tolist(), *flags))


def _holds(spans: Spans, times: Array) -> NDArray[np.bool_]:
    """[n] instants -> [n] bool, whether they lie in a span, its end not included."""
    begun, ended = (np.searchsorted(edges_s, times, side="right") for edges_s in spans)
    # spans do not overlap, so one more has begun than ended exactly inside a span
    return np.asarray(begun > ended)


def least_outage_s(cells: TwoCells, interruption_s: float) -> float:
    """The shortest outage that any handovers can give, their interruptions included."""
    return _least_cost(cells, cells.outage.astype(np.float64), interruption_s, 1.0)


def most_bits(cells: TwoCells, interruption_s: float) -> float:
    """The most bits that any handovers can give; another plan than that of the shortest outage, as a rule."""
    return -_least_cost(cells, -cells.rate_bps, interruption_s, 0.0)


def _least_cost(cells: TwoCells, cost: Array, interruption_s: float, cost_of_interruption: float) -> float:
    """Least integral over time, from cell 0 at the start.

    Args:
        cells: the stretch of time.
        cost: [2, n] per second of being served by a cell in a frame.
        interruption_s: interruption of a handover.
        cost_of_interruption: per second.

    Dynamic programming from the end: `ahead[c][i]` is the least cost from instant i on in cell c.
    """
    times = _instants(cells, interruption_s)
    # A moment before a frame's beginning counts as in it, since instants are sums of floats.
    frame = np.minimum((np.array(times) + SAME_S) // cells.frame_s, cells.n_frames - 1).astype(np.int64)
    here = [cost[cell, frame].tolist() for cell in (0, 1)]
    last = len(times) - 1
    ahead = [[0.0] * (last + 1), [0.0] * (last + 1)]
    for i in range(last - 1, -1, -1):  # from the end: the best continuation is known when an instant is reached
        step_s = times[i + 1] - times[i]
        stays = [here[cell][i] * step_s + ahead[cell][i + 1] for cell in (0, 1)]
        j = _index_of(times, times[i] + interruption_s)
        for cell in (0, 1):
            moves = np.inf
            if j is not None:  # a handover that would end after the recording is of no use
                # Without interruption it ends at the same instant, at which only the cost of staying is known yet.
                onwards = stays[1 - cell] if j == i else ahead[1 - cell][j]
                moves = cost_of_interruption * interruption_s + onwards
            ahead[cell][i] = min(stays[cell], moves)
    return float(ahead[0][0])


def _instants(cells: TwoCells, interruption_s: float) -> list[float]:
    """[s] at which a handover may begin or end: frames, and one interruption before and after each."""
    frames_s = cells.frame_s * np.arange(cells.n_frames + 1)
    around = np.concatenate([frames_s, frames_s - interruption_s, frames_s + interruption_s])
    times = np.sort(around[(around >= 0.0) & (around <= frames_s[-1])])
    kept: list[float] = times[np.append(True, np.diff(times) > SAME_S)].tolist()
    return kept


def _index_of(times: list[float], instant_s: float) -> int | None:
    i = bisect.bisect_left(times, instant_s - SAME_S)
    return i if i < len(times) and times[i] <= instant_s + SAME_S else None
