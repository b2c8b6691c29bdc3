"""Checks of arrays that somebody else made: inputs, classes, values, owners and parts of rows.

Every function takes `where`, which names the array in messages, such as "mine.npz: x".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError, Labels
from ...emulator.regular_file import quoted
from .federated_rows import PARTS, FederatedRows
from .graph_edges import Edges, symmetric_edges

#: More classes than this are values that were taken for classes.
MOST_CLASSES = 1000
#: Input axes: rows of a table, images, images with channels.
_AXES = (2, 3, 4)


def row_inputs(where: str, x: NDArray[Any]) -> NDArray[Any]:
    """Inputs as float32, or uint8 where they are that.

    Raises:
        DataError: no numbers, other axes, no rows or columns, or a value that is not finite.
    """
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where} must hold numbers, got type {x.dtype}; turn texts into numbers first")
    if x.ndim not in _AXES:
        raise DataError(
            f"{where} must have shape [rows, columns], [rows, height, width] or [rows, channels, height, width], got"
            f" {list(x.shape)}; one column is x.reshape(-1, 1)"
        )
    if 0 in x.shape:
        raise DataError(f"{where} is empty: its shape is {list(x.shape)}; give at least one row and one column")
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        inputs = x.astype(np.float32)
    _refuse_not_finite(where, inputs, x)
    return inputs


def classes_of(where: str, y: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class of every row [n] from 0, and the names of the classes: whole numbers or texts, in ascending order.

    Raises:
        DataError: values that are no classes, one class only, or too many.
    """
    values = _one_axis(where, y)
    if values.dtype.kind == "f":
        _refuse_not_finite(where, values, values)
        broken = np.flatnonzero(values != np.rint(values))
        if len(broken):
            raise DataError(
                f"{where} must hold classes for task 'classification', whole numbers or texts, got"
                f" {values[broken[0]]:g} in row {broken[0]}; set task = 'regression' for values"
            )
        values = values.astype(np.int64)
    known, classes = np.unique(values, return_inverse=True)
    if not 2 <= len(known) <= MOST_CLASSES:
        raise DataError(
            f"{where} holds {len(known)} class{'' if len(known) == 1 else 'es'}; a classification has 2 to"
            f" {MOST_CLASSES}, and values are for task 'regression'"
        )
    return classes.astype(np.int64), tuple(str(one) for one in known)


def values_of(where: str, y: NDArray[Any]) -> NDArray[np.float32]:
    """Value of every row [n].

    Raises:
        DataError: no numbers, or none that are finite, or all the same.
    """
    values = _one_axis(where, y)
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{where} must hold numbers for task 'regression', got {quoted(values[0])}; set task = 'classification' for"
            " classes"
        )
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    _refuse_not_finite(where, floats, values)
    if np.ptp(floats) == 0.0:
        raise DataError(f"{where} holds {floats[0]:g} in every row, so there is nothing to learn; give another column")
    return floats


def owners_of(where: str, owner: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Owner of every row [n] from 0, and the names of the owners: whole numbers or texts, in ascending order.

    Raises:
        DataError: anything else.
    """
    values = _one_axis(where, owner)
    if values.dtype.kind == "f":
        if not np.array_equal(values, np.rint(values)):  # NaN too
            raise DataError(f"{where} must hold whole numbers or texts, one per owner; {_first_broken(values)}")
        values = values.astype(np.int64)
    known, owners = np.unique(values, return_inverse=True)
    return owners.astype(np.int64), tuple(str(one) for one in known)


def parts_of(where: str, split: NDArray[Any]) -> NDArray[np.str_]:
    """Part of every row [n].

    Raises:
        DataError: other texts than `PARTS`.
    """
    values = _one_axis(where, split).astype(np.str_)
    strangers = np.setdiff1d(values, PARTS)
    if len(strangers):
        raise DataError(f"{where} must say one of {', '.join(PARTS)} for every row, got {quoted(strangers[0])}")
    return values


def edges_of(where: str, edges: NDArray[Any], x: NDArray[Any]) -> Edges:
    """Edges [2, n] of a graph whose nodes are the rows of x, in both directions, each once, without loops.

    Raises:
        DataError: another shape, no whole numbers, a node that there is not, or features that are no columns.
    """
    if x.ndim != 2:
        raise DataError(f"{where} needs x of shape [nodes, features], got {list(x.shape)}; leave one of them out")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise DataError(
            f"{where} must have shape [2, edges], got {list(edges.shape)}; use its transpose if it has two columns"
        )
    if edges.dtype.kind not in "iu":
        raise DataError(f"{where} must hold whole numbers, the rows of x that an edge joins, got type {edges.dtype}")
    outside = np.flatnonzero(((edges < 0) | (edges >= len(x))).any(axis=0))
    if len(outside):
        pair = edges[:, outside[0]].tolist()
        raise DataError(
            f"{where} joins {pair[0]} and {pair[1]} in column {outside[0]}, but the nodes are 0 to {len(x) - 1}; number"
            " them by the rows of x"
        )
    found = symmetric_edges(edges.astype(np.int64))
    if found.shape[1] == 0:
        raise DataError(f"{where} joins no two different nodes; give edges, or leave it out and take a table")
    return found


def same_length(name: str, n_rows: int, **columns: NDArray[Any] | None) -> None:
    """Refuse columns of another length than the inputs.

    Raises:
        DataError: naming the column.
    """
    for column, values in columns.items():
        if values is not None and len(values) != n_rows:
            raise DataError(
                f"{name}: {column} has {len(values)} rows, but x has {n_rows}; give one entry per row in both"
            )


def checked_rows(rows: object, where: str) -> FederatedRows:
    """What a reader returned, refused where it is not what `FederatedRows` says.

    Raises:
        DataError: naming the array.
    """
    if not isinstance(rows, FederatedRows):
        raise DataError(f"{where}: its reader returned {type(rows).__name__}, not FederatedRows")
    x = row_inputs(f"{where}: x", np.asarray(rows.x))
    same_length(where, len(x), y=rows.y, owner=rows.owner, split=rows.split)
    if rows.class_names:
        _check_numbers(f"{where}: y", rows.y, len(rows.class_names), "class_names")
    else:
        values_of(f"{where}: y", np.asarray(rows.y))
    if rows.owner is not None:
        _check_numbers(f"{where}: owner", rows.owner, len(rows.owner_names), "owner_names")
    split = None if rows.split is None else parts_of(f"{where}: split", rows.split)
    labels: Labels = rows.y.astype(np.int64) if rows.class_names else rows.y.astype(np.float32)
    edges = None if rows.edges is None else edges_of(f"{where}: edges", np.asarray(rows.edges), x)
    return replace(rows, x=x, y=labels, split=split, edges=edges)


def _check_numbers(where: str, values: NDArray[Any], n_names: int, names: str) -> None:
    """Refuse numbers that count from 0 into a list of names, where one is outside of it."""
    numbers = _one_axis(where, np.asarray(values))
    if numbers.dtype.kind not in "iu":
        raise DataError(f"{where} must hold whole numbers from 0, which count into {names}, got type {numbers.dtype}")
    if numbers.min() < 0 or numbers.max() >= n_names:
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise DataError(f"{where} must count from 0 into {n_names} {names}, got {wrong}")


def _one_axis(where: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{where} must have shape [rows], one entry per row, got {list(values.shape)}")
    if values.dtype.kind not in "biufU":
        raise DataError(f"{where} must hold numbers or texts, got type {values.dtype}")
    if len(values) == 0:
        raise DataError(f"{where} is empty; give at least one row")
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _refuse_not_finite(where: str, values: NDArray[Any], given: NDArray[Any]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        column = f", column {', '.join(map(str, at[1:]))}" if len(at) > 1 else ""
        n_others = int((~finite).sum()) - 1
        more = f" and {n_others} more entries" if n_others else ""
        raise DataError(
            f"{where} must hold finite numbers, got {given[at]} in row {at[0]}{column}{more}; fill in what is missing,"
            " or leave the rows out"
        )


def _first_broken(values: NDArray[Any]) -> str:
    row = int(np.argmax(~(values == np.rint(values))))
    return f"row {row} has {values[row]:g}"
