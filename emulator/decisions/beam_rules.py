"""Users on beams that are searched for: again and again, and after a loss of power.

Powers change at frames, time between them is continuous. While beams are measured nothing is sent, and what is found
serves once it has been reported and indicated; if that is in a later frame, from the beginning of the next one on. Many
triggers are played side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .beam_measurement import BeamMeasurement
from .beam_searches import Procedure, Search
from .beam_signals import BeamSignals
from .service import Service

Flags = NDArray[np.bool_]


class Trigger(NamedTuple):
    """When a rule searches.

    Attributes:
        period_s: at the first frame so long after the last search; infinite: the first search is the last.
        drop_db: the recovery is made when the beam in use has lost so much since the last recovery, or since it was
            strongest after it; infinite: never.
    """

    period_s: float
    drop_db: float = np.inf

    def figures(self) -> dict[str, float | None]:
        """Settings for summaries; None: never."""
        return {name: value if np.isfinite(value) else None for name, value in self._asdict().items()}


class BeamService(NamedTuple):
    """Sums of [n_users, n_triggers] services, see `Service`."""

    duration_s: Array
    outage_s: Array
    interrupted_s: Array
    bits: Array
    lost_db_s: Array
    n_actions: Array

    def services(self, users: slice = slice(None)) -> list[Service]:
        """Service of some users together under every trigger."""
        totals = [values[users].sum(axis=0) for values in self]
        return [
            Service(duration_s, outage_s, interrupted_s, bits, lost_db_s, n_actions=round(n_actions))
            for duration_s, outage_s, interrupted_s, bits, lost_db_s, n_actions in np.stack(totals, axis=1).tolist()
        ]


def play(
    signals: BeamSignals,
    measurement: BeamMeasurement,
    procedure: Procedure,
    triggers: Sequence[Trigger],
    first_beam: NDArray[np.int64],
    inputs_s: Array | None = None,
) -> BeamService:
    """Service of every user under every trigger.

    Args:
        signals: signals of all beams.
        measurement: how a loss is noticed.
        procedure: searches of the rule.
        triggers: when they are made.
        first_beam: [n_users] beam before the first search.
        inputs_s: [n_users] airtime per frame of what the rule must measure before it can search; None: nothing.
    """
    users = _Users(signals, len(triggers), first_beam)
    every, drop_db = _frames_between(signals, triggers), np.array([one.drop_db for one in triggers])
    since = np.full(users.beam.shape, np.inf)  # frames
    for frame in range(signals.n_frames):
        users.begin(frame)
        if inputs_s is not None:
            users.occupy(inputs_s[:, None])
        usual = procedure.recovery if procedure.swept_first and frame == 0 else procedure.usual
        resets = usual is procedure.recovery
        at_s = usual.at_s[:, frame, None]
        due = (since >= every) & np.isfinite(at_s)
        early = due & (at_s <= measurement.notice_s)
        users.search(usual, early, at_s, resets=resets)
        weak = users.has_lost(drop_db)
        users.search(procedure.recovery, weak, np.maximum(measurement.notice_s, users.now_s), resets=True)
        users.search(usual, due & ~early, at_s, resets=resets)
        users.end()
        since = np.where(due | weak, 1.0, since + 1.0)
    return users.played


def _frames_between(signals: BeamSignals, triggers: Sequence[Trigger]) -> Array:
    """[n_triggers] frames from a search to the next, 1 at least."""
    return np.maximum(np.rint(np.array([one.period_s for one in triggers]) / signals.frame_s), 1.0)


class _Users:
    """Users that are played, each under every trigger: beams in use, and services so far."""

    def __init__(self, signals: BeamSignals, n_triggers: int, first_beam: NDArray[np.int64]) -> None:
        shape = (signals.n_users, n_triggers)
        self.beam = np.repeat(first_beam[:, None], n_triggers, axis=1)
        self.played = BeamService(*(np.zeros(shape) for _ in BeamService._fields))
        self._signals = signals
        self._level_db = np.full(shape, -np.inf)
        self._side = np.ones(shape, dtype=np.int64)
        self._user = np.arange(signals.n_users)[:, None]

    def begin(self, frame: int) -> None:
        """The next frame, in which whoever has left is not served."""
        self._frame = frame
        self._length_s = np.where(frame < self._signals.length, self._signals.frame_s, 0.0)[:, None]
        self.now_s = np.zeros(self.beam.shape)
        self.played.duration_s[:] += self._length_s
        self._use(self.beam)

    def end(self) -> None:
        """Serve the rest of the frame."""
        self._serve(self._length_s)
        self._level_db = np.maximum(self._level_db, self._snr_db)

    def has_lost(self, drop_db: Array) -> Flags:
        """Whether the beam in use has lost so much since it was strongest, and the user is there."""
        return np.asarray((self._snr_db < self._level_db - drop_db) & (self.now_s < self._length_s))

    def search(self, search: Search, where: Flags, at_s: Array, *, resets: bool) -> None:
        """Make a search, and take the beam that it finds; losses count from there on if it resets them."""
        where = where & (at_s < self._length_s)
        if not where.any():
            return
        self._serve(np.where(where, at_s, self.now_s))
        ready_s = np.where(where, np.maximum(self.now_s, at_s) + search.cost.ready_s, 0.0)
        found = self._neighbor(search, where) if search.n_neighbors else search.beam[:, self._frame, None]
        n_searches = where * search.n_per_frame[self._frame]
        self.occupy(n_searches * search.cost.airtime_s)
        if search.cost.airtime_s > 0.0:
            self.played.n_actions[:] += n_searches
        self._serve(ready_s)
        self._use(np.where(where, found, self.beam))
        if resets:
            self._level_db = np.where(where, self._snr_db, self._level_db)

    def occupy(self, airtime_s: Array) -> None:
        """Send nothing for so long, at most to the end of the frame."""
        seconds = np.minimum(airtime_s, self._length_s - self.now_s)
        self.played.outage_s[:] += seconds
        self.played.interrupted_s[:] += seconds
        self.now_s = self.now_s + seconds

    def _neighbor(self, search: Search, where: Flags) -> NDArray[np.int64]:
        """Strongest of the beam in use and those beside it."""
        reach, one_more = divmod(search.n_neighbors - 1, 2)
        steps = np.arange(-reach, reach + one_more + 1) * self._side[:, :, None]
        tried = np.clip(self.beam[:, :, None] + steps, 0, self._signals.n_beams - 1)
        strongest = self._signals.snr_db[self._user[:, :, None], self._frame, tried].argmax(axis=2)
        found = np.take_along_axis(tried, strongest[:, :, None], axis=2)[:, :, 0]
        moved = np.sign(found - self.beam)
        self._side = np.where(where, np.where(moved == 0, -self._side, moved), self._side)
        return np.asarray(found, dtype=np.int64)

    def _serve(self, until_s: Array) -> None:
        """Stay on the beams until then, at most to the end of the frame."""
        seconds = np.maximum(np.minimum(until_s, self._length_s) - self.now_s, 0.0)
        self.played.lost_db_s[:] += seconds * self._here[..., 1]
        self.played.bits[:] += seconds * self._here[..., 2]
        self.played.outage_s[:] += seconds * self._here[..., 3]
        self.now_s = self.now_s + seconds

    def _use(self, beam: NDArray[np.int64]) -> None:
        self.beam = beam
        self._here = self._signals.of_beams[self._user, self._frame, beam]
        self._snr_db = self._here[..., 0]
