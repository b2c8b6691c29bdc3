"""Reader of TOML files of any origin: scenarios, worlds and comparisons, with one-sentence errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import open_regular, reason, shown

#: A scenario with everything in it is a hundredth of this.
MAX_BYTES = 1 << 20
#: Tables in tables; ours end at four.
MAX_DEPTH = 32
_MAX_BITS = 1 << 10  # of a whole number
# Time that the parser needs for a dotted key grows with the square of its parts: refused before it is parsed.
_LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){{{MAX_DEPTH}}}")


def read_toml(path: Path) -> dict[str, Any]:
    """Tables of a file.

    Raises:
        ConfigError: it cannot be read, is no TOML, or holds what no file of ours does.
    """
    try:
        with open_regular(path) as stream:
            # one byte more than allowed shows that a file is too long, without reading all of it
            content = stream.read(MAX_BYTES + 1)
        text = content[:MAX_BYTES].decode("utf-8").replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{shown(path)} is not a readable TOML file ({reason(error)}); repair or replace it"
        ) from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{shown(path)} is longer than {MAX_BYTES} bytes, which no file of ours is; give another one")
    return parsed_toml(text, str(path))


def parsed_toml(text: str, source: str) -> dict[str, Any]:
    """Tables of a text.

    Args:
        text: TOML.
        source: how messages name it.

    Raises:
        ConfigError: it is no TOML, or holds what no text of ours does.
    """
    if _LONG_KEY.search(text):
        raise ConfigError(f"{source} nests tables deeper than {MAX_DEPTH}, which no file of ours does; repair it")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _with_line(source, error)
        raise ConfigError(f"{where} is not a readable TOML file ({reason(error)}); repair or replace it") from None
    except (ValueError, RecursionError) as error:  # of numbers with thousands of digits a plain ValueError
        raise ConfigError(f"{source} is not a readable TOML file ({reason(error)}); repair or replace it") from None
    refuse_absurd(tables, source)
    return tables


def _with_line(source: str, error: tomllib.TOMLDecodeError) -> str:
    """The source and the line where the parser stopped, as editors and compilers write it."""
    found = re.search(r"\(at line (\d+)", str(error))
    return f"{shown(source)}:{found[1]}" if found else shown(source)


def refuse_absurd(value: object, source: str) -> None:
    """Refuse values that later checks could not print.

    Raises:
        ConfigError: tables or lists deeper than `MAX_DEPTH`, or a whole number of hundreds of digits.
    """
    # level by level instead of recursion, which deep nesting would exhaust
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if any(isinstance(child, int) and child.bit_length() > _MAX_BITS for child in level):
            raise ConfigError(f"{source} holds a whole number of hundreds of digits; no field takes one")
        if not level:
            return
    raise ConfigError(f"{source} nests tables and lists deeper than {MAX_DEPTH}, which nothing of ours does; repair it")


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
