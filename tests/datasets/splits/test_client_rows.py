"""Which training rows a client keeps aside: whole drive-bys, or the end behind a gap, and never all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.datasets.splits.client_rows import AT_MOST, private_split
from sheafedge.datasets.windows.samples import Samples
from sheafedge.emulator.contracts import ConfigError


@dataclass(frozen=True)
class Cut:
    """The parts of samples that a split looks at."""

    end: NDArray[np.int64]
    sequence: NDArray[np.int64]
    n_before: int = 3
    n_after: int = 2

    def __len__(self) -> int:
        return len(self.end)

    def frames(self, indices: NDArray[np.int64]) -> set[int]:
        """All that these samples use."""
        return {f for i in indices for f in range(self.end[i] - self.n_before, self.end[i] + self.n_after + 1)}


def cut(lengths: Sequence[int], **spans: Any) -> Cut:
    """Drive-bys of so many samples each, far apart from each other."""
    ends = [np.arange(n) + 1000 * index for index, n in enumerate(lengths)]
    return Cut(np.concatenate(ends), np.repeat(np.arange(len(lengths)), lengths), **spans)


def split(samples: Cut, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    as_samples: Any = samples
    checked: Samples = as_samples
    return private_split(checked, share)


some_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=8).filter(lambda lengths: sum(lengths) > 1)
some_shares = st.floats(0.05, 0.6)


@given(lengths=some_lengths, share=some_shares)
def test_both_sides_have_rows_and_no_row_is_on_both(lengths: list[int], share: float) -> None:
    samples = cut(lengths)
    train, private = split(samples, share)
    assert len(train) > 0
    assert len(private) > 0
    assert not set(train) & set(private)
    assert set(train) | set(private) <= set(range(len(samples)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(private) > 0).all()


@given(lengths=some_lengths, share=some_shares)
def test_about_as_many_are_kept_aside_as_were_asked_for(lengths: list[int], share: float) -> None:
    n = sum(lengths)
    _, private = split(cut(lengths), share)
    wanted = max(1, np.ceil(share * n))
    assert wanted / AT_MOST <= len(private) <= AT_MOST * wanted or len(private) == n - 1


@given(lengths=some_lengths, share=some_shares)
def test_a_drive_by_is_kept_aside_as_a_whole_or_a_gap_leaves_no_frame_to_both_sides(
    lengths: list[int], share: float
) -> None:
    samples = cut(lengths)
    train, private = split(samples, share)
    halved = set(samples.sequence[train]) & set(samples.sequence[private])
    overlap = samples.frames(train) & samples.frames(private)
    n_gap = len(samples) - len(train) - len(private)
    assert not overlap or (n_gap == 0 and train.max() < private.min())  # too few for a gap
    if not halved and n_gap == 0:
        assert not overlap


def test_drive_bys_are_kept_aside_as_wholes_where_they_are_short() -> None:
    samples = cut([10] * 10)
    train, private = split(samples, 0.2)
    assert private.tolist() == list(range(80, 100))
    assert train.tolist() == list(range(80))


def test_the_end_of_one_long_drive_by_is_kept_aside_behind_a_gap() -> None:
    samples = cut([100])
    train, private = split(samples, 0.2)
    assert private.tolist() == list(range(80, 100))
    assert train.tolist() == list(range(75))  # 3 frames before and 2 after belong to one side only
    assert not samples.frames(train) & samples.frames(private)
    closer = np.arange(76)
    assert samples.frames(closer) & samples.frames(private)  # the negative control: no row of the gap is wasted


def test_a_gap_counts_frames_and_not_samples() -> None:
    samples = cut([100])
    strided = replace(samples, end=samples.end * 3)
    train, private = split(strided, 0.2)
    assert train.tolist() == list(range(79))
    assert private.tolist() == list(range(80, 100))


def test_a_last_drive_by_of_a_row_or_two_is_not_all_that_a_client_is_judged_by() -> None:
    train, private = split(cut([60, 1]), 0.2)
    assert len(private) == 13
    assert private.tolist() == list(range(48, 61))
    assert train.tolist() == list(range(43))


@pytest.mark.parametrize(
    ("lengths", "aside"), [([2], [1]), ([1, 1], [1]), ([3], [2]), ([5], [4]), ([1, 2], [1, 2]), ([2, 1], [2])]
)
def test_few_rows_are_split_without_a_gap(lengths: list[int], aside: list[int]) -> None:
    train, private = split(cut(lengths), 0.2)
    assert private.tolist() == aside
    assert train.tolist() == [i for i in range(sum(lengths)) if i not in aside]


@pytest.mark.parametrize(("n", "said"), [(0, "0 training rows"), (1, "1 training row ")])
def test_a_single_row_cannot_be_kept_aside(n: int, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^a client with {said}.*can keep none aside; record longer"):
        split(cut([n]), 0.2)
