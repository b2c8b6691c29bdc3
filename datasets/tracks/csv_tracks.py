"""Reader of tracks of one's own: a table with a row per vehicle or person and instant."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown
from .track_table import MOST_M, MOST_S, TrackCollector, TrackTable, TrackWindow, parsed_number

COLUMNS = ("time_s", "id", "kind", "x_m", "y_m", "heading_deg")
#: May lack, and is not used: positions have it.
_OPTIONAL = ("speed",)
LONGEST_LINE = 10_000


def read_track_csv(path: Path, window: TrackWindow) -> TrackTable:
    """Tracks of a table with the columns `COLUMNS`, in any order of rows; places are centers.

    Args:
        path: path of the file, UTF-8, with a heading.
        window: what is kept of it.

    Raises:
        DataError: the file cannot be read, a column is missing or unknown, or a row lacks a number.
    """
    collector = TrackCollector(path, window)
    try:
        with open_regular(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            _collect(path, _bounded(path, text), collector)
    except FileNotFoundError:
        raise DataError(f"no tracks at {shown(path)}; give world.tracks.file the path of a file") from None
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read ({reason(error)}); give a table of tracks") from None
    except UnicodeDecodeError:
        raise DataError(f"{shown(path)} is no UTF-8 text; save the table in that encoding") from None
    except csv.Error as error:
        raise DataError(f"{shown(path)} is no table of comma-separated values ({reason(error)})") from None
    return collector.table("center")


def _bounded(path: Path, text: TextIOWrapper) -> Iterator[str]:
    """Lines, none of which fills the memory."""
    number = 0
    while line := text.readline(LONGEST_LINE):
        number += 1
        if len(line) >= LONGEST_LINE:
            raise DataError(f"{shown(path)}:{number}: the line has over {LONGEST_LINE} characters; it is no table")
        yield line


def _collect(path: Path, lines: Iterator[str], collector: TrackCollector) -> None:
    rows = csv.reader(lines)
    header = [name.strip() for name in next(rows, [])]
    missing = [name for name in COLUMNS if name not in header]
    unknown = [name for name in header if name not in (*COLUMNS, *_OPTIONAL)]
    if missing or unknown or len(set(header)) < len(header):
        complaint = f"no column {missing[0]!r}" if missing else f"a column {quoted((unknown or header)[0])} too many"
        raise DataError(f"{shown(path)}:1: the table has {complaint}; its columns are {', '.join(COLUMNS)} and speed")
    at = {name: header.index(name) for name in COLUMNS}
    for row in rows:
        if not row:
            continue
        where = f"{shown(path)}:{rows.line_num}"
        if len(row) != len(header):
            raise DataError(f"{where}: the row has {len(row)} cells, the heading {len(header)}")
        cells = {name: row[index].strip() for name, index in at.items()}
        if not cells["id"] or not cells["kind"]:
            raise DataError(f"{where}: the row has no id or no kind; give both")
        collector.add(
            rows.line_num,
            cells["id"],
            cells["kind"],
            False,
            parsed_number(where, "time_s", cells["time_s"], MOST_S),
            parsed_number(where, "x_m", cells["x_m"], MOST_M),
            parsed_number(where, "y_m", cells["y_m"], MOST_M),
            parsed_number(where, "heading_deg", cells["heading_deg"], 1e4),
        )
