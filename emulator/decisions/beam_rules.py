"""A user on one of many beams: keep one, sweep when it has become weak, or take the beam that a model answers.

Time is continuous; powers change at frames. While a sweep goes on nothing is sent, and what it finds is as old as its
beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from ..ranges import check_ranges
from .access_link import AccessLink
from .service import Service

NEVER = float("inf")
_RANGES = {
    "drop_db": (0.0, 60.0),
    "report_s": (0.0, 10.0),
    "resweep_s": (0.001, 1e6),
    "beam_s": (0.0, 0.1),
    "candidates": (1, 64),
}


@dataclass(frozen=True, slots=True)
class BeamRule:
    """Rule by which a base station finds the beam of its user.

    Attributes:
        drop_db: a beam that has lost so much since the last sweep is given up, ...
        report_s: ... once that has been reported.
        resweep_s: sweep again after so long anyway: a beam that does not get weaker may still not be the best.
        beam_s: duration of a sweep per beam that it tries.
        candidates: 1 takes the model's first beam; more sweeps so many of its first beams, and takes the best of them.

    Raises:
        ConfigError: a value is impossible.

    Source: 64 beams take a half frame of 5 ms, and the next may be 20 ms away, 3GPP TS 38.213, clause 4.1.
    """

    drop_db: float = 3.0
    report_s: float = 0.02
    resweep_s: float = 1.0
    beam_s: float = 0.005 / 64
    candidates: int = 1

    def __post_init__(self) -> None:
        check_ranges("decision.beams", self, _RANGES)


@dataclass(frozen=True, slots=True, eq=False)
class BeamSignals:
    """Signals of every beam at a user over n frames.

    Attributes:
        frame_s: time from a frame to the next.
        snr_db: [n, n_beams] from each frame until the next.
        rate_bps: [n, n_beams] that they carry.
        outage: [n, n_beams] bool, less than the user needs.
    """

    frame_s: float
    snr_db: Array
    rate_bps: Array
    outage: NDArray[np.bool_]

    @classmethod
    def of(cls, snr_db: Array, frame_s: float, link: AccessLink) -> BeamSignals:
        """Signals as a link turns them into rates."""
        rate_bps = link.rate_bps(snr_db)
        return cls(frame_s, snr_db, rate_bps, link.in_outage(rate_bps))

    @property
    def n_frames(self) -> int:
        """Frames of the stretch."""
        return len(self.snr_db)

    @property
    def n_beams(self) -> int:
        """Number of beams of the codebook."""
        return int(self.snr_db.shape[1])


def keep(signals: BeamSignals, beam: int) -> Service:
    """Service on one beam, never changed."""
    return _follow(signals, np.full(signals.n_frames, beam))


def best(signals: BeamSignals) -> Service:
    """Service on the strongest beam of every frame, known from its first instant on without a sweep."""
    return _follow(signals, signals.snr_db.argmax(axis=1))


def react(signals: BeamSignals, rule: BeamRule) -> Service:
    """Service of a rule that sweeps all beams at the start, after a drop of power, and after `resweep_s` anyway."""
    user = _BeamUser(signals)
    all_beams = np.arange(signals.n_beams)
    # Swept an infinite time ago: the first sweep is due at once.
    found_db, weak_since_s, swept_s = 0.0, NEVER, -NEVER
    for frame in range(signals.n_frames):
        end_s = (frame + 1) * signals.frame_s
        while user.now_s < end_s:
            now_s = user.now_s
            # Against what the last sweep found, because the rule does not know what other beams would give.
            is_weak = signals.snr_db[frame, user.beam] < found_db - rule.drop_db
            weak_since_s = min(weak_since_s, now_s) if is_weak else NEVER
            # whichever comes first: the drop has been reported, or the last sweep is too old
            due_s = min(weak_since_s + rule.report_s, swept_s + rule.resweep_s)
            if due_s > now_s:
                user.serve(min(end_s, due_s), frame)
                continue
            user.sweep(all_beams, rule.beam_s, frame)
            found_db, weak_since_s, swept_s = float(signals.snr_db[frame, user.beam]), NEVER, now_s
    return user.service


def follow_answers(
    signals: BeamSignals, rule: BeamRule, ranking: NDArray[np.int64], arrival_s: Array, first_beam: int
) -> Service:
    """Service on the beams that a model answers, from the arrival of each answer on.

    Args:
        signals: signals of all beams.
        rule: rule with the number of its first beams that are tried.
        ranking: [n, k] beams of the answer about each frame, best guess first.
        arrival_s: [n] when the answer arrives; infinite where there was none.
        first_beam: beam until the first answer arrives.
    """
    user = _BeamUser(signals, first_beam)
    answered = np.flatnonzero(np.isfinite(arrival_s))
    # in the order in which they arrive
    answers = iter(sorted(zip(arrival_s[answered].tolist(), answered.tolist(), strict=True)))
    answer_s, about = next(answers, (NEVER, -1))
    for frame in range(signals.n_frames):
        end_s = (frame + 1) * signals.frame_s
        while user.now_s < end_s:
            if answer_s > user.now_s:
                user.serve(min(end_s, answer_s), frame)
                continue
            # one candidate is trusted; several are swept, which costs time but finds the best of them
            tried = ranking[about, : rule.candidates]
            if len(tried) == 1:
                user.beam = int(tried[0])
            else:
                user.sweep(tried, rule.beam_s, frame)
            answer_s, about = next(answers, (NEVER, -1))
    return user.service


class _BeamUser:
    """A user that is played: the beam that serves it, and its service so far."""

    def __init__(self, signals: BeamSignals, beam: int = 0) -> None:
        self.service = Service()
        self.now_s, self.beam = 0.0, beam
        self._signals = signals
        self._best_db = signals.snr_db.max(axis=1)

    def serve(self, until_s: float, frame: int) -> None:
        """Stay on the beam until then, at most to the end of the frame."""
        signals, beam = self._signals, self.beam
        self.service.served(
            until_s - self.now_s,
            float(signals.rate_bps[frame, beam]),
            outage=bool(signals.outage[frame, beam]),
            lost_db=float(self._best_db[frame] - signals.snr_db[frame, beam]),
        )
        self.now_s = until_s

    def sweep(self, beams: NDArray[np.int64], beam_s: float, frame: int) -> None:
        """Try beams, and take the strongest; the end of the recording cuts the last sweep."""
        end_s = min(self.now_s + len(beams) * beam_s, self._signals.n_frames * self._signals.frame_s)
        self.service.n_actions += 1
        self.service.interrupted(end_s - self.now_s)
        self.now_s = end_s
        # Powers at the beginning of the sweep: what it finds is as old as that.
        self.beam = int(beams[self._signals.snr_db[frame, beams].argmax()])


def _follow(signals: BeamSignals, beam: NDArray[np.int64]) -> Service:
    frame = np.arange(signals.n_frames)
    rate_bps, outage = signals.rate_bps[frame, beam], signals.outage[frame, beam]
    lost_db = signals.snr_db.max(axis=1) - signals.snr_db[frame, beam]
    return Service(
        duration_s=signals.n_frames * signals.frame_s,
        outage_s=float(np.count_nonzero(outage)) * signals.frame_s,
        bits=float(rate_bps.sum()) * signals.frame_s,
        lost_db_s=float(lost_db.sum()) * signals.frame_s,
    )
