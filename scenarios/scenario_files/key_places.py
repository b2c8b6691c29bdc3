"""Lines of the keys of a TOML text, which Python's parser does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Values over more lines than this get no line: finding their end takes time that grows with the square.
_MOST_LINES = 200


def key_lines(text: str) -> dict[str, int]:
    """Dotted key -> number of its line, from 1 on; items of lists are numbered, as in clients.groups.0.share.

    Args:
        text: valid TOML. Where a value is too long to be followed, the rest of the text has no lines.
    """
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for number, statement in _statements(text):
        if statement.startswith("["):
            table = _opened(statement, counts)
            found.setdefault(table.rpartition(".")[0] if table.rpartition(".")[2] == "0" else table, number)
            found.setdefault(table, number)
        else:
            for key in _keys(tomllib.loads(statement), table):
                found.setdefault(key, number)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and assignments with the numbers of their first lines; comments and blank lines are left out."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        if not (start := lines[index].strip()) or start.startswith("#"):
            index += 1
            continue
        for end in range(index + 1, min(index + _MOST_LINES, len(lines)) + 1):
            statement = "\n".join(lines[index:end]).strip()
            if _is_whole(statement):
                break
        else:
            return
        yield index + 1, statement
        index = end


def _is_whole(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except (ValueError, RecursionError):
        return False
    return True


def _opened(header: str, counts: dict[str, int]) -> str:
    """Dotted name of the table that a header opens, items of lists numbered; counts the items."""
    tables: Any = tomllib.loads(header)
    name = ""
    while isinstance(tables, dict) and tables:
        (key, tables), *_ = tables.items()
        name = f"{name}.{key}".removeprefix(".")
        if isinstance(tables, list):
            counts[name] = counts.get(name, -1) + 1
            tables = tables[0]
        if name in counts:
            name = f"{name}.{counts[name]}"
    return name


def _keys(value: Any, where: str) -> Iterator[str]:
    """Dotted names of everything inside a value."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = tuple(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = tuple(enumerate(value))
    for key, inner in items:
        name = f"{where}.{key}".removeprefix(".")
        yield name
        yield from _keys(inner, name)
