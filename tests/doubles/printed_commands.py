"""Commands that the pages print: those of blocks, and those inside sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: None where an installed wheel is tested.
PAGES = sorted(page for pattern in ("docs/*.md", "README.md", "CONTRIBUTING.md") for page in ROOT.glob(pattern))
_PROGRAM = re.compile(r"(?:\.venv|~/sheafedge)/bin/(?=(sheafedge|python) )")
#: A command in running text; it may go on in the next line.
_INLINE = re.compile(r"`(?:\w+=\w+ )?sheafedge ([a-z][^`]*)`")


class Printed(NamedTuple):
    """A command of a page."""

    page: Path
    line: int
    program: str  #: "sheafedge" or "python"
    words: list[str]
    refusal: str = ""  #: sentence with which the page shows that it ends

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


def printed(page: Path) -> Iterator[Printed]:
    """Every command of a page that stands in a block, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        found = _PROGRAM.match(line.strip())
        if found is None:
            continue
        text, following = line.strip()[found.end() :], number
        while text.endswith("\\") or text.count("'") % 2:  # commands and quoted values go on in the next line
            text, following = text.removesuffix("\\") + lines[following].strip(), following + 1
        program, *words = shlex.split(text, comments=True)
        answer = lines[following] if following < len(lines) else ""
        yield Printed(page, number, program, words, answer if answer.startswith("error: ") else "")


def in_sentences(page: Path) -> Iterator[Printed]:
    """Every command of a page that stands in a sentence or a table."""
    text = re.sub(
        r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"), flags=re.M | re.S
    )
    for found in _INLINE.finditer(text):
        yield Printed(page, text.count("\n", 0, found.start()) + 1, "sheafedge", shlex.split(found[1]))
