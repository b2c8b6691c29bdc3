"""Own data of a user: a NumPy archive of plain arrays, or a CSV file with a header line."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown
from ..array_files import UNREADABLE_ARRAY, read_array
from ..data_folder import listed
from .federated_rows import FederatedRows, RowColumns, RowRequest
from .row_values import classes_of, edges_of, owners_of, parts_of, row_inputs, same_length, values_of

#: Array of a `.npz` file that makes its rows the nodes of a graph.
EDGES = "edge_index"
#: Of one array, and of a CSV file; larger data do not fit the memory of a laptop.
MOST_BYTES = 1 << 32
_DEFAULT = RowColumns()


def file_rows(request: RowRequest) -> FederatedRows:
    """Rows of a `.npz` or `.csv` file.

    Raises:
        DataError: the file is missing, damaged or of another format, or holds impossible values.
        ConfigError: it lacks a named array or column.
    """
    assert request.root is not None, "a rule of the scenario"
    path = request.root
    readers = {".npz": _archive, ".csv": _table}
    if path.suffix.lower() not in readers:
        raise DataError(f"data.root = {shown(path)} must be a .npz or a .csv file; save arrays with numpy.savez")
    found = readers[path.suffix.lower()](path, request.columns)
    where, columns = shown(path), request.columns
    x = row_inputs(f"{where}: {columns.x[0] if len(columns.x) == 1 else 'x'}", found["x"])
    same_length(where, len(x), **{name: found.get(name) for name in ("y", "owner", "split")})
    of_y = f"{where}: {columns.y}"
    y, class_names = classes_of(of_y, found["y"]) if request.classes else (values_of(of_y, found["y"]), ())
    owner, owner_names = owners_of(f"{where}: {columns.owner}", found["owner"]) if "owner" in found else (None, ())
    split = parts_of(f"{where}: {columns.split}", found["split"]) if "split" in found else None
    edges = edges_of(f"{where}: {EDGES}", found[EDGES], x) if EDGES in found else None
    return FederatedRows(path.stem, x, y, class_names, owner, owner_names, split, edges)


def _archive(path: Path, columns: RowColumns) -> dict[str, NDArray[Any]]:
    """Array of each of x, y, owner, split and edge_index that a NumPy archive has."""
    if len(columns.x) > 1:
        raise ConfigError(
            f"data.columns.x names {len(columns.x)} arrays, but inputs are one array [rows, ...] in a .npz file; name"
            " one, or give a .csv file"
        )
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            wanted = {**_wanted(path, columns, columns.x or ("x",), list(members), "array")}
            wanted |= {EDGES: EDGES} if EDGES in members else {}
            return {name: _member(archive, members[key], path) for name, key in wanted.items()}
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{shown(path)} cannot be read as a .npz file ({reason(error)}); save it again") from None


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with archive.open(name) as stream:
        try:
            return read_array(stream, "biufU", None, MOST_BYTES)
        except (*UNREADABLE_ARRAY, zipfile.BadZipFile) as error:
            raise DataError(
                f"{shown(path)}: {name.removesuffix('.npy')} cannot be read ({reason(error)}); it must be a plain array"
                " of numbers or texts, not of objects"
            ) from None


def csv_lines(path: Path) -> list[list[str]]:
    """Cells of every line of a CSV file that is not empty.

    Raises:
        DataError: the file is missing, too large, or no UTF-8.
    """
    try:
        with open_regular(path, MOST_BYTES) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
            return [line for line in csv.reader(text) if line]
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise DataError(f"{shown(path)} cannot be read as a .csv file ({reason(error)}); save it as UTF-8") from None


def _table(path: Path, columns: RowColumns) -> dict[str, NDArray[Any]]:
    """Columns of a CSV file, the inputs side by side."""
    lines = csv_lines(path)
    if len(lines) < 2:
        raise DataError(f"{shown(path)} must hold a line of column names and rows below it, got {len(lines)} line(s)")
    header, cells = [name.strip() for name in lines[0]], lines[1:]
    uneven = next((at for at, line in enumerate(cells) if len(line) != len(header)), None)
    if uneven is not None:
        raise DataError(
            f"{shown(path)}: row {uneven} has {len(cells[uneven])} cells, but there are {len(header)} column names;"
            " give every row one cell per column"
        )
    if len(set(header)) < len(header):
        again = next(name for at, name in enumerate(header) if name in header[:at])
        raise DataError(f"{shown(path)} has two columns named {quoted(again)}; give each its own name")
    others = {columns.y, columns.owner, columns.split}
    inputs = columns.x or tuple(name for name in header if name not in others)
    if not inputs:
        raise DataError(f"{shown(path)} has no column beside {', '.join(header)}; give at least one input column")
    if twice := others.intersection(columns.x):
        raise ConfigError(f"data.columns.x names {quoted(min(twice))}, which is no input; leave it out")
    place = {name: at for at, name in enumerate(header)}
    wanted = _wanted(path, columns, inputs, header, "column")
    found = {
        name: _guessed(path, key, [line[place[key]].strip() for line in cells])
        for name, key in wanted.items()
        if name != "x"
    }
    numbers = [_numeric(path, name, [line[place[name]].strip() for line in cells]) for name in inputs]
    return {**found, "x": np.column_stack(numbers)}


def _wanted(
    path: Path, columns: RowColumns, inputs: Sequence[str], there: Sequence[str], what: str
) -> Mapping[str, str]:
    """Name among x, y, owner and split -> name in the file.

    Raises:
        ConfigError: the file lacks one of them; owner and split may lack where nobody has named them.
    """
    wanted = {"x": inputs[0], "y": columns.y, "owner": columns.owner, "split": columns.split}
    for name in ("owner", "split"):
        if wanted[name] not in there and wanted[name] == getattr(_DEFAULT, name):
            del wanted[name]
    for name, key in (*wanted.items(), *(("x", one) for one in inputs)):
        if key not in there:
            raise ConfigError(
                f"{shown(path)} has no {what} {quoted(key)}, only {listed(there) or 'none'}; rename it there, or name"
                f" another with data.columns.{name}"
            )
    return wanted


def _guessed(path: Path, name: str, cells: Sequence[str]) -> NDArray[Any]:
    """Cells as numbers where all of them are, else as texts."""
    if "" in cells:
        raise DataError(
            f"{shown(path)}: column {quoted(name)} is empty in row {cells.index('')}; fill it in, or leave the row out"
        )
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return np.array(cells, dtype=np.str_)


def _numeric(path: Path, name: str, cells: Sequence[str]) -> NDArray[np.float64]:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        row = next(at for at, cell in enumerate(cells) if not _is_number(cell))
        raise DataError(
            f"{shown(path)}: column {quoted(name)} must hold numbers, got {quoted(cells[row])} in row {row}; fill it"
            " in, leave the row out, or leave the column out of data.columns.x"
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
