"""Figures of many clients as columns: one HDF5 file per round, which is whole or not there.

A line of JSON per client and round is read at sight, and takes most of the time and room of a run with very many
clients. A file per round needs no writing in place, which a kill would damage: what a killed run loses is its last
round, and a resumed one removes the files of the rounds that it plays again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ...emulator.whole_file import replacing

#: Folder of the files in a run folder.
COLUMNS = "metrics"
#: Version of the files; those of another cannot be read.
FORMAT = 1
#: Tables of a row that become columns, and how deep they are; figures of a table are named "models.fused.accuracy".
TABLES = {"models": 2, "train_models": 2, "held_out_loss": 1, "train_loss": 1}
#: What a column holds where a row has no such figure; of floats it is NaN.
NO_COUNT, NO_FLAG = np.iinfo(np.int64).min, -1
#: JSON text in bytes: row -> its figures that are no numbers, or tables of neighbors.
REST = "rest"
#: Most columns of a file and bytes of a column that are read: far above what any run writes.
MOST_COLUMNS, MOST_BYTES = 4096, 1 << 28

_NAME = re.compile(r"round-(\d{6,})(-resting)?\.h5")

Column = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.int8]


def write_columns(folder: Path, round_index: int, rows: Sequence[Mapping[str, Any]], *, resting: bool = False) -> Path:
    """Write the rows of a round, in this order.

    Args:
        folder: of the columns.
        round_index: of all rows.
        rows: as they would be in `metrics.jsonl`.
        resting: whether they are of the nodes that took no part in the round, and were observed after it.

    Raises:
        OSError: no room, or no right to write; the file is then not there.
    """
    flat = [dict(_figures(row)) for row in rows]
    names = dict.fromkeys(name for figures in flat for name in figures)
    groups = list(dict.fromkeys(str(row["group"]) for row in rows))
    rest = {index: left for index, row in enumerate(rows) if (left := _rest(row))}
    path = folder / f"round-{round_index:06d}{'-resting' if resting else ''}.h5"
    with replacing(path) as partial, h5py.File(partial, "w", track_order=True) as file:
        file.attrs.update({"format": FORMAT, "round": round_index, "groups": json.dumps(groups)})
        file["group"] = np.array([groups.index(str(row["group"])) for row in rows], dtype=np.int64)
        for name in names:
            file[name] = _column([figures.get(name) for figures in flat])
        if rest:
            file[REST] = np.frombuffer(json.dumps(rest).encode(), dtype=np.uint8)
    return path


def read_columns(path: Path) -> dict[str, Any]:
    """Columns of one file: name -> [n] values; "group" as texts, and under "rest" what was no number, by row.

    Raises:
        ValueError, OSError, KeyError: it is no such file, or damaged.
    """
    with h5py.File(path, "r") as file:
        if len(file) > MOST_COLUMNS or file.attrs.get("format") != FORMAT:
            raise ValueError(f"{path.name} holds no columns of format {FORMAT}")
        found: dict[str, Any] = {name: _stored(file, name) for name in file}
        groups = json.loads(file.attrs["groups"])
    rest = found.pop(REST, None)
    if len({len(values) for values in found.values()}) != 1:
        raise ValueError(f"{path.name} has columns of several lengths")
    found["group"] = [str(groups[index]) for index in found["group"]]
    found[REST] = {} if rest is None else json.loads(rest.tobytes())
    return found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of one file, as they were written; errors as of `read_columns`."""
    columns = read_columns(path)
    rest = columns.pop(REST)
    listed = {name: values if name == "group" else _values(values) for name, values in columns.items()}
    first = ["round", "client", "group"]
    order = [*(name for name in first if name in listed), *(name for name in listed if name not in first)]
    rows: list[dict[str, Any]] = []
    for index in range(len(listed["client"])):
        row: dict[str, Any] = {}
        for name in order:
            if (value := listed[name][index]) is not None:
                _put(row, name, value)
        for name, value in rest.get(str(index), {}).items():
            _put(row, name, value)
        rows.append(row)
    return rows


def column_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Files of a folder of columns in the order of rounds, each with its round."""
    found = [(match, path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return ((int(match[1]), path) for match, path in sorted(found, key=lambda one: (int(one[0][1]), one[0][2] or "")))


def is_of_resting(path: Path) -> bool:
    """Whether a file has the nodes that took no part in the last round, and were observed after it."""
    return path.stem.endswith("-resting")


def drop_rounds(folder: Path, rounds_done: int) -> None:
    """Remove the files of all rounds but the first so many, and what was observed after the last."""
    for round_index, path in list(column_files(folder)):
        if round_index >= rounds_done or is_of_resting(path):
            path.unlink()
    for partial in folder.glob(".partial-*"):
        partial.unlink()


def _figures(row: Mapping[str, Any], prefix: str = "", depth: int | None = None) -> Iterator[tuple[str, float]]:
    """Figures of a row that are numbers, under their names as columns."""
    for name, value in row.items():
        if isinstance(value, bool | int | float):
            yield f"{prefix}{name}", value
        elif isinstance(value, Mapping):
            left = TABLES.get(name, 0) if depth is None else depth
            if left > 0:
                yield from _figures(value, f"{prefix}{name}.", left - 1)


def _rest(row: Mapping[str, Any], prefix: str = "", depth: int | None = None) -> dict[str, Any]:
    """What is no number: undefined scores, texts, tables of neighbors, and empty tables."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        left = TABLES.get(name, 0) if depth is None else depth
        if isinstance(value, Mapping) and left > 0 and value:
            found |= _rest(value, f"{prefix}{name}.", left - 1)
        elif not isinstance(value, bool | int | float) and f"{prefix}{name}" != "group":
            found[f"{prefix}{name}"] = value
    return found


def _put(row: dict[str, Any], name: str, value: Any) -> None:
    table, _, below = name.partition(".")
    if below and table in TABLES:
        *models, last = below.split(".", TABLES[table] - 1)
        for part in (table, *models):
            row = row.setdefault(part, {})
        name = last
    row[name] = value


def _column(values: Sequence[float | None]) -> Column:
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known):
        return np.array([NO_FLAG if value is None else int(value) for value in values], dtype=np.int8)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return np.array([NO_COUNT if value is None else value for value in values], dtype=np.int64)
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _values(column: Column) -> list[Any]:
    if column.dtype == np.int8:
        return [None if value == NO_FLAG else bool(value) for value in column.tolist()]
    if column.dtype == np.int64:
        return [None if value == NO_COUNT else value for value in column.tolist()]
    return [None if value != value else value for value in column.tolist()]  # noqa: PLR0124 - NaN alone differs from itself


def _stored(file: h5py.File, name: str) -> Column:
    """A column that lies in this file as it was written: no link elsewhere, no filter, no other file."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise ValueError(f"{name[:40]!r} is no column")
    column = file[name]
    properties = column.id.get_create_plist()
    is_plain = properties.get_layout() == h5py.h5d.CONTIGUOUS and properties.get_external_count() == 0
    kinds = {np.dtype(np.uint8)} if name == REST else {np.dtype(kind) for kind in (np.int8, np.int64, np.float64)}
    if not is_plain or column.ndim != 1 or column.dtype not in kinds or column.nbytes > MOST_BYTES:
        raise ValueError(f"{name[:40]!r} is no column")
    values: Column = column[()]
    return values
