"""When the answers of a served model arrive: it is busy with one frame, then takes the newest."""

from __future__ import annotations

import numpy as np

from ..radio.waves import Array


def arrivals_s(sensed_s: Array, seconds: float) -> Array:
    """Instant of the answer about every frame.

    A device that is slower than its sensor leaves frames out: whenever it is done it takes the newest one.

    Args:
        sensed_s: [n] instants of the frames, ascending.
        seconds: from the start of an inference to its answer.

    Returns:
        [n] s; infinite where a frame was left out.
    """
    arrival = np.full(len(sensed_s), np.inf)
    row, free_s = 0, -np.inf
    while row < len(sensed_s):
        start_s = max(float(sensed_s[row]), free_s)
        newest = int(np.searchsorted(sensed_s, start_s, side="right")) - 1
        free_s = arrival[newest] = start_s + seconds
        row = newest + 1
    return arrival
