"""Pages of reports: one HTML file each, which fetches nothing and runs no script; that of a run that goes on has one.

Light or dark as the reader's system is, readable on a phone and on paper. A page is a list of sections, a section a
list of parts; the template is `page.html.jinja` beside this file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .figure_style import THEMES

if TYPE_CHECKING:
    from jinja2 import Template

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_TEMPLATE = Path(__file__).with_name("page.html.jinja")


@dataclass(frozen=True, slots=True)
class PageText:
    """A paragraph.

    Attributes:
        text: plain text, escaped by the page.
        tone: "note" for what explains a figure or table, "warning" for what a reader must not miss.
    """

    text: str
    tone: Literal["plain", "note", "warning"] = "plain"
    kind: str = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Names and values in two columns."""

    facts: Mapping[str, str]
    kind: str = field(default="facts", init=False)


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table; columns whose cells are all numbers stand to the right.

    Attributes:
        head: titles of the columns.
        rows: cells as text.
        caption: what is shown, above the table.
        note: units, and how to read it, below the table.
        best: places (row, column) that are set in bold.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()
    kind: str = field(default="table", init=False)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers."""
        columns = [[row[place] for row in self.rows] for place in range(len(self.head))]
        return [bool(cells) and all(map(_is_number, cells)) and any(cells) for cells in columns]


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure of a page.

    Attributes:
        svg: element from `figure_style.inline_svg`.
        caption: what is shown, with units, bands and whiskers.
        wide: whether it takes the whole width of the page.
    """

    svg: str
    caption: str
    wide: bool = False
    kind: str = field(default="figure", init=False)


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A picture in pixels, which stands in the page itself.

    Attributes:
        png: content of a PNG file.
        caption: what is shown.
    """

    png: bytes
    caption: str
    kind: str = field(default="picture", init=False)

    @property
    def address(self) -> str:
        """Address that holds the whole picture."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


PagePart = PageText | PageFacts | PageTable | PageFigure | PagePicture


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section with an anchor of its own.

    Attributes:
        title: heading; the anchor is made from it.
        parts: what it shows, from top to bottom; figures that follow each other stand side by side where there is room.
    """

    title: str
    parts: Sequence[PagePart]

    @property
    def anchor(self) -> str:
        """Fragment of the address of this section."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def rows(self) -> list[list[PagePart]]:
        """Parts, with narrow figures that follow each other in one row."""
        rows: list[list[PagePart]] = []
        for part in self.parts:
            is_narrow = isinstance(part, PageFigure) and not part.wide
            last = rows[-1][-1] if rows else None
            if is_narrow and isinstance(last, PageFigure) and not last.wide:
                rows[-1].append(part)
            else:
                rows.append([part])
        return rows


@dataclass(frozen=True, slots=True)
class PageStatus:
    """Top of a page that is drawn again and again, with the script that asks for the next drawing.

    Attributes:
        sentence: what is going on, or how it ended.
        tone: border of the sentence.
        share: share that is done, in [0, 1]; None: no bar.
        numbers: short facts below the bar.
        left_s: time left in s, which the script counts down; None: unknown.
        version: number of this drawing.
        gone: sentence for when no answer comes any more.
        script: source of the script; nothing else runs in the page.
    """

    sentence: str
    tone: Literal["running", "complete", "stopped"]
    share: float | None
    numbers: Mapping[str, str]
    left_s: float | None
    version: int
    gone: str
    script: str

    @property
    def policy(self) -> str:
        """What a browser lets the page do: run this script, and ask where it came from."""
        digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        return f"{_POLICY}; script-src 'sha256-{digest}'; connect-src 'self'"


def html_page(
    title: str, subtitle: str, sections: Sequence[PageSection], foot: str = "", status: PageStatus | None = None
) -> str:
    """Whole text of a page.

    Args:
        title: heading, and title of the window.
        subtitle: one line below it.
        sections: in order; those without parts are left out.
        foot: last line, such as what made the page.
        status: of a page that is drawn again and again; None: it is final, and has no script.
    """
    shown = [section for section in sections if section.parts]
    return _template().render(
        title=title,
        subtitle=subtitle,
        sections=shown,
        foot=foot,
        status=status,
        policy=status.policy if status else _POLICY,
        themes=THEMES.values(),
    )


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number, with or without a unit or a deviation behind it; what is not known is no text."""
    return not cell or cell in {"-", "–"} or re.match(r"[-+−<>]?\s?[\d.,]+", cell) is not None


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
