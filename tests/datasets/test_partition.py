"""Drive-bys are dealt whole: to one client each, and to one side of training and testing."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.datasets.partition import ClientRows, assign_clients, partition
from sheafedge.datasets.recording import Recording
from sheafedge.datasets.windows import Windows, make_windows
from sheafedge.emulator.contracts import ConfigError


def windows_of(n_sequences: int, seed: int = 0) -> Windows:
    draws = np.random.default_rng(seed)
    sequence = np.repeat(np.arange(n_sequences) * 3 + 1, draws.integers(3, 12, size=n_sequences))
    n_rows = len(sequence)
    return make_windows(Recording("street", np.zeros((n_rows, 2)), draws.uniform(1, 2, (n_rows, 8)), sequence), 2)


@st.composite
def streets(draw: st.DrawFn) -> tuple[list[Windows], int]:
    n_recordings = draw(st.integers(1, 3))
    n_clients = draw(st.integers(n_recordings, 8))
    n_sequences = st.integers(2 * n_clients, 2 * n_clients + 9)
    return [windows_of(draw(n_sequences), seed) for seed in range(n_recordings)], n_clients


def sequences_of(windows: list[Windows], client: ClientRows, indices: np.ndarray) -> set[tuple[int, int]]:
    return {(client.recording_index, int(s)) for s in windows[client.recording_index].sequence[indices]}


def as_lists(clients: list[ClientRows]) -> list[Any]:
    return [(client.recording_index, client.train.tolist(), client.test.tolist()) for client in clients]


def test_twenty_clients_share_the_three_deepsense_streets_6_6_8() -> None:
    assert assign_clients([29, 29, 83], 20) == [0] * 6 + [1] * 6 + [2] * 8


@given(case=streets(), split=st.sampled_from(["sequence", "random"]), seed=st.integers(0, 50))
def test_every_window_is_used_once_and_no_drive_by_has_two_owners(
    case: tuple[list[Windows], int], split: Any, seed: int
) -> None:
    windows, n_clients = case
    clients = partition(windows, n_clients, np.random.default_rng(seed), split=split)
    assert len(clients) == n_clients
    used = Counter((c.recording_index, int(i)) for c in clients for i in np.concatenate([c.train, c.test]))
    assert used == Counter((r, i) for r, w in enumerate(windows) for i in range(len(w)))

    owners = Counter(s for c in clients for s in sequences_of(windows, c, np.concatenate([c.train, c.test])))
    assert set(owners.values()) == {1}
    assert all(len(c.train) and len(c.test) for c in clients)


@given(case=streets(), test_fraction=st.floats(0.01, 0.99), seed=st.integers(0, 50))
def test_held_out_drive_bys_are_never_trained_on(
    case: tuple[list[Windows], int], test_fraction: float, seed: int
) -> None:
    windows, n_clients = case
    for client in partition(windows, n_clients, np.random.default_rng(seed), test_fraction=test_fraction):
        train, test = (sequences_of(windows, client, rows) for rows in (client.train, client.test))
        assert not train & test
        n = len(train) + len(test)
        assert len(test) == min(math.ceil(test_fraction * n - 1e-9), n - 1)


def test_the_random_split_does_leak_drive_bys() -> None:
    """Negative control of the test above, and the reason why the random split is no headline."""
    windows = [windows_of(12)]
    clients = partition(windows, 3, np.random.default_rng(0), split="random")
    assert all(sequences_of(windows, c, c.train) & sequences_of(windows, c, c.test) for c in clients)
    for client in clients:
        n = len(client.train) + len(client.test)
        assert len(client.test) == math.ceil(0.3 * n)


@pytest.mark.parametrize("split", ["sequence", "random"])
def test_one_seed_gives_one_partition_and_another_seed_another(split: Any) -> None:
    windows = [windows_of(12), windows_of(20, seed=1)]
    first, again, other = (partition(windows, 5, np.random.default_rng(s), split=split) for s in (4, 4, 5))
    assert as_lists(first) == as_lists(again)
    assert as_lists(first) != as_lists(other)


def test_owners_do_not_depend_on_the_split() -> None:
    windows = [windows_of(12), windows_of(20, seed=1)]
    owned = [
        [sequences_of(windows, c, np.concatenate([c.train, c.test])) for c in clients]
        for clients in (partition(windows, 5, np.random.default_rng(4), split=s) for s in ("sequence", "random"))
    ]
    assert owned[0] == owned[1]


@pytest.mark.parametrize("split", ["sequence", "random"])
def test_fewer_training_rows_are_a_subset_and_leave_the_test_rows_alone(split: Any) -> None:
    windows = [windows_of(40)]
    everything, half, tenth = (
        partition(windows, 2, np.random.default_rng(1), split=split, train_fraction=f) for f in (1.0, 0.5, 0.1)
    )
    for full, some, few in zip(everything, half, tenth, strict=True):
        assert_array_equal(full.test, few.test)
        assert set(few.train) < set(some.train) < set(full.train)
        assert len(some.train) == math.ceil(0.5 * len(full.train))
        assert_array_equal(few.train, np.sort(few.train))


def test_thinning_leaves_enough_rows_for_a_batch() -> None:
    for client in partition([windows_of(40)], 2, np.random.default_rng(1), train_fraction=1e-6):
        assert len(client.train) == 8


@pytest.mark.parametrize(
    ("n_sequences", "n_clients", "words"),
    [
        ([29, 29, 83], 50, "recording 0 has 29 drive-bys for 16 of clients.n_clients = 50"),
        ([10, 3], 4, "use at most 1 clients there"),
        ([29, 29, 83], 2, "got 2 clients for 3 recordings"),
        ([], 2, "got 2 clients for 0 recordings"),
        ([5], 0, "got 0 clients for 1 recordings"),
    ],
)
def test_too_few_drive_bys_or_clients_are_refused_with_numbers(
    n_sequences: list[int], n_clients: int, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        assign_clients(n_sequences, n_clients)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"split": "time"}, "data.split must be one of sequence, random, got 'time'"),
        ({"test_fraction": 0.0}, "data.test_fraction"),
        ({"test_fraction": 1.0}, "data.test_fraction"),
        ({"train_fraction": 0.0}, "data.train_fraction"),
        ({"train_fraction": 1.5}, "data.train_fraction"),
        ({"train_fraction": math.nan}, "data.train_fraction"),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        partition([windows_of(12)], 2, np.random.default_rng(0), **settings)
