"""Own data: what a user's file may hold, and one sentence for everything that it may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.rows.federated_rows import FederatedRows, RowColumns, RowRequest
from sheafedge.datasets.rows.file_rows import file_rows
from sheafedge.emulator.contracts import SheafedgeError

X = np.arange(12.0).reshape(6, 2)
Y = np.array([3, 7, 3, 7, 9, 9])
Save = Callable[..., Path]


@pytest.fixture
def saved(tmp_path: Path) -> Save:
    def save(**arrays: Any) -> Path:
        np.savez(tmp_path / "mine.npz", **arrays)
        return tmp_path / "mine.npz"

    return save


def read(path: Path, *, classes: bool = True, **columns: Any) -> FederatedRows:
    return file_rows(RowRequest(path, classes, RowColumns(**columns)))


def table(folder: Path, *lines: str) -> Path:
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


def test_an_archive_of_arrays_is_read_with_classes_and_owners_numbered_from_zero(saved: Save) -> None:
    split = np.array(["train", "test", "train", "validation", "train", "test"])
    rows = read(saved(x=X, y=Y, owner=np.array(["b", "a", "b", "a", "b", "a"]), split=split))
    assert_array_equal(rows.x, X)
    assert rows.x.dtype == np.float32
    assert_array_equal(rows.y, [0, 1, 0, 1, 2, 2])
    assert rows.y.dtype == np.int64
    assert (rows.name, rows.class_names, rows.owner_names) == ("mine", ("3", "7", "9"), ("a", "b"))
    assert_array_equal(rows.owner, [1, 0, 1, 0, 1, 0])
    assert_array_equal(rows.split, split)


def test_owners_and_parts_may_lack_and_values_stay_values(saved: Save) -> None:
    rows = read(saved(x=X, y=Y / 2), classes=False)
    assert (rows.owner, rows.split, rows.class_names) == (None, None, ())
    assert rows.y.dtype == np.float32
    assert_array_equal(rows.y, Y / 2)


def test_images_stay_images_and_bytes_stay_bytes(saved: Save) -> None:
    rows = read(saved(x=np.zeros((6, 3, 4, 5), dtype=np.uint8), y=Y))
    assert rows.has_images
    assert rows.x.dtype == np.uint8


def test_a_table_takes_every_column_that_is_named_nothing_else(tmp_path: Path) -> None:
    path = table(tmp_path, "age, kind ,who,height", "1,cat,p1,0.5", "2,dog,p2,1.5", "3,cat,p1,2.5")
    rows = read(path, y="kind", owner="who")
    assert_array_equal(rows.x, [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert (rows.class_names, rows.owner_names) == (("cat", "dog"), ("p1", "p2"))
    assert read(path, y="kind", owner="who", x=("height",)).x.tolist() == [[0.5], [1.5], [2.5]]


OBJECTS = np.array([1, "two", 3, 4, 5, 6], dtype=object)
NAN = np.where(X == 5.0, np.nan, X)

#: Arrays, and parts of the sentence.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": ({"x": X}, r"has no array 'y', only x; rename it there, or name another with data.columns.y"),
    "no inputs": ({"y": Y}, r"has no array 'x', only y"),
    "nan": ({"x": NAN, "y": Y}, r"mine.npz: x must hold finite numbers, got nan in row 2, column 1; fill in"),
    "infinite as float32": ({"x": X * 1e300, "y": Y}, r"finite numbers, got 1e\+300 in row 0, column 1 and 10 more"),
    "texts": ({"x": np.full((6, 2), "a"), "y": Y}, r"x must hold numbers, got type <U1"),
    "objects": ({"x": X, "y": OBJECTS}, r"y cannot be read \(type object .*plain array of numbers or texts"),
    "one axis": ({"x": X[:, 0], "y": Y}, r"must have shape \[rows, columns\].* got \[6\]; one column is x.reshape"),
    "empty": ({"x": X[:0], "y": Y[:0]}, r"x is empty: its shape is \[0, 2\]"),
    "unequal": ({"x": X, "y": Y[:4]}, r"y has 4 rows, but x has 6"),
    "unequal owners": ({"x": X, "y": Y, "owner": Y[:3]}, r"owner has 3 rows, but x has 6"),
    "values": ({"x": X, "y": Y / 2}, r"y must hold classes .* got 1.5 in row 0; set task = 'regression'"),
    "missing label": ({"x": X, "y": np.where(Y == 9, np.nan, Y)}, r"y must hold finite numbers, got nan in row 4"),
    "one class": ({"x": X, "y": np.zeros(6)}, r"y holds 1 class; a classification has 2 to 1000"),
    "two columns of labels": ({"x": X, "y": X}, r"y must have shape \[rows\], one entry per row, got \[6, 2\]"),
    "half owners": ({"x": X, "y": Y, "owner": Y / 2}, r"owner must hold whole numbers or texts.*row 0 has 1.5"),
    "a part of its own": ({"x": X, "y": Y, "split": Y}, r"split must say one of train, validation, test .* got '3'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_in_an_archive_is_one_sentence(name: str, saved: Save) -> None:
    arrays, sentence = WRONG[name]
    with pytest.raises(SheafedgeError, match=sentence) as caught:
        read(saved(**arrays))
    assert "\n" not in str(caught.value)


def test_values_that_are_none_are_refused(saved: Save) -> None:
    with pytest.raises(SheafedgeError, match=r"y must hold numbers for task 'regression', got 'a'; set task"):
        read(saved(x=X, y=np.full(6, "a")), classes=False)
    with pytest.raises(SheafedgeError, match=r"y holds 3 in every row, so there is nothing to learn"):
        read(saved(x=X, y=np.full(6, 3)), classes=False)


WRONG_TABLES: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "unknown column": (("a,b", "1,2"), {"y": "label"}, r"has no column 'label', only a, b; rename it"),
    "unknown input": (("a,y", "1,2"), {"x": ("b",)}, r"has no column 'b', only a, y;.* data.columns.x"),
    "named owner": (("a,y", "1,2"), {"owner": "who"}, r"has no column 'who', only a, y;.* data.columns.owner"),
    "text": (("a,y", "1,2", "?,3"), {}, r"column 'a' must hold numbers, got '\?' in row 1; fill it in"),
    "empty label": (("a,y", "1,2", "3,"), {}, r"column 'y' is empty in row 1; fill it in"),
    "ragged": (("a,y", "1,2", "3"), {}, r"row 1 has 1 cells, but there are 2 column names"),
    "twice": (("a,a,y", "1,2,3"), {}, r"has two columns named 'a'"),
    "no rows": (("a,y",), {}, r"must hold a line of column names and rows below it"),
    "no inputs": (("y", "1"), {}, r"has no column beside y; give at least one input column"),
    "the label as input": (("a,y", "1,2"), {"x": ("a", "y")}, r"data.columns.x names 'y', which is no input"),
    "a missing number": (("a,y", "nan,1", "2,2"), {}, r"x must hold finite numbers, got nan in row 0, column 0"),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_every_mistake_in_a_table_is_one_sentence(name: str, tmp_path: Path) -> None:
    lines, columns, sentence = WRONG_TABLES[name]
    with pytest.raises(SheafedgeError, match=sentence) as caught:
        read(table(tmp_path, *lines), **columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not an archive", b"\x93NUMPY"])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(SheafedgeError, match=r"x.npz cannot be read as a .npz file"):
        read(tmp_path / "x.npz")


def test_other_files_are_refused_by_their_ending(tmp_path: Path) -> None:
    with pytest.raises(SheafedgeError, match=r"must be a .npz or a .csv file; save arrays with numpy.savez"):
        read(tmp_path / "mine.pkl")
    with pytest.raises(SheafedgeError, match=r"cannot be read as a .csv file"):
        read(tmp_path / "none.csv")


def test_several_input_arrays_are_refused(saved: Save) -> None:
    with pytest.raises(SheafedgeError, match=r"data.columns.x names 2 arrays, but inputs are one array"):
        read(saved(x=X, y=Y), x=("x", "z"))
