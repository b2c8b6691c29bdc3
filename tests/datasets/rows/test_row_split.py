"""Splits of rows: honest sides, given parts, validation, scarce clients and turned images."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.datasets.rows.row_split import (
    RowSplit,
    SplitRows,
    quarter_turns,
    scarce_clients,
    split_rows,
    thinned,
)
from sheafedge.emulator.contracts import ConfigError

ROWS = np.arange(100, 140)
PARTS = np.array((["train"] * 4 + ["validation"] + ["test"] * 3) * 20)


def split(how: RowSplit, parts: NDArray[np.str_] | None = None, seed: int = 0) -> SplitRows:
    return split_rows(0, ROWS, parts, how, np.random.default_rng(seed))


@given(fraction=st.floats(0.01, 0.99), seed=st.integers(0, 9))
def test_both_sides_have_rows_and_none_is_on_both(fraction: float, seed: int) -> None:
    train, test = split(RowSplit(fraction), seed=seed)
    assert sorted([*train, *test]) == ROWS.tolist()
    assert len(train) >= 1
    assert len(test) >= 1


def test_a_quarter_is_held_out_at_random() -> None:
    train, test = split(RowSplit(0.25))
    assert (len(train), len(test)) == (30, 10)
    assert sorted(test) != sorted(split(RowSplit(0.25), seed=1).test)


def test_fewer_training_rows_are_some_of_the_same_and_the_test_stays() -> None:
    whole, half = split(RowSplit(0.25)), split(RowSplit(0.25, train_fraction=0.5))
    assert sorted(half.test) == sorted(whole.test)
    assert set(half.train) < set(whole.train)
    assert len(half.train) == 15


def test_given_parts_are_kept_and_validation_rows_are_trained_on_unless_they_are_scored() -> None:
    plain = split(RowSplit(0.25), PARTS)
    assert set(PARTS[plain.test]) == {"test"}
    assert set(PARTS[plain.train]) == {"train", "validation"}
    scored = split(RowSplit(0.25, validation_fraction=0.25), PARTS)
    assert set(PARTS[scored.test]) == {"validation"}
    assert set(PARTS[scored.train]) == {"train"}


def test_validation_takes_training_rows_where_none_are_marked_and_leaves_the_test_alone() -> None:
    plain, scored = split(RowSplit(0.25)), split(RowSplit(0.25, validation_fraction=0.2))
    assert set(scored.test) < set(plain.train)
    assert not set(scored.train) & (set(scored.test) | set(plain.test))
    assert len(scored.test) == 6


def test_a_client_without_a_row_of_a_part_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client 0 has no row to be scored on among its 40 rows; give it"):
        split(RowSplit(0.25), np.full(200, "train"))
    with pytest.raises(ConfigError, match=r"client 0 has no row to train on"):
        split(RowSplit(0.25), np.full(200, "test"))


def test_scarce_clients_lose_training_rows_only_and_more_of_them_hold_the_fewer() -> None:
    few, many = (scarce_clients(share, 10, np.random.default_rng(3)) for share in (0.2, 0.5))
    assert (len(few), len(many)) == (2, 5)
    assert few < many
    whole = split(RowSplit(0.25))
    scarce = thinned(whole, 0.2)
    assert len(scarce.train) == 6
    assert set(scarce.train) < set(whole.train)
    assert scarce.test is whole.test


def test_a_quarter_of_the_clients_each_sees_images_turned_alike() -> None:
    assert Counter(quarter_turns(12, np.random.default_rng(0))) == {0: 3, 1: 3, 2: 3, 3: 3}
    assert quarter_turns(12, np.random.default_rng(0)) != quarter_turns(12, np.random.default_rng(1))
