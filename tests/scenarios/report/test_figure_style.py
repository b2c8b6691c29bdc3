"""Figures of reports: apart for every color vision, as wide as columns of papers, and of the colors of their page."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from numpy.typing import NDArray
from sheafedge.scenarios.report.figure_style import (
    COLORS,
    COLUMN_WIDTHS_IN,
    INK,
    PAPER,
    THEMES,
    Columns,
    figure_style,
    inline_svg,
    new_figure,
    save_figure,
    series_style,
)

#: Linear RGB of a color as it is seen without one kind of cones. Source: Machado, Oliveira, Fernandes 2009, severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
#: Least distance in CIE L*a*b* (1976); 2.3 is just noticed. Okabe and Ito's colors reach 16.1, red and green 10.
LEAST_DISTANCE = 16.0
#: Least ratio of luminances of text and its ground. Source: WCAG 2.2, 1.4.3.
LEAST_CONTRAST = 4.5


def linear(color: str) -> NDArray[np.float64]:
    """[3] linear sRGB. Source: IEC 61966-2-1."""
    coded = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """[3] CIE L*a*b* under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ rgb / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colors: tuple[str, ...], vision: str) -> float:
    seen = [lab(np.clip(VISIONS[vision] @ linear(color), 0.0, 1.0)) for color in colors]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))


def contrast(color: str, ground: str) -> float:
    luminances = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(one)) for one in (color, ground))
    return (luminances[1] + 0.05) / (luminances[0] + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
def test_colors_of_lines_stay_apart_under_every_color_vision(vision: str) -> None:
    dark = tuple(THEMES[color].dark for color in COLORS)
    assert least_distance(COLORS, vision) > LEAST_DISTANCE
    assert least_distance(dark, vision) > LEAST_DISTANCE


def test_the_measure_tells_red_and_green_of_equal_lightness_from_what_is_apart() -> None:
    assert least_distance(("#b8510d", "#5f7f00"), "normal") > 3 * LEAST_DISTANCE
    assert least_distance(("#b8510d", "#5f7f00"), "deuteranopia") < LEAST_DISTANCE


def test_text_has_contrast_and_lines_have_it_on_dark_ground() -> None:
    for color in (INK, "#6e7781"):
        assert contrast(THEMES[color].light, THEMES[PAPER].light) > LEAST_CONTRAST
    for color in (*COLORS, "#6e7781"):
        assert contrast(THEMES[color].dark, THEMES[PAPER].dark) > LEAST_CONTRAST


def test_twenty_one_lines_differ_in_color_or_dashes_and_neighbors_in_the_marker_too() -> None:
    styles = [series_style(index) for index in range(21)]
    assert len({(style.color, str(style.line)) for style in styles}) == 21
    assert all(one.color != other.color and one.marker != other.marker for one, other in pairwise(styles))


def drawn(columns: Columns = 1) -> Any:
    with figure_style():
        figure, (panel,) = new_figure(columns)
        for index in range(3):
            style = series_style(index)
            panel.plot(
                [0, 1], [index, 2], color=style.color, ls=style.line, marker=style.marker, mfc="white", label="a"
            )
        panel.set_xlabel("rounds")
        panel.set_title("score & <loss>")
        panel.legend()
        return figure


def test_files_are_as_wide_as_columns_of_a_paper_and_equal_for_equal_figures(tmp_path: Path) -> None:
    for columns, width_in in COLUMN_WIDTHS_IN.items():
        first = save_figure(drawn(columns), tmp_path / f"one-{columns}")
        again = save_figure(drawn(columns), tmp_path / f"two-{columns}")
        assert [path.name for path in first] == [f"one-{columns}.{kind}" for kind in ("png", "svg", "pdf")]
        for one, other in zip(first, again, strict=True):
            assert one.read_bytes() == other.read_bytes()
        box = re.findall(r'viewBox="0 0 ([\d.]+) ', first[1].read_text(encoding="utf-8"))
        assert [float(width) for width in box] == [pytest.approx(72 * width_in)]
        assert b"TrueType" in first[2].read_bytes() or b"/FontFile2" in first[2].read_bytes()
        assert b"/Type3" not in first[2].read_bytes()
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_an_svg_in_a_page_has_the_colors_of_the_page_and_names_of_its_own() -> None:
    svg = inline_svg(drawn(), "score-1", 'the "score"')
    assert svg.startswith('<svg viewBox="0 0 252')
    assert """aria-label='the "score"'""" in svg
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == set()
    for variable in ("--ink", "--paper", "--blue", "--vermillion", "--green", "--grid"):
        assert f"var({variable})" in svg
    assert "http" not in svg
    names = re.findall(r'\sid="([^"]+)"', svg)
    assert names
    assert all(name.startswith("score-1-") for name in names)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(names)
    assert "score &amp; &lt;loss&gt;" in svg
    ET.fromstring(svg)  # noqa: S314 - of our own making


def test_the_style_ends_with_its_context() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with figure_style():
        assert mpl.rcParams["font.size"] == 8.0
    assert dict(mpl.rcParams) == before
