"""Limits of all handovers between two cells, as if the future were known.

Then a handover takes only its interruption, prepared in time. What is summed over time is constant between frames, so
that moving a handover changes the sum at a constant rate until its beginning or its end meets a frame: a best plan
exists in which every handover begins or ends at one, and these are all that is searched.
"""

from __future__ import annotations

import bisect

import numpy as np

from ..radio.waves import Array
from .two_cells import SAME_S, TwoCells


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
