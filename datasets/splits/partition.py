"""Partition of samples among clients, with the rows that are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from ..windows.samples import Samples
from .client_rows import ClientRows, Split, ceil_share, scored_on_validation

#: Thinning the training rows never goes below this, so that a small batch can still be drawn.
MIN_TRAIN_WINDOWS = 8
#: One drive-by to train on and one to be tested on.
MIN_SEQUENCES_PER_CLIENT = 2


def assign_clients(sizes: Sequence[int], n_clients: int) -> list[int]:
    """Index of the recording that each client sits in, ascending.

    Every recording gets n_clients // n_recordings clients; the largest gets the remainder.

    Args:
        sizes: size of each recording, in frames or drive-bys.
        n_clients: one per recording at least.

    Raises:
        ConfigError: no client for some recording.
    """
    if not sizes or n_clients < len(sizes):
        raise ConfigError(
            f"clients.n_clients must be at least 1 and the number of recordings, got {n_clients} clients for "
            f"{len(sizes)} recordings; use more clients or fewer recordings"
        )
    counts = [n_clients // len(sizes)] * len(sizes)
    counts[int(np.argmax(sizes))] += n_clients % len(sizes)
    return [index for index, count in enumerate(counts) for _ in range(count)]


def partition(
    samples_by_client: Sequence[Samples],
    assignment: Sequence[int],
    draws: np.random.Generator,
    *,
    split: Split = "sequence",
    test_fraction: float = 0.3,
    train_fraction: float = 1.0,
    gap_frames: int = 0,
    validation_fraction: float | None = None,
) -> list[ClientRows]:
    """Training and held-out rows of every client.

    Who owns what does not depend on `train_fraction`, nor does what is held out: runs that differ only there are
    comparable.

    Args:
        samples_by_client: for each client all samples of its recording; those of clients of one recording differ in
            their inputs, and in how far their labels look ahead.
        assignment: index of each client's recording, see `assign_clients`.
        draws: random stream of the partition.
        split: "sequence" deals shuffled drive-bys round-robin and holds whole ones out, ceil(test_fraction * n) of a
            client's n, at least one on each side. "random" deals likewise and holds out random samples. It leaks, since
            rows 0.1 s apart are near copies of each other and end up on both sides: use it only to compare with
            published figures that did so. "time" deals stretches of time and holds out the end of each.
        test_fraction: share held out, in (0, 1).
        train_fraction: share of the training samples that is kept, in (0, 1]; never fewer than 8 if there are 8.
        gap_frames: between training and held-out frames with "time"; 0: just so many that no frame is used by both.
        validation_fraction: None tests on what is held out. Otherwise that is set aside: this share of a client's
            training samples is held out in the same manner and takes its place.

    Returns:
        One entry per client.

    Raises:
        ConfigError: a fraction outside its range, an unknown split, a gap that lets samples overlap, or too few
            drive-bys or frames.
    """
    _check_settings(split, test_fraction, train_fraction, validation_fraction)
    if split == "time":
        owned = _deal_time(samples_by_client, assignment, test_fraction, gap_frames)
    else:
        owned = _deal_sequences(samples_by_client, assignment, draws, split, test_fraction)
    # drawn whether or not rows are thinned: later draws stay the same for every train_fraction
    seeds = draws.integers(2**63, size=len(assignment))
    dealt = [
        # a generator of its own: one client does not move the next
        replace(rows, train=_thinned(rows.train, train_fraction, np.random.default_rng(seed)))
        for rows, seed in zip(owned, seeds, strict=True)
    ]
    if validation_fraction is None:
        return dealt
    return [
        scored_on_validation(
            client,
            rows,
            samples_by_client[client],
            np.random.default_rng(seed),
            split,
            validation_fraction,
            gap_frames,
        )
        for client, (rows, seed) in enumerate(zip(dealt, draws.integers(2**63, size=len(dealt)), strict=True))
    ]


def time_boundaries(rows: range, test_fraction: float, gap_frames: int) -> tuple[int, int]:
    """First row after training and first held-out row of a stretch of rows.

    Raises:
        ConfigError: a side without rows.
    """
    first_test = rows.stop - max(round(test_fraction * len(rows)), 1)
    if first_test - gap_frames <= rows.start:
        raise ConfigError(
            f"{len(rows)} frames are too few for data.test_fraction = {test_fraction} and a gap of {gap_frames} frames;"
            " record longer, or use fewer clients"
        )
    return first_test - gap_frames, first_test


def _deal_sequences(
    samples_by_client: Sequence[Samples],
    assignment: Sequence[int],
    draws: np.random.Generator,
    split: Split,
    test_fraction: float,
) -> list[ClientRows]:
    members = _members(assignment)
    shuffled = {
        index: draws.permutation(_common_sequences([samples_by_client[client] for client in clients]))
        for index, clients in members.items()
    }
    mixing_seeds = draws.integers(2**63, size=len(assignment))
    owned_rows = []
    for client, index in enumerate(assignment):
        sequences, clients = shuffled[index], members[index]
        _check_enough(index, len(sequences), len(clients), len(assignment))
        # round-robin over shuffled drive-bys: shares of all clients differ by one drive-by at most
        owned = sequences[clients.index(client) :: len(clients)]
        sequence = samples_by_client[client].sequence
        if split == "sequence":
            held_out = np.isin(sequence, owned[: _n_held_out(len(owned), test_fraction)])
            train, test = np.flatnonzero(np.isin(sequence, owned) & ~held_out), np.flatnonzero(held_out)
        else:
            mixing = np.random.default_rng(mixing_seeds[client])
            mixed = mixing.permutation(np.flatnonzero(np.isin(sequence, owned)))
            n_test = _n_held_out(len(mixed), test_fraction)
            train, test = np.sort(mixed[n_test:]), np.sort(mixed[:n_test])
        owned_rows.append(ClientRows(index, train, test))
    return owned_rows


def _deal_time(
    samples_by_client: Sequence[Samples], assignment: Sequence[int], test_fraction: float, gap_frames: int
) -> list[ClientRows]:
    members = _members(assignment)
    n_rows = {index: max(_n_rows(samples_by_client[c]) for c in clients) for index, clients in members.items()}
    owned_rows = []
    for client, index in enumerate(assignment):
        samples, clients = samples_by_client[client], members[index]
        least = samples.n_before + samples.n_after
        if 0 < gap_frames < least:
            raise ConfigError(
                f"data.gap_frames must be 0 or at least {least}, the frames that a sample spans, got {gap_frames};"
                " less would share frames between training and test"
            )
        rows = _stretch(n_rows[index], clients.index(client), len(clients))
        train_stop, test_start = time_boundaries(rows, test_fraction, gap_frames or least)
        # no other client has frames of the stretch
        own = (samples.end - samples.n_before >= rows.start) & (samples.end + samples.n_after < rows.stop)
        train = np.flatnonzero(own & (samples.end < train_stop))
        test = np.flatnonzero(own & (samples.end >= test_start))
        for name, side in (("training", train), ("held-out", test)):
            if len(side) == 0:
                raise ConfigError(
                    f"a split by time leaves client {client} no {name} sample among {len(rows)} frames of recording"
                    f" {index}; record longer, use fewer clients, or change data.test_fraction = {test_fraction}"
                )
        owned_rows.append(ClientRows(index, train, test))
    return owned_rows


def _members(assignment: Sequence[int]) -> dict[int, list[int]]:
    """Recording -> ids of the clients that share it, ascending."""
    members: dict[int, list[int]] = {}
    for client, index in enumerate(assignment):
        members.setdefault(index, []).append(client)
    return members


def _common_sequences(sharers: Sequence[Samples]) -> NDArray[np.int64]:
    """Ascending sequences in which all clients of a recording have samples; long horizons leave some without."""
    return reduce(np.intersect1d, [np.unique(samples.sequence) for samples in sharers])


def _n_rows(samples: Samples) -> int:
    """Rows of the recording that a client's samples reach to."""
    return int(samples.end[-1]) + samples.n_after + 1


def _stretch(n_rows: int, place: int, n_places: int) -> range:
    """Rows of the recording that belong to the client at this place among those who share it."""
    return range(n_rows * place // n_places, n_rows * (place + 1) // n_places)


def _check_enough(index: int, n_sequences: int, n_here: int, n_clients: int) -> None:
    if n_sequences < MIN_SEQUENCES_PER_CLIENT * n_here:
        n_possible = n_sequences // MIN_SEQUENCES_PER_CLIENT
        fewer = f"use at most {n_possible} clients there, or longer recordings" if n_possible else "record longer"
        raise ConfigError(
            f"recording {index} has {n_sequences} sequence{'s' if n_sequences > 1 else ''} (drive-bys, flights) for"
            f" {n_here} of clients.n_clients = {n_clients}, but each client needs {MIN_SEQUENCES_PER_CLIENT}, one to"
            f" train and one to test; {fewer}, or data.split = 'time'"
        )


def _check_settings(split: str, test_fraction: float, train_fraction: float, validation_fraction: float | None) -> None:
    if split not in get_args(Split):
        raise ConfigError(f"data.split must be one of {', '.join(get_args(Split))}, got {split!r}")
    if not 0 < test_fraction < 1:
        raise ConfigError(f"data.test_fraction must lie in (0, 1), got {test_fraction}; 0.3 holds out 30 % or more")
    if not 0 < train_fraction <= 1:
        raise ConfigError(f"data.train_fraction must lie in (0, 1], got {train_fraction}; 1 trains on all rows")
    if validation_fraction is not None and not 0 < validation_fraction < 1:
        raise ConfigError(f"data.validation_fraction must lie in (0, 1), got {validation_fraction}; try 0.25")


def _n_held_out(n: int, test_fraction: float) -> int:
    return min(max(ceil_share(test_fraction, n), 1), n - 1)


def _thinned(train: NDArray[np.int64], train_fraction: float, draws: np.random.Generator) -> NDArray[np.int64]:
    n_kept = max(ceil_share(train_fraction, len(train)), min(MIN_TRAIN_WINDOWS, len(train)))
    return np.sort(draws.permutation(train)[:n_kept])
