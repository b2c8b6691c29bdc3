"""Extension of Griffe, which reads docstrings: names that share a text ("sender, receiver: node ids") get one each."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ENTRY = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<text>.*)$")


class SharedTexts(griffe.Extension):
    """Splits entries before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = split_names(obj.docstring.value)


def split_names(docstring: str) -> str:
    """The same docstring with an entry for every name: "a, b: text" becomes "a: text" and "b: text"."""
    lines, made = docstring.splitlines(), []
    while lines:
        line = lines.pop(0)
        entry = _ENTRY.match(line)
        if entry is None:
            made.append(line)
            continue
        indent = entry["indent"]
        more = []
        while lines and lines[0].startswith(f"{indent} "):
            more.append(lines.pop(0))
        for name in entry["names"].split(", "):
            made += [f"{indent}{name}: {entry['text']}", *more]
    return "\n".join(made)
