"""Pages of reports: one file that fetches nothing, escapes what it shows, and leaves out what is empty."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sheafedge.scenarios.report.figure_style import THEMES
from sheafedge.scenarios.report.html_page import (
    PageFacts,
    PageFigure,
    PagePicture,
    PageSection,
    PageTable,
    PageText,
    html_page,
)

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Outline(HTMLParser):
    """Elements of a page with their attributes; fails where they do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def page() -> str:
    figure = PageFigure('<svg viewBox="0 0 1 1"></svg>', "score of clients")
    return html_page(
        "run <of> a day",
        "digits & more",
        [
            PageSection("Scores of groups", [PageText("all & sundry", "warning"), figure, figure]),
            PageSection("Nothing here", []),
            PageSection(
                "Tables",
                [
                    PageFacts({"seed": "7"}),
                    PageTable(["group", "f1", "lead"], [["<lidar>", "0.81", "-"], ["rf", "0.7 ± 0.1", "5 ms"]]),
                    PageTable(["name"], [], best=frozenset({(0, 0)})),
                    PagePicture(b"\x89PNG", "street"),
                ],
            ),
        ],
        "made by a test",
    )


def test_a_page_is_one_file_without_network_or_script() -> None:
    outline = Outline(page())
    assert outline.of("script") == outline.of("link") == []
    assert [image["src"] for image in outline.of("img")] == ["data:image/png;base64,iVBORw=="]
    policy = next(one["content"] for one in outline.of("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not re.search(r"url\(|@import|https?:", page())


def test_what_is_shown_is_escaped() -> None:
    assert "run &lt;of&gt; a day" in page()
    assert "<of>" not in page()
    assert "&lt;lidar&gt;" in page()
    assert "all &amp; sundry" in page()


def test_every_section_with_parts_has_an_anchor_and_a_link_and_others_are_left_out() -> None:
    outline = Outline(page())
    anchors = [one["id"] for one in outline.of("section")]
    assert anchors == ["scores-of-groups", "tables"]
    assert [one["href"] for one in outline.of("a")][:2] == [f"#{anchor}" for anchor in anchors]


def test_figures_that_follow_each_other_stand_in_one_row() -> None:
    figure, wide = PageFigure("<svg></svg>", "a"), PageFigure("<svg></svg>", "b", wide=True)
    text = PageText("c")
    section = PageSection("x", [figure, figure, wide, figure, text, figure])
    assert section.rows == [[figure, figure], [wide], [figure], [text], [figure]]


def test_columns_of_numbers_stand_to_the_right() -> None:
    table = PageTable(["group", "f1", "lead", "none"], [["a", "0.81", "-", ""], ["b", "0.7 ± 0.1", "5 ms", ""]])
    assert table.numeric == [False, True, True, False]
    assert [one.get("class") for one in Outline(page()).of("th")] == [None, "number", "number", None]


def test_every_color_has_a_light_and_a_dark_value() -> None:
    light, dark = page().split("prefers-color-scheme: dark", maxsplit=1)
    for theme in THEMES.values():
        assert f"{theme.variable}: {theme.light};" in light
        assert f"{theme.variable}: {theme.dark};" in dark
