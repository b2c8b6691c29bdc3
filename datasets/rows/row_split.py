"""Which of a client's rows it trains on, and which are held out.

Rows are exchangeable, unlike frames of a recording: a random split of them is honest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError

Rows = NDArray[np.int64]

#: Thinning leaves at least so many training rows, where there are so many.
LEAST_TRAINED = 2


class SplitRows(NamedTuple):
    """Rows of one client.

    Attributes:
        train: [n_train] in random order.
        test: [n_test] in random order; disjoint from `train`.
    """

    train: Rows
    test: Rows


@dataclass(frozen=True, slots=True)
class RowSplit:
    """How the rows of a client are held out and thinned.

    Attributes:
        test_fraction: share of the rows that is held out, where the rows are in no parts.
        train_fraction: share of the training rows that is trained on.
        validation_fraction: share of the training rows that is scored on in place of the held-out ones, where no rows
            are marked for validation; None: the held-out ones are scored on.
        trains_validation: whether rows marked for validation are trained on where the held-out ones are scored.
    """

    test_fraction: float
    train_fraction: float = 1.0
    validation_fraction: float | None = None
    trains_validation: bool = True


def split_rows(
    client: int, rows: Rows, parts: NDArray[np.str_] | None, how: RowSplit, draws: np.random.Generator
) -> SplitRows:
    """Training and held-out rows of one client.

    Rows that the data set marks for validation are training rows, unless validation rows are scored on, or never.

    Args:
        client: its number, for errors.
        rows: [n] all its rows.
        parts: [n_all] part of every row of the data set; None: held out at random.
        how: shares.
        draws: the only randomness; as many draws for every share, so that runs that differ only there are comparable.

    Raises:
        ConfigError: no row on one side.
    """
    mixed = draws.permutation(rows)
    if parts is None:
        n_test = min(max(_share(how.test_fraction, len(mixed)), 1), len(mixed) - 1)
        train, test = mixed[n_test:], mixed[:n_test]
        marked = np.zeros(len(train), dtype=np.bool_)
    else:
        train, test = mixed[parts[mixed] != "test"], mixed[parts[mixed] == "test"]
        marked = parts[train] == "validation"
    if how.validation_fraction is not None:
        if not marked.any():
            n_scored = min(max(_share(how.validation_fraction, len(train)), 1), len(train) - 1)
            marked = np.arange(len(train)) < n_scored
        train, test = train[~marked], train[marked]
    elif not how.trains_validation:
        train = train[~marked]
    kept = max(_share(how.train_fraction, len(train)), min(LEAST_TRAINED, len(train)))
    for side, name in ((train, "train"), (test, "be scored")):
        if len(side) == 0:
            raise ConfigError(
                f"client {client} has no row to {name} on among its {len(rows)} rows; give it rows of every part, or"
                " set data.split = 'random'"
            )
    return SplitRows(train[:kept], test)


def scarce_clients(share: float, n_clients: int, draws: np.random.Generator) -> frozenset[int]:
    """Clients with few training rows; the larger of two shares holds those of the smaller."""
    return frozenset(draws.permutation(n_clients)[: round(share * n_clients)].tolist())


def thinned(split: SplitRows, keeps: float) -> SplitRows:
    """The same held-out rows with a share of the training rows."""
    kept = max(_share(keeps, len(split.train)), min(LEAST_TRAINED, len(split.train)))
    return split._replace(train=split.train[:kept])


def quarter_turns(n_clients: int, draws: np.random.Generator) -> list[int]:
    """Turns by 90 degrees of every client's images: four groups of one size, drawn at random."""
    turns = [0] * n_clients
    for place, client in enumerate(draws.permutation(n_clients)):
        turns[client] = 4 * place // n_clients
    return turns


def _share(fraction: float, n: int) -> int:
    return math.ceil(round(fraction * n, 9))
