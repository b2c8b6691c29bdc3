"""What a reader of somebody's own returns: as `FederatedRows` says, or refused with the name of the array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sheafedge.datasets.rows.federated_rows import FederatedRows
from sheafedge.datasets.rows.row_values import checked_rows
from sheafedge.emulator.contracts import DataError

CLASSES = FederatedRows(
    "mine",
    np.arange(12, dtype=np.float32).reshape(4, 3),
    np.array([0, 1, 1, 0]),
    ("no", "yes"),
    owner=np.array([0, 0, 1, 1]),
    owner_names=("a", "b"),
    split=np.array(["train", "test", "train", "test"]),
)
VALUES = replace(CLASSES, y=np.array([0.5, 1.0, 2.0, 4.0], dtype=np.float32), class_names=())


@pytest.mark.parametrize("rows", [CLASSES, VALUES], ids=["classes", "values"])
def test_right_rows_stay_as_they_are(rows: FederatedRows) -> None:
    checked = checked_rows(rows, "mine")
    assert (checked.x.dtype, checked.y.dtype) == (rows.x.dtype, rows.y.dtype)
    np.testing.assert_array_equal(checked.x, rows.x)
    np.testing.assert_array_equal(checked.y, rows.y)


def test_numbers_of_other_types_are_converted() -> None:
    checked = checked_rows(replace(VALUES, x=VALUES.x.astype(np.float64), y=np.array([1, 2, 3, 4])), "mine")
    assert (checked.x.dtype, checked.y.dtype) == (np.float32, np.float32)
    assert checked_rows(replace(CLASSES, y=CLASSES.y.astype(np.uint8)), "mine").y.dtype == np.int64


BROKEN: dict[str, tuple[object, str]] = {
    "a table": ({"x": 1}, "mine: its reader returned dict, not FederatedRows"),
    "texts": (replace(CLASSES, x=np.array([["a"]] * 4)), "mine: x must hold numbers"),
    "not a number": (replace(CLASSES, x=np.full((4, 3), np.nan)), "mine: x must hold finite numbers, got nan in row 0"),
    "a row less": (replace(CLASSES, y=CLASSES.y[:3]), "mine: y has 3 rows, but x has 4"),
    "a class without a name": (
        replace(CLASSES, y=np.array([0, 1, 2, 0])),
        "mine: y must count from 0 into 2 class_names, got 2",
    ),
    "a class below 0": (replace(CLASSES, y=np.array([0, -1, 1, 0])), "mine: y must count from 0 into 2 class_n"),
    "half a class": (replace(CLASSES, y=np.array([0, 0.5, 1, 0])), "mine: y must hold whole numbers from 0"),
    "one value": (replace(VALUES, y=np.ones(4, dtype=np.float32)), "mine: y holds 1 in every row"),
    "an owner without a name": (replace(CLASSES, owner=np.array([0, 1, 2, 0])), "mine: owner must count from 0 into 2"),
    "owners of some rows": (replace(CLASSES, owner=np.array([0, 1])), "mine: owner has 2 rows, but x has 4"),
    "a part that is none": (replace(CLASSES, split=np.array(["left"] * 4)), "mine: split must say one of train, valid"),
}


@pytest.mark.parametrize("why", BROKEN)
def test_what_no_client_could_learn_from_is_refused(why: str) -> None:
    rows, sentence = BROKEN[why]
    made: Any = rows
    with pytest.raises(DataError) as caught:
        checked_rows(made, "mine")
    assert str(caught.value).startswith(sentence)
