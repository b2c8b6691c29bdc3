"""Who owns which drive-bys, and which of them are held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import ConfigError
from .windows import Windows

Split = Literal["sequence", "random"]

#: Thinning the training rows never goes below this, so that a small batch can still be drawn.
MIN_TRAIN_WINDOWS = 8
#: One drive-by to train on and one to be tested on.
MIN_SEQUENCES_PER_CLIENT = 2


@dataclass(frozen=True, slots=True, eq=False)
class ClientRows:
    """What one client owns.

    Attributes:
        recording_index: which recording its drive-bys come from.
        train: [n_train] int64, ascending indices into that recording's windows.
        test: [n_test] int64, ascending; disjoint from `train`.
    """

    recording_index: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def assign_clients(n_sequences_by_recording: Sequence[int], n_clients: int) -> list[int]:
    """Index of the recording that each client sits in, ascending.

    Every recording gets n_clients // n_recordings clients; the one with most drive-bys gets the remainder.

    Raises:
        ConfigError: no client for some recording, or fewer than two drive-bys for a client.
    """
    n_recordings = len(n_sequences_by_recording)
    if n_recordings == 0 or n_clients < n_recordings:
        raise ConfigError(
            f"clients.n_clients must be at least 1 and the number of recordings, got {n_clients} clients for "
            f"{n_recordings} recordings; use more clients or fewer recordings"
        )
    n_clients_by_recording = [n_clients // n_recordings] * n_recordings
    largest = int(np.argmax(n_sequences_by_recording))
    n_clients_by_recording[largest] += n_clients % n_recordings
    for index, (n_sequences, n_here) in enumerate(zip(n_sequences_by_recording, n_clients_by_recording, strict=True)):
        if n_sequences < MIN_SEQUENCES_PER_CLIENT * n_here:
            raise ConfigError(
                f"recording {index} has {n_sequences} drive-bys for {n_here} of clients.n_clients = {n_clients}, but "
                f"each client needs {MIN_SEQUENCES_PER_CLIENT}, one to train and one to test; use at most "
                f"{n_sequences // MIN_SEQUENCES_PER_CLIENT} clients there, or longer recordings"
            )
    return [index for index, n_here in enumerate(n_clients_by_recording) for _ in range(n_here)]


def partition(
    windows_by_recording: Sequence[Windows],
    n_clients: int,
    draws: np.random.Generator,
    *,
    split: Split = "sequence",
    test_fraction: float = 0.3,
    train_fraction: float = 1.0,
) -> list[ClientRows]:
    """Deals whole drive-bys to clients and holds some of each client's out.

    Shuffled drive-bys are dealt round-robin, so each belongs to exactly one client. Who owns what does not depend on
    `split`, and what is held out does not depend on `train_fraction`: runs that differ only there are comparable.

    Args:
        windows_by_recording: windows of each recording.
        n_clients: at least one per recording, see `assign_clients`.
        draws: the only randomness.
        split: "sequence" holds out whole drive-bys, ceil(test_fraction * n) of a client's n, at least one on each
            side. "random" holds out random windows. It leaks, since rows 0.1 s apart are near copies of each other
            and end up on both sides: use it only to compare with published figures that did so.
        test_fraction: share held out, in (0, 1).
        train_fraction: share of the training windows that is kept, in (0, 1]; never fewer than 8 if there are 8.

    Returns:
        One entry per client, ordered by recording.

    Raises:
        ConfigError: a fraction outside its range, an unknown split, or too few drive-bys.
    """
    _check_settings(split, test_fraction, train_fraction)
    sequences_by_recording = [np.unique(windows.sequence) for windows in windows_by_recording]
    assignment = assign_clients([len(sequences) for sequences in sequences_by_recording], n_clients)
    shuffled = [draws.permutation(sequences) for sequences in sequences_by_recording]
    client_seeds = draws.integers(2**63, size=n_clients)

    clients = []
    for client, index in enumerate(assignment):
        client_draws = np.random.default_rng(client_seeds[client])  # its own: one client does not move the next
        owned = shuffled[index][client - assignment.index(index) :: assignment.count(index)]
        sequence = windows_by_recording[index].sequence
        if split == "sequence":
            held_out = np.isin(sequence, owned[: _n_held_out(len(owned), test_fraction)])
            train, test = np.flatnonzero(np.isin(sequence, owned) & ~held_out), np.flatnonzero(held_out)
        else:
            mixed = client_draws.permutation(np.flatnonzero(np.isin(sequence, owned)))
            n_test = _n_held_out(len(mixed), test_fraction)
            train, test = np.sort(mixed[n_test:]), np.sort(mixed[:n_test])
        clients.append(ClientRows(index, _thinned(train, train_fraction, client_draws), test))
    return clients


def _check_settings(split: str, test_fraction: float, train_fraction: float) -> None:
    if split not in get_args(Split):
        raise ConfigError(f"data.split must be one of {', '.join(get_args(Split))}, got {split!r}")
    if not 0 < test_fraction < 1:
        raise ConfigError(f"data.test_fraction must lie in (0, 1), got {test_fraction}; 0.3 holds out 30 % or more")
    if not 0 < train_fraction <= 1:
        raise ConfigError(f"data.train_fraction must lie in (0, 1], got {train_fraction}; 1 trains on all rows")


def _ceil_share(fraction: float, n: int) -> int:
    return math.ceil(round(fraction * n, 9))  # 0.07 * 100 is 7, not the 7.000000000000001 of binary fractions


def _n_held_out(n: int, test_fraction: float) -> int:
    return min(max(_ceil_share(test_fraction, n), 1), n - 1)


def _thinned(train: NDArray[np.int64], train_fraction: float, draws: np.random.Generator) -> NDArray[np.int64]:
    n_kept = max(_ceil_share(train_fraction, len(train)), min(MIN_TRAIN_WINDOWS, len(train)))
    return np.sort(draws.permutation(train)[:n_kept])
