"""TOML of a scenario in which a comment behind every value says where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tomli_w

from .key_places import key_lines

#: Column of the comments, and where a longer line still gets one.
_COLUMN = 40


def annotated_toml(tables: Mapping[str, Any], origin: Callable[[str], str]) -> str:
    """TOML text with a comment behind every assignment.

    Args:
        tables: plain tables.
        origin: dotted key, list items numbered -> text of the comment; empty: no comment.
    """
    text = tomli_w.dumps(tables)
    keys: dict[int, str] = {}
    for key, line in key_lines(text).items():
        keys.setdefault(line, key)
    lines = text.splitlines()
    return "\n".join(_annotated(line, origin, keys.get(number)) for number, line in enumerate(lines, 1)) + "\n"


def _annotated(line: str, origin: Callable[[str], str], key: str | None) -> str:
    said = "" if key is None or line.startswith("[") else origin(key)
    return f"{line:{_COLUMN}} # {said}" if said else line


def set_tables(tables: Mapping[str, Any], is_set: Callable[[str], bool], where: str = "") -> dict[str, Any]:
    """The part of tables that somebody has set; tables in which nothing is set are left out."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        key = f"{where}{name}"
        if isinstance(value, Mapping):
            if inner := set_tables(value, is_set, f"{key}."):
                found[name] = inner
        elif is_set(key):
            found[name] = value
    return found
