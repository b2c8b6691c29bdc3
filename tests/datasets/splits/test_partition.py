"""Drive-bys and stretches of time have one owner each, and are on one side of training and testing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.datasets.splits.client_rows import ClientRows
from sheafedge.datasets.splits.partition import assign_clients, partition
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.samples import Samples
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import BeamWindows, BlockageWindows, blockage_windows
from sheafedge.datasets.windows.track_windows import tracking_windows
from sheafedge.emulator.contracts import ConfigError


def windows_of(n_sequences: int, seed: int = 0) -> BeamWindows:
    draws = np.random.default_rng(seed)
    sequence = np.repeat(np.arange(n_sequences) * 3 + 1, draws.integers(3, 12, size=n_sequences))
    n_rows = len(sequence)
    return tracking_windows(Recording("street", np.zeros((n_rows, 2)), draws.uniform(1, 2, (n_rows, 8)), sequence), 2)


def dealt(recordings: Sequence[Samples], n_clients: int, seed: int = 0, **options: Any) -> list[ClientRows]:
    """All clients of some recordings; those of one recording have the same samples."""
    assignment = assign_clients([len(np.unique(samples.sequence)) for samples in recordings], n_clients)
    return partition([recordings[index] for index in assignment], assignment, np.random.default_rng(seed), **options)


@st.composite
def streets(draw: st.DrawFn) -> tuple[list[BeamWindows], int]:
    n_recordings = draw(st.integers(1, 3))
    n_clients = draw(st.integers(n_recordings, 8))
    n_sequences = st.integers(2 * n_clients, 2 * n_clients + 9)
    return [windows_of(draw(n_sequences), seed) for seed in range(n_recordings)], n_clients


def sequences_of(windows: list[BeamWindows], client: ClientRows, indices: np.ndarray) -> set[tuple[int, int]]:
    return {(client.recording_index, int(s)) for s in windows[client.recording_index].sequence[indices]}


def as_lists(clients: list[ClientRows]) -> list[Any]:
    return [(client.recording_index, client.train.tolist(), client.test.tolist()) for client in clients]


def test_twenty_clients_share_the_three_deepsense_streets_6_6_8() -> None:
    assert assign_clients([29, 29, 83], 20) == [0] * 6 + [1] * 6 + [2] * 8


@given(case=streets(), split=st.sampled_from(["sequence", "random"]), seed=st.integers(0, 50))
def test_every_window_is_used_once_and_no_drive_by_has_two_owners(
    case: tuple[list[BeamWindows], int], split: Any, seed: int
) -> None:
    windows, n_clients = case
    clients = dealt(windows, n_clients, seed, split=split)
    assert len(clients) == n_clients
    used = Counter((c.recording_index, int(i)) for c in clients for i in np.concatenate([c.train, c.test]))
    assert used == Counter((r, i) for r, w in enumerate(windows) for i in range(len(w)))

    owners = Counter(s for c in clients for s in sequences_of(windows, c, np.concatenate([c.train, c.test])))
    assert set(owners.values()) == {1}
    assert all(len(c.train) and len(c.test) for c in clients)


@given(case=streets(), test_fraction=st.floats(0.01, 0.99), seed=st.integers(0, 50))
def test_held_out_drive_bys_are_never_trained_on(
    case: tuple[list[BeamWindows], int], test_fraction: float, seed: int
) -> None:
    windows, n_clients = case
    for client in dealt(windows, n_clients, seed, test_fraction=test_fraction):
        train, test = (sequences_of(windows, client, rows) for rows in (client.train, client.test))
        assert not train & test
        n = len(train) + len(test)
        assert len(test) == min(math.ceil(test_fraction * n - 1e-9), n - 1)


def test_the_random_split_does_leak_drive_bys() -> None:
    """Negative control of the test above, and the reason why the random split is no headline."""
    windows = [windows_of(12)]
    clients = dealt(windows, 3, split="random")
    assert all(sequences_of(windows, c, c.train) & sequences_of(windows, c, c.test) for c in clients)
    for client in clients:
        n = len(client.train) + len(client.test)
        assert len(client.test) == math.ceil(0.3 * n)


@pytest.mark.parametrize("split", ["sequence", "random"])
def test_one_seed_gives_one_partition_and_another_seed_another(split: Any) -> None:
    windows = [windows_of(12), windows_of(20, seed=1)]
    first, again, other = (dealt(windows, 5, s, split=split) for s in (4, 4, 5))
    assert as_lists(first) == as_lists(again)
    assert as_lists(first) != as_lists(other)


def test_owners_do_not_depend_on_the_split() -> None:
    windows = [windows_of(12), windows_of(20, seed=1)]
    owned = [
        [sequences_of(windows, c, np.concatenate([c.train, c.test])) for c in clients]
        for clients in (dealt(windows, 5, 4, split=s) for s in ("sequence", "random"))
    ]
    assert owned[0] == owned[1]


@pytest.mark.parametrize("split", ["sequence", "random"])
def test_fewer_training_rows_are_a_subset_and_leave_the_test_rows_alone(split: Any) -> None:
    windows = [windows_of(40)]
    everything, half, tenth = (dealt(windows, 2, 1, split=split, train_fraction=f) for f in (1.0, 0.5, 0.1))
    for full, some, few in zip(everything, half, tenth, strict=True):
        assert_array_equal(full.test, few.test)
        assert set(few.train) < set(some.train) < set(full.train)
        assert len(some.train) == math.ceil(0.5 * len(full.train))
        assert_array_equal(few.train, np.sort(few.train))


def test_thinning_leaves_enough_rows_for_a_batch() -> None:
    for client in dealt([windows_of(40)], 2, 1, train_fraction=1e-6):
        assert len(client.train) == 8


@pytest.mark.parametrize(
    ("sizes", "n_clients", "words"),
    [
        ([29, 29, 83], 2, "got 2 clients for 3 recordings"),
        ([], 2, "got 2 clients for 0 recordings"),
        ([5], 0, "got 0 clients for 1 recordings"),
    ],
)
def test_too_few_clients_are_refused_with_numbers(sizes: list[int], n_clients: int, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        assign_clients(sizes, n_clients)
    assert words in str(refused.value)


@pytest.mark.parametrize("split", ["sequence", "random"])
@pytest.mark.parametrize(
    ("n_sequences", "n_clients", "words"),
    [
        ([29, 29, 83], 50, "recording 0 has 29 sequences (drive-bys, flights) for 16 of clients.n_clients = 50"),
        ([10, 3], 4, "use at most 1 clients there, or longer recordings"),
        ([1], 1, "recording 0 has 1 sequence (drive-bys, flights) for 1 of clients.n_clients = 1"),
    ],
)
def test_too_few_drive_bys_are_refused_with_numbers_and_the_way_out(
    split: Any, n_sequences: list[int], n_clients: int, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        dealt([windows_of(n) for n in n_sequences], n_clients, split=split)
    assert words in str(refused.value)
    assert str(refused.value).endswith("or data.split = 'time'")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"split": "place"}, "data.split must be one of sequence, time, random, got 'place'"),
        ({"test_fraction": 0.0}, "data.test_fraction"),
        ({"test_fraction": 1.0}, "data.test_fraction"),
        ({"train_fraction": 0.0}, "data.train_fraction"),
        ({"train_fraction": 1.5}, "data.train_fraction"),
        ({"train_fraction": math.nan}, "data.train_fraction"),
        ({"validation_fraction": 0.0}, "data.validation_fraction"),
        ({"validation_fraction": 1.0}, "data.validation_fraction"),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dealt([windows_of(12)], 2, **settings)


# By time.


def street_of(n_frames: int, length: int, horizon: int, stride: int = 1) -> BlockageWindows:
    """One unbroken recording, whose label looks ahead."""
    sensed = SensedFrames("corner", ("rf",))
    draws = np.random.default_rng(2)
    sensed.append(
        {
            "time_s": np.arange(n_frames) / 10,
            "sequence": np.zeros(n_frames, dtype=np.int64),
            "rf": draws.uniform(1, 2, (n_frames, 2)),
            "blocked_geometric": draws.random(n_frames) < 0.3,
        }
    )
    return blockage_windows(sensed, ("rf",), length, horizon, stride=stride)


def frames_of(samples: Samples, indices: np.ndarray) -> set[int]:
    """Rows of the recording that inputs or labels of these samples come from."""
    spans = (range(end - samples.n_before, end + samples.n_after + 1) for end in samples.end[indices].tolist())
    return {row for span in spans for row in span}


def stretches(samples: Samples, clients: Sequence[ClientRows]) -> list[tuple[set[int], set[int]]]:
    """Frames that every client trains on, and those that it is tested on."""
    return [(frames_of(samples, client.train), frames_of(samples, client.test)) for client in clients]


@given(
    n_clients=st.integers(1, 5),
    length=st.integers(1, 6),
    horizon=st.integers(1, 6),
    stride=st.integers(1, 4),
    more_frames=st.integers(0, 100),
    test_fraction=st.floats(0.25, 0.6),
    more_gap=st.none() | st.integers(0, 5),
)
def test_no_frame_is_used_by_two_clients_or_by_both_sides(
    n_clients: int,
    length: int,
    horizon: int,
    stride: int,
    more_frames: int,
    test_fraction: float,
    more_gap: int | None,
) -> None:
    samples = street_of(80 * n_clients + more_frames, length, horizon, stride)
    gap_frames = 0 if more_gap is None else samples.n_before + samples.n_after + more_gap
    clients = dealt([samples], n_clients, split="time", test_fraction=test_fraction, gap_frames=gap_frames)
    sides = [side for both in stretches(samples, clients) for side in both]
    assert all(sides)
    assert len(set.union(*sides)) == sum(len(side) for side in sides)
    assert all(max(before) < min(after) for before, after in pairwise(sides))  # in the order of the clients


def test_without_a_gap_given_it_is_just_as_long_as_needed() -> None:
    samples = street_of(200, length=16, horizon=5)
    (client,) = dealt([samples], 1, split="time", test_fraction=0.25)
    ((train, test),) = stretches(samples, [client])
    assert min(test) == max(train) + 1
    assert samples.end[client.test[0]] == 150  # the last quarter of the frames
    assert len(samples) - len(client.train) - len(client.test) == samples.n_before + samples.n_after


def test_a_longer_gap_is_taken_from_training() -> None:
    samples = street_of(200, length=16, horizon=5)
    (short,), (long,) = (dealt([samples], 1, split="time", gap_frames=gap) for gap in (20, 50))
    assert_array_equal(short.test, long.test)
    assert len(short.train) - len(long.train) == 30


def test_training_comes_before_what_is_held_out() -> None:
    """Somebody who learns from the past is asked about the future."""
    samples = street_of(400, length=4, horizon=2)
    for client in dealt([samples], 3, split="time"):
        assert samples.end[client.train].max() < samples.end[client.test].min()


def test_drive_bys_can_be_split_by_time_too() -> None:
    samples = windows_of(30)
    (client,) = dealt([samples], 1, split="time")
    train, test = (set(samples.sequence[rows].tolist()) for rows in (client.train, client.test))
    assert max(train) <= min(test)
    assert not frames_of(samples, client.train) & frames_of(samples, client.test)


@pytest.mark.parametrize("gap", [1, 19])
def test_a_gap_that_lets_frames_be_shared_is_refused_with_the_least_one(gap: int) -> None:
    with pytest.raises(ConfigError) as refused:
        dealt([street_of(200, length=16, horizon=5)], 1, split="time", gap_frames=gap)
    assert f"data.gap_frames must be 0 or at least 20, the frames that a sample spans, got {gap}" in str(refused.value)
    dealt([street_of(200, length=16, horizon=5)], 1, split="time", gap_frames=20)


@pytest.mark.parametrize(
    ("n_frames", "n_clients", "options", "words"),
    [
        (40, 1, {"gap_frames": 28}, ("40 frames are too few", "data.test_fraction = 0.3", "a gap of 28 frames")),
        (90, 4, {}, ("22 frames are too few", "a gap of 20 frames", "use fewer clients")),
        (70, 2, {}, ("leaves client 0 no training sample among 35 frames of recording 0", "data.test_fraction = 0.3")),
        (200, 1, {"test_fraction": 0.01}, ("leaves client 0 no held-out sample among 200 frames",)),
    ],
)
def test_recordings_too_short_for_a_split_by_time_are_refused_with_numbers(
    n_frames: int, n_clients: int, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as refused:
        dealt([street_of(n_frames, length=16, horizon=5)], n_clients, split="time", **options)
    assert [word for word in words if word not in str(refused.value)] == []


def test_clients_of_a_recording_may_have_different_inputs() -> None:
    """Who owns which rows depends on times alone."""
    windows = [windows_of(12).owned_by(("rf",)), windows_of(12).owned_by(("gps",))]
    for split in ("sequence", "time", "random"):
        apart = partition(windows, [0, 0], np.random.default_rng(3), split=split)  # type: ignore[arg-type]
        assert as_lists(apart) == as_lists(dealt([windows_of(12)], 2, 3, split=split))


@pytest.mark.parametrize("horizons", [(1, 6), (6, 1), (2, 5, 1)])
@pytest.mark.parametrize("stride", [1, 3, 4])
def test_clients_of_a_recording_may_look_ahead_differently_far(horizons: tuple[int, ...], stride: int) -> None:
    """Their stretches of time end where the next one's begin all the same."""
    for n_frames in range(300, 312):
        samples = [street_of(n_frames, 4, horizon, stride) for horizon in horizons]
        shares = partition(samples, [0] * len(samples), np.random.default_rng(3), split="time")
        sides = [side for own, rows in zip(samples, shares, strict=True) for side in stretches(own, [rows])[0]]
        assert all(max(before) < min(after) for before, after in pairwise(sides))


def test_a_drive_by_too_short_for_one_of_the_clients_is_dealt_to_nobody() -> None:
    samples = [windows_of(12).owned_by(("rf",)), windows_of(12).owned_by(("gps",))]
    short = int(samples[1].sequence[0])
    samples[1] = samples[1].take(np.flatnonzero(samples[1].sequence != short))
    for order in ((0, 1), (1, 0)):
        shares = partition([samples[i] for i in order], [0, 0], np.random.default_rng(3), split="sequence")
        for i, rows in zip(order, shares, strict=True):
            assert short not in samples[i].sequence[np.concatenate([rows.train, rows.test])]


# Validation.


def rows_of(clients: Sequence[ClientRows]) -> tuple[list[set[int]], list[set[int]]]:
    return [set(c.train.tolist()) for c in clients], [set(c.test.tolist()) for c in clients]


@given(
    n_clients=st.integers(1, 4),
    split=st.sampled_from(["sequence", "time", "random"]),
    validation_fraction=st.floats(0.2, 0.6),
    train_fraction=st.sampled_from([0.5, 1.0]),
    seed=st.integers(0, 50),
)
def test_validation_takes_training_rows_and_nobody_sees_test_rows(
    n_clients: int, split: Any, validation_fraction: float, train_fraction: float, seed: int
) -> None:
    windows = [windows_of(12 * n_clients, seed)]
    options = {"split": split, "train_fraction": train_fraction}
    train, test = rows_of(dealt(windows, n_clients, seed, **options))
    validated = dealt(windows, n_clients, seed, validation_fraction=validation_fraction, **options)
    for client, (less, scored) in enumerate(zip(*rows_of(validated), strict=True)):
        assert less
        assert scored
        assert not less & scored
        assert less | scored <= train[client]
        assert not (less | scored) & set.union(*test)
    if split == "sequence":
        for client in validated:
            assert not sequences_of(windows, client, client.train) & sequences_of(windows, client, client.test)


def test_what_is_scored_otherwise_are_test_rows() -> None:
    """Negative control: without validation the same deal does score them."""
    windows = [windows_of(24)]
    _, test = rows_of(dealt(windows, 2))
    _, again = rows_of(dealt(windows, 2, validation_fraction=None))
    assert test == again
    _, validation = rows_of(dealt(windows, 2, validation_fraction=0.25))
    assert not set.union(*test) & set.union(*validation)


def test_validation_drive_bys_are_a_rounded_up_share_of_those_trained_on() -> None:
    windows = [windows_of(20)]
    (client,) = dealt(windows, 1, validation_fraction=0.25)  # 6 of 20 are for the test
    assert len(sequences_of(windows, client, client.test)) == math.ceil(0.25 * 14)
    assert len(sequences_of(windows, client, client.train)) == 14 - math.ceil(0.25 * 14)


def test_validation_time_is_the_end_of_training_behind_a_gap() -> None:
    samples = street_of(400, length=8, horizon=3)
    (whole,), (client,) = (dealt([samples], 1, split="time", validation_fraction=f) for f in (None, 0.25))
    assert samples.end[client.train].max() < samples.end[client.test].min()
    assert client.test.max() == whole.train.max()
    sides = [frames_of(samples, rows) for rows in (client.train, client.test, whole.test)]
    assert len(set.union(*sides)) == sum(map(len, sides))


@pytest.mark.parametrize("split", ["sequence", "time"])
def test_too_few_rows_for_a_validation_are_refused_with_numbers(split: Any) -> None:
    windows = [windows_of(2)]
    with pytest.raises(ConfigError) as refused:
        dealt(windows, 1, split=split, validation_fraction=0.9)
    assert "data.scored = 'validation' leaves client 0 no row" in str(refused.value)
    assert "data.validation_fraction = 0.9" in str(refused.value)
