"""Rows that a client keeps aside from its own training rows, to judge what it has learned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from ..windows.samples import Samples

#: Whole drive-bys are kept aside unless that would be so many times more, or less, than what was asked for.
AT_MOST = 2.0


def private_split(samples: Samples, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of a client's training samples are trained on, and which kept aside.

    Args:
        samples: training samples, in time order.
        share: kept aside, in (0, 1), at least one.

    Returns:
        ascending indices of both sides, none of them empty. Kept aside are the last whole sequences; where these would
        be many times too long or too short, the last samples, and then no training sample uses a frame of those kept
        aside, unless there are too few samples for such a gap.

    Raises:
        ConfigError: fewer than two samples.
    """
    n = len(samples)
    if n < 2:
        raise ConfigError(
            f"a client with {n} training row{'s' if n != 1 else ''} can keep none aside; record longer, use fewer"
            " clients, or another algorithm"
        )
    wanted = min(max(1, math.ceil(share * n)), n - 1)
    private = np.zeros(n, dtype=bool)
    for sequence in np.unique(samples.sequence)[::-1]:
        members = samples.sequence == sequence
        if private.sum() >= wanted or private.sum() + members.sum() > min(AT_MOST * wanted, n - 1):
            break
        private |= members
    train = ~private
    if private.sum() * AT_MOST < wanted:
        private[:] = False
        private[-wanted:] = True
        first = samples.end[n - wanted] - samples.n_before - samples.n_after
        train = ~private & (samples.end < first)
        if not train.any():  # frames so few that every gap would swallow them
            train = ~private
    return np.flatnonzero(train), np.flatnonzero(private)
