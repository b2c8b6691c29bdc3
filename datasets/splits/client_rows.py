"""The samples of one client: which it trains on and which are held out.

Settings are chosen on validation samples, a part of the training samples, so that the held-out ones stay unseen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from ..windows.samples import Samples

Split = Literal["sequence", "time", "random"]


@dataclass(frozen=True, slots=True, eq=False)
class ClientRows:
    """Training and held-out rows of one client.

    Attributes:
        recording_index: index of the recording that its samples come from.
        train: [n_train] int64, ascending indices into that recording's samples.
        test: [n_test] int64, ascending; disjoint from `train`.
    """

    recording_index: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def scored_on_validation(
    client: int,
    rows: ClientRows,
    samples: Samples,
    draws: np.random.Generator,
    split: Split,
    validation_fraction: float,
    gap_frames: int,
) -> ClientRows:
    """The same client with a share of its training rows to be scored on, in place of its test rows.

    What it trains on and is scored on then are training rows of the run that is scored on test rows.

    Args:
        client: its number, for errors.
        rows: what it trains on and is tested on otherwise.
        samples: samples of its recording.
        draws: the only randomness.
        split: "sequence" holds out whole drive-bys, "random" random rows, "time" the end of the training rows, behind a
            gap that leaves no frame to both sides.
        validation_fraction: share held out, in (0, 1), rounded up.
        gap_frames: for "time"; 0: as few as possible.

    Raises:
        ConfigError: too few training rows or drive-bys for two sides.
    """
    if split == "time":
        train, scored = _end_held_out(rows.train, samples, validation_fraction, gap_frames)
    elif split == "sequence":
        sequence = samples.sequence[rows.train]
        order = draws.permutation(np.unique(sequence))
        held_out = np.isin(sequence, order[: _n_scored(len(order), validation_fraction)])
        train, scored = rows.train[~held_out], rows.train[held_out]
    else:
        order = draws.permutation(rows.train)
        n_scored = _n_scored(len(order), validation_fraction)
        train, scored = np.sort(order[n_scored:]), np.sort(order[:n_scored])
    if len(train) == 0 or len(scored) == 0:
        raise ConfigError(
            f"data.scored = 'validation' leaves client {client} no row to {'train' if len(scored) else 'be scored'} on"
            f" with data.validation_fraction = {validation_fraction:g} of {len(rows.train)} training rows; record"
            " longer, use fewer clients, or change the fraction"
        )
    return replace(rows, train=train, test=scored)


def ceil_share(fraction: float, n: int) -> int:
    """A share of n, rounded up: 0.07 * 100 is 7, not the 7.000000000000001 of binary fractions."""
    return math.ceil(round(fraction * n, 9))


def _n_scored(n: int, fraction: float) -> int:
    """Of n drive-bys or rows; all but one at most, so that a single one is never held out."""
    return min(ceil_share(fraction, n), n - 1)


def _end_held_out(
    train: NDArray[np.int64], samples: Samples, fraction: float, gap_frames: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    end = samples.end[train]
    first, stop = int(end.min()), int(end.max()) + 1
    first_scored = stop - max(ceil_share(fraction, stop - first), 1)
    train_stop = first_scored - (gap_frames or samples.n_before + samples.n_after)
    return train[end < train_stop], train[end >= first_scored]
