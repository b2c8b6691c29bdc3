"""Files that keep what runs came to: a line per row, a column per field of a dataclass, written whole and in order."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from sheafedge.emulator.whole_file import write_whole

#: Significant digits of what is kept.
DIGITS = 6
Kept = TypeVar("Kept")
_PARSERS: Mapping[type, Any] = {bool: lambda text: text == "yes", int: int, float: float, str: str}


def read_rows(path: Path, kind: type[Kept]) -> list[Kept]:
    """Rows of a file; none where there is no file yet.

    Args:
        path: of the file.
        kind: a dataclass of texts, numbers and truth values.
    """
    if not path.exists():
        return []
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(**{name: _PARSERS[types[name]](text) for name, text in row.items()}) for row in csv.DictReader(file)
        ]


def write_rows(path: Path, kind: Any, rows: Iterable[Any]) -> None:
    """Write rows in this order, so that versions of the file can be compared line by line; its folder is made."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([field.name for field in fields(kind)])
    lines.writerows([_cell(value) for value in astuple(row)] for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue())


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value
