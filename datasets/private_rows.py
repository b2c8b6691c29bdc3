"""Rows that a client keeps aside from its own training rows, to judge what it has learned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .samples import Samples

#: Whole drive-bys are kept aside unless that would be so many times more than what was asked for.
AT_MOST = 2.0


def private_split(samples: Samples, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of a client's training samples are trained on, and which kept aside.

    Args:
        samples: training samples, in time order.
        share: kept aside, in (0, 1), at least one.

    Returns:
        ascending indices of both sides. Kept aside are the last whole sequences; where they are too long, the end of
        the last one, and then no training sample uses a frame of those kept aside. Few samples: every fifth or so.
    """
    n = len(samples)
    wanted = max(1, math.ceil(share * n))
    private = np.zeros(n, dtype=bool)
    for sequence in np.unique(samples.sequence)[::-1]:
        members = samples.sequence == sequence
        if private.sum() >= wanted or private.sum() + members.sum() > AT_MOST * wanted:
            break
        private |= members
    train = ~private
    if not private.any():
        private[-wanted:] = True
        first = samples.end[n - wanted] - samples.n_before - samples.n_after
        train = ~private & (samples.end < first)
        if not train.any():  # frames so few that every gap would swallow them
            train = ~private
    return np.flatnonzero(train), np.flatnonzero(private)
