"""Rows that are kept aside for a while: not seen before they are released, in their place afterwards."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.models.training.training_rows import PartlyPrivateRows, RowsInMemory


def rows(first: int, n: int) -> RowsInMemory:
    """Every number of a row tells which it is."""
    numbers = np.arange(first, first + n)
    return RowsInMemory(
        {"rf": np.repeat(numbers[:, None], 3, axis=1).astype(np.float32), "gps": numbers[:, None].astype(np.float32)},
        numbers,
    )


def test_before_the_release_the_private_rows_are_not_there() -> None:
    partly = PartlyPrivateRows(rows(0, 5), rows(5, 3))
    assert_array_equal(partly.label, np.arange(5))
    assert_array_equal(partly.inputs(np.arange(5))["gps"][:, 0], np.arange(5))
    assert_array_equal(partly.private.label, [5, 6, 7])


@given(order=st.lists(st.integers(0, 7), min_size=1, max_size=20))
def test_afterwards_any_batch_holds_the_rows_that_were_asked_for_in_that_order(order: list[int]) -> None:
    partly = PartlyPrivateRows(rows(0, 5), rows(5, 3))
    partly.release()
    assert_array_equal(partly.label, np.arange(8))
    found = partly.inputs(np.array(order))
    assert_array_equal(found["gps"][:, 0], order)
    assert_array_equal(found["rf"], np.repeat(np.array(order)[:, None], 3, axis=1))
    assert_array_equal(partly.label[order], found["gps"][:, 0])
