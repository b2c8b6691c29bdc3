"""Arrays out of Python's pickled files, read without running any of what they ask for.

Some research data are published as pickles of Python 2 only. A pickle is a program: its reader imports and calls
whatever the file names. This one walks over the instructions and builds lists, dictionaries, numbers, texts, NumPy
arrays and SciPy's compressed rows of them; it looks nothing up and calls nothing, and refuses all other instructions.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, read_regular, reason, shown

#: Of one file: instructions are read one by one.
MOST_BYTES = 1 << 26
#: Of a dense array made of compressed rows.
MOST_VALUES = 1 << 28

#: Names that may stand in a file -> what they stand for here.
_KNOWN = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy ndarray": "array type",
    "numpy dtype": "dtype",
    "scipy.sparse.csr csr_matrix": "rows",
    "scipy.sparse._csr csr_matrix": "rows",
    "collections defaultdict": "dict",
    "__builtin__ list": "list",
    "builtins list": "list",
}
#: Kinds and sizes of numbers.
_NUMBERS = frozenset(f"{kind}{size}" for kind in "iuf" for size in (1, 2, 4, 8)) - {"f1"}


class _RefusedError(Exception):
    """The file asks for what is not built; the text is a part of a sentence."""


class _Name(NamedTuple):
    stands_for: str


class _Mark:
    """Where a list or tuple of unknown length begins."""


class _Made:
    """An object whose content follows in a later instruction.

    Args:
        kind: "array", "dtype" or "rows".
        content: what is known so far.
    """

    def __init__(self, kind: str, content: Any = None) -> None:
        self.kind, self.content = kind, content


def stored_objects(path: Path) -> Any:
    """Content of a pickled file: lists, dictionaries, tuples, numbers, texts and arrays; compressed rows become dense.

    Raises:
        DataError: the file is missing, damaged or too large, or asks for anything else; nothing of it was executed.
    """
    try:
        return _plain(_Machine().run(read_regular(path, MOST_BYTES)))
    except _RefusedError as error:
        raise DataError(f"{shown(path)} {error}; nothing of it was executed: fetch the data again") from None
    except (OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{shown(path)} cannot be read as arrays of Python 2 ({reason(error)}); fetch the data again"
        ) from None


class _Machine:
    """The stack on which instructions work."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """What the last instruction leaves."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in names, which are refused anyway
            for code, argument, _ in pickletools.genops(content):
                if code.name == "STOP":
                    return self._stack.pop()
                self._obey(code.name, argument)
        raise ValueError("it ends early")

    def _obey(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _ARGUMENTS:
            stack.append(argument)
        elif name in {"BINPUT", "LONG_BINPUT"}:
            self._memo[argument] = stack[-1]
        elif name in {"BINGET", "LONG_BINGET"}:
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            if argument not in _KNOWN:
                raise _RefusedError(f"asks for {quoted(argument)}, and only plain arrays are read")
            stack.append(_Name(_KNOWN[argument]))
        elif name in _TUPLES:
            stack[len(stack) - _TUPLES[name] :] = [tuple(stack[len(stack) - _TUPLES[name] :])]
        elif name in _STEPS:
            _STEPS[name](self)
        elif name != "PROTO":
            raise _RefusedError(f"holds the instruction {name}, which arrays do not need")

    def _since_mark(self) -> list[Any]:
        """Take what lies above the last mark, and the mark."""
        marks = (place for place in range(len(self._stack) - 1, -1, -1) if isinstance(self._stack[place], _Mark))
        at = next(marks, None)
        if at is None:
            raise ValueError("a list has no beginning")
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def tuple_of_many(self) -> None:
        self._stack.append(tuple(self._since_mark()))

    def append(self) -> None:
        value = self._stack.pop()
        _as(list, self._stack[-1]).append(value)

    def append_many(self) -> None:
        values = self._since_mark()
        _as(list, self._stack[-1]).extend(values)

    def set_many(self) -> None:
        values = self._since_mark()
        _as(dict, self._stack[-1]).update(zip(values[::2], values[1::2], strict=True))

    def make(self) -> None:
        """Make an empty object of a known kind."""
        arguments = _as(tuple, self._stack.pop())
        kind = _as(_Name, self._stack.pop()).stands_for
        if kind == "dtype":
            name = str(arguments[0])
            if name not in _NUMBERS:
                raise _RefusedError(f"holds an array of type {quoted(name)}, and only numbers are read")
            self._stack.append(_Made("dtype", np.dtype(name)))
        elif kind in {"array", "rows"}:
            self._stack.append(_Made(kind))
        elif kind in {"dict", "list"}:
            self._stack.append({} if kind == "dict" else [])
        else:
            raise _RefusedError("calls what is no function of arrays")

    def fill(self) -> None:
        """Give the object below its content."""
        state = self._stack.pop()
        made = _as(_Made, self._stack[-1])
        if made.kind == "dtype":
            made.content = made.content.newbyteorder(state[1])
        elif made.kind == "array":
            made.content = _array(*state[1:])
        else:
            made.content = _as(dict, state)


_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": _Mark,
}
_ARGUMENTS = frozenset({"BININT", "BININT1", "BININT2", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_STEPS: Mapping[str, Callable[[_Machine], None]] = {
    "TUPLE": _Machine.tuple_of_many,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.append_many,
    "SETITEMS": _Machine.set_many,
    "REDUCE": _Machine.make,
    "NEWOBJ": _Machine.make,
    "BUILD": _Machine.fill,
}


def _as(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _RefusedError("is no list of arrays")
    return value


def _array(shape: Any, dtype: Any, fortran: Any, data: Any) -> NDArray[Any]:
    """Array of the bytes that stand in the file: as large as these, whatever the shape claims."""
    values = np.frombuffer(_as(str, data).encode("latin1"), _as(_Made, dtype).content)
    return values.reshape(_as(tuple, shape), order="F" if fortran else "C")


def _plain(value: Any) -> Any:
    """Objects that are complete: arrays as they are, compressed rows as dense ones."""
    if not isinstance(value, _Made):
        return value
    if value.kind == "array":
        return _as(np.ndarray, value.content)
    if value.kind == "rows":
        return _dense(value.content)
    raise _RefusedError("is no array")


def _dense(parts: Any) -> NDArray[np.float32]:
    """[n_rows, n_columns] of SciPy's compressed rows, every number where its index says."""
    n_rows, n_columns = (int(size) for size in parts.get("_shape", parts.get("shape")))
    data, indices, starts = (_plain(parts[name]) for name in ("data", "indices", "indptr"))
    counts = np.diff(starts)
    fits = len(starts) == n_rows + 1 and len(data) == len(indices) == starts[-1] and starts[0] == 0
    if not fits or counts.min(initial=0) < 0 or not 0 < n_rows * n_columns <= MOST_VALUES:
        raise _RefusedError(f"holds compressed rows that do not make an array of shape [{n_rows}, {n_columns}]")
    if indices.min(initial=0) < 0 or indices.max(initial=0) >= n_columns:
        raise _RefusedError(f"holds a column beyond the {n_columns} of its array")
    dense = np.zeros((n_rows, n_columns), np.float32)
    dense[np.repeat(np.arange(n_rows), counts), indices] = data
    return dense
