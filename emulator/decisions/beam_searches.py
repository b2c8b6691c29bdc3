"""Searches for a user's beam: all beams, wide beams first, a list, or the beams beside the one in use.

Every search says for each frame when it can be made and what it would find. Powers change at frames, and searches on
request are made when a frame begins, when the sensors look as well: no rule has fresher powers than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .beam_measurement import BeamMeasurement, Cost
from .beam_signals import BeamSignals

#: A number of bursts that is whole but for rounding.
_WHOLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A search for the beam of each of n users.

    Attributes:
        at_s: [n_users, n_frames] s from the beginning of each frame to the search; infinite where none can be made.
        beam: [n_users, n_frames] beam that it finds.
        cost: cost of one search.
        n_per_frame: [n_frames] searches that are made in each frame; the first tells all that there is to know.
        n_neighbors: above 0, so many beams are measured, the one in use and those beside it, in the place of `beam`.
    """

    at_s: Array
    beam: NDArray[np.int64]
    cost: Cost
    n_per_frame: Array
    n_neighbors: int = 0


class Procedure(NamedTuple):
    """What a rule does.

    Attributes:
        usual: search that is made again and again.
        recovery: search after a loss of power.
        swept_first: whether the first search is the recovery.
    """

    usual: Search
    recovery: Search
    swept_first: bool = False


def sweep_on_bursts(signals: BeamSignals, measurement: BeamMeasurement, period_s: float) -> Search:
    """Sweep of all beams on every synchronization burst, the first half a period after the user came.

    No burst begins with a frame unless its period makes it: powers change between two bursts, not just before one.
    """
    begin_s = signals.frame_s * np.arange(signals.n_frames + 1)
    number = np.ceil(begin_s / period_s - 0.5 - _WHOLE)  # of the first burst from there on
    n_bursts = np.diff(number)
    at_s = np.where(n_bursts > 0.0, (number[:-1] + 0.5) * period_s - begin_s[:-1], np.inf)
    return Search(
        np.broadcast_to(np.maximum(at_s, 0.0), (signals.n_users, signals.n_frames)),
        signals.best,
        measurement.burst(signals.n_beams),
        n_bursts,
    )


def sweep_on_request(signals: BeamSignals, measurement: BeamMeasurement) -> Search:
    """Sweep of all beams by CSI-RS."""
    return _at_frames(signals, signals.best, measurement.on_request(signals.n_beams))


def hierarchical_sweep(signals: BeamSignals, measurement: BeamMeasurement) -> Search:
    """Wide beams first, then the narrower ones below the strongest, until one narrow beam is left.

    A wide beam has the mean power of its narrow ones: what it radiates is spread over their directions. That holds the
    loss of array gain, the number of narrow beams where these do not overlap, and less where they do. It is the pattern
    of narrow beams that do not interfere; recordings hold powers, and no phases.
    """
    linear = 10.0 ** (signals.snr_db / 10.0)
    below = np.concatenate([np.zeros_like(linear[:, :, :1]), linear.cumsum(axis=2)], axis=2)
    first = np.zeros(linear.shape[:2], dtype=np.int64)
    width, n_measured, n_stages = signals.n_beams, 0, 0
    while width > 1:
        n_compared = min(measurement.wide_split, width)
        width //= n_compared
        begins = first[:, :, None] + width * np.arange(n_compared)
        power = np.take_along_axis(below, begins + width, axis=2) - np.take_along_axis(below, begins, axis=2)
        first = np.take_along_axis(begins, power.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
        n_measured, n_stages = n_measured + n_compared, n_stages + 1
    return _at_frames(signals, first, measurement.on_request(n_measured, n_stages))


def neighbor_sweep(signals: BeamSignals, measurement: BeamMeasurement, n_beams: int) -> Search:
    """The beam in use and those beside it in the order of the codebook.

    Of an even number one more is on one side: where the beam has just moved, else the other side than last time.
    """
    search = _at_frames(signals, signals.best, measurement.on_request(n_beams))
    return Search(search.at_s, search.beam, search.cost, search.n_per_frame, n_neighbors=n_beams)


def listed_beams(
    signals: BeamSignals, measurement: BeamMeasurement, ranking: Sequence[NDArray[np.int64]], at_s: Sequence[Array]
) -> Search:
    """The beams of a list per frame: one is trusted, several are measured, and the strongest of them is taken.

    Args:
        signals: signals of all beams.
        measurement: what measuring costs.
        ranking: of every user [n_frames, k] beams.
        at_s: of every user [n_frames] s from the beginning of each frame to the list; infinite where none came.
    """
    n_listed = ranking[0].shape[1]
    listed = np.zeros((signals.n_users, signals.n_frames, n_listed), dtype=np.int64)
    when_s = np.full((signals.n_users, signals.n_frames), np.inf)
    for user, (beams, when) in enumerate(zip(ranking, at_s, strict=True)):
        listed[user, : len(beams)], when_s[user, : len(when)] = beams, when
    strongest = np.take_along_axis(signals.snr_db, listed, axis=2).argmax(axis=2)[:, :, None]
    cost = measurement.trust if n_listed == 1 else measurement.on_request(n_listed)
    beam = np.take_along_axis(listed, strongest, axis=2)[:, :, 0]
    return Search(when_s, beam, cost, np.ones(signals.n_frames))


def arrived_answers(ranking: NDArray[np.int64], arrival_s: Array, frame_s: float) -> tuple[NDArray[np.int64], Array]:
    """Beams of the answer that arrives in each frame, the newest of several, and when.

    Args:
        ranking: [n, k] beams of the answer about each frame, best guess first.
        arrival_s: [n] s from the first frame to the arrival of the answer; infinite where there was none.
        frame_s: time from a frame to the next.

    Returns:
        [n, k] beams, and [n] s from the beginning of the frame; infinite where no answer arrives.
    """
    n = len(ranking)
    beams, at_s = ranking.copy(), np.full(n, np.inf)
    for about in np.flatnonzero(np.isfinite(arrival_s)).tolist():
        frame = int(arrival_s[about] / frame_s + _WHOLE)
        if frame < n:
            beams[frame], at_s[frame] = ranking[about], max(arrival_s[about] - frame * frame_s, 0.0)
    return beams, at_s


def _at_frames(signals: BeamSignals, beam: NDArray[np.int64], cost: Cost) -> Search:
    at_s = np.zeros((signals.n_users, signals.n_frames))
    return Search(at_s, beam, cost, np.ones(signals.n_frames))
