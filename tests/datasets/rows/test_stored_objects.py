"""Pickled arrays of others: plain ones come out, and whatever else a file asks for is not done."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sheafedge.datasets.rows.stored_objects import stored_objects
from sheafedge.emulator.contracts import DataError


class Calls:
    """Asks its reader to call a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._called = function, arguments

    def __reduce__(self) -> Any:
        return self._called


def touch(path: str) -> None:
    Path(path).touch()


def text(value: str) -> bytes:
    return b"U" + bytes([len(value)]) + value.encode("latin1")


def old_array(values: np.ndarray[Any, Any], shape: tuple[int, ...] | None = None) -> bytes:
    """Instructions of an array as NumPy of Python 2 wrote them."""
    kind = values.dtype.str[1:]
    sizes = b"".join(b"J" + struct.pack("<i", size) for size in shape or values.shape)
    data = values.tobytes()
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R(K\x01(" + sizes + b"t"
        b"cnumpy\ndtype\n"
        + text(kind)
        + b"K\x00K\x01\x87R(K\x03"
        + text("<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    )


def old_rows(rows: csr_matrix, shape: tuple[int, int] | None = None) -> bytes:
    """Instructions of compressed rows as SciPy of Python 2 wrote them."""
    parts = b"".join(text(name) + old_array(getattr(rows, name)) for name in ("indptr", "indices", "data"))
    n_rows, n_columns = shape or rows.shape
    size = b"J" + struct.pack("<i", n_rows) + b"J" + struct.pack("<i", n_columns) + b"\x86"
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + text("_shape") + size + parts + b"ub"


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("dtype", ["<i4", "<f8", "<f4", "|u1"])
def test_arrays_come_out_as_they_were(dtype: str, tmp_path: Path) -> None:
    values = np.arange(12).reshape(3, 4).astype(dtype)
    found = stored_objects(written(tmp_path / "a", b"\x80\x02" + old_array(values) + b"."))
    assert_array_equal(found, values)
    assert found.dtype == values.dtype


def test_compressed_rows_become_dense(tmp_path: Path) -> None:
    dense = np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -3]], np.float32)
    rows = csr_matrix(dense)
    assert_array_equal(stored_objects(written(tmp_path / "a", b"\x80\x02" + old_rows(rows) + b".")), dense)


def test_lists_and_dictionaries_of_numbers_come_out(tmp_path: Path) -> None:
    graph = {0: [1, 2], 1: [0], 2: [300]}
    assert stored_objects(written(tmp_path / "a", pickle.dumps(graph, protocol=2))) == graph


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "attack",
    [
        lambda mark: Calls(touch, str(mark)),
        lambda mark: Calls(__import__("os").system, f"touch {mark}"),
        lambda mark: Calls(eval, f"open({str(mark)!r}, 'w')"),
        lambda mark: {0: [Calls(exec, f"open({str(mark)!r}, 'w')")]},
        lambda mark: Calls(getattr, Path(str(mark)), "touch"),
    ],
)
def test_what_would_be_executed_is_refused_and_is_not(attack: Any, protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    path = written(tmp_path / "a", pickle.dumps(attack(mark), protocol=protocol))
    with pytest.raises(DataError, match=r"nothing of it was executed: fetch the data again"):
        stored_objects(path)
    assert not mark.exists()


def test_the_attack_is_one(tmp_path: Path) -> None:
    """In the hands of pickle the same file does what is refused above."""
    mark = tmp_path / "executed"
    pickle.loads(pickle.dumps(Calls(touch, str(mark)), protocol=2))  # noqa: S301 - that it is harmful is the point
    assert mark.exists()


def test_known_names_are_never_called_with_what_a_file_gives(tmp_path: Path) -> None:
    for instructions in (
        b"cnumpy\ndtype\n" + text("O") + b"K\x00K\x01\x87R",
        b"cnumpy\ndtype\n" + text("O,O") + b"K\x00K\x01\x87R",
        b"cnumpy\nndarray\n(J\x00\x00\x00\x40t\x85R",
        b"cnumpy\nload\n",
        b"cnumpy.core.multiarray\nscalar\n",
    ):
        with pytest.raises(DataError, match="nothing of it was executed"):
            stored_objects(written(tmp_path / "a", b"\x80\x02" + instructions + b"."))


@pytest.mark.parametrize("shape", [(2**30, 2**30), (-1, 5), (7,)])
def test_shapes_that_the_bytes_do_not_fill_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fetch the data again"):
        stored_objects(written(tmp_path / "a", b"\x80\x02" + old_array(np.zeros(12), shape) + b"."))


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (2**20, 2**20), (3, 2**30)])
def test_compressed_rows_that_do_not_fit_their_shape_are_refused(shape: tuple[int, int], tmp_path: Path) -> None:
    rows = csr_matrix(np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -3]], np.float32))
    with pytest.raises(DataError, match=r"compressed rows that do not make|a column beyond"):
        stored_objects(written(tmp_path / "a", b"\x80\x02" + old_rows(rows, shape) + b"."))


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = b"\x80\x02" + old_rows(csr_matrix(np.eye(3, dtype=np.float32))) + b"."
    assert stored_objects(written(tmp_path / "a", whole)).shape == (3, 3)
    for end in range(len(whole)):
        with pytest.raises(DataError):
            stored_objects(written(tmp_path / "a", whole[:end]))


def test_files_with_random_bytes_in_them_are_read_or_refused(tmp_path: Path) -> None:
    whole = b"\x80\x02" + old_rows(csr_matrix(np.eye(3, dtype=np.float32))) + b"."
    draws, refused = np.random.default_rng(0), 0
    for _ in range(500):
        broken = bytearray(whole)
        broken[draws.integers(len(whole))] = draws.integers(256)
        try:
            stored_objects(written(tmp_path / "a", bytes(broken)))
        except DataError:
            refused += 1
    assert refused > 100


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere cannot be read .*; fetch the data again"):
        stored_objects(tmp_path / "nowhere")
