"""Texts about the fields of a class, read from the section `Attributes` of its docstring and of its parents'."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*): (?P<text>.*)$", re.DOTALL)
_INDENT = "    "


def attribute_texts(owner: type) -> dict[str, str]:
    """Field -> text in one line, without the period at its end; the class itself wins over its parents."""
    found: dict[str, str] = {}
    for one in owner.__mro__:
        for names, text in _entries(one):
            found |= {name: text for name in names if name not in found}
    return found


def first_sentence(owner: type) -> str:
    """The first sentence of a class's docstring, without its period."""
    first = (inspect.cleandoc(owner.__doc__ or "")).split("\n\n")[0]
    return " ".join(first.split()).split(". ")[0].removesuffix(".")


def _entries(owner: type) -> Iterator[tuple[list[str], str]]:
    lines = inspect.cleandoc(owner.__dict__.get("__doc__") or "").splitlines()
    if "Attributes:" not in lines:
        return
    entries: list[str] = []
    for line in lines[lines.index("Attributes:") + 1 :]:
        if not line.startswith(_INDENT):
            break
        if line.startswith(2 * _INDENT) and entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    for entry in entries:
        if match := _ENTRY.match(entry):
            yield match["names"].split(", "), match["text"].removesuffix(".")
