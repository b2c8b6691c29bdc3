"""Style of figures in reports and papers: colors, markers, widths; files in vector formats, and SVG inside of pages.

Methods, groups and nodes differ in color, marker and line style at once, so that a figure can be read in grey, and with
any color vision. All colors of a figure are names of CSS variables when it stands in a page, which has a light and a
dark value of each; `html_page` defines them from `THEMES`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...emulator.whole_file import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Literal[1, 2]
Format = Literal["png", "svg", "pdf"]

#: Width in inches of a figure over one and over two columns of a paper. Source: IEEE, "Preparing graphics", 3.5 in
#: (88.9 mm) and 7.16 in (182 mm).
COLUMN_WIDTHS_IN: Mapping[Columns, float] = {1: 3.5, 2: 7.16}
PNG_DPI = 150

#: Colors of lines, color-blind safe. Source: Okabe and Ito 2008, "Color Universal Design", without their yellow, which
#: is too light for lines on white. The last is their black, here the color of text.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1f2328")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Colors of what is no line of data.
INK, PAPER, GRID, MUTED, BAND = COLORS[-1], "#ffffff", "#dcdfe4", "#6e7781", "#eef1f4"
#: Color map of matrices: its lightness rises evenly, also for color-blind readers.
MAP = "cividis"


class Theme(NamedTuple):
    """Values of one color in pages: its CSS variable, and what it is on light and on dark ground."""

    variable: str
    light: str
    dark: str


#: Color in figures -> its values in pages. The dark lines were chosen to stay apart under simulated color blindness as
#: far as the light ones do, and to have a contrast of 4.5 to the ground or more.
THEMES: Mapping[str, Theme] = {
    COLORS[0]: Theme("--blue", COLORS[0], "#5c86ff"),
    COLORS[1]: Theme("--vermillion", COLORS[1], "#d9701f"),
    COLORS[2]: Theme("--green", COLORS[2], "#10a570"),
    COLORS[3]: Theme("--purple", COLORS[3], "#bb86ae"),
    COLORS[4]: Theme("--orange", COLORS[4], "#f5c332"),
    COLORS[5]: Theme("--sky", COLORS[5], "#4fc9f7"),
    INK: Theme("--ink", INK, "#e6e6e6"),
    PAPER: Theme("--paper", PAPER, "#14171c"),
    GRID: Theme("--grid", GRID, "#353b44"),
    MUTED: Theme("--muted", MUTED, "#9aa4b0"),
    BAND: Theme("--band", BAND, "#1e232a"),
}

_FONT = re.compile(r"font-family: [^;\"]*")
_FILE_FONTS = "DejaVu Sans, Helvetica, Arial, sans-serif"
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_SETTINGS: Mapping[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "patch.linewidth": 0.7,
    "errorbar.capsize": 2.0,
    "image.cmap": MAP,
    "svg.fonttype": "none",  # text stays text: it can be searched and edited, and follows the colors of a page
    "svg.hashsalt": "sheafedge",  # equal figures give equal files
    "pdf.fonttype": 42,  # TrueType; submission systems refuse the default, Type 3
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


class SeriesStyle(NamedTuple):
    """Style of a line of data: color, dashes and marker for matplotlib."""

    color: str
    line: Any
    marker: str


def series_style(index: int) -> SeriesStyle:
    """Style of the method, group or node of this number; the first 21 differ in color or dashes."""
    n_colors = len(COLORS)
    return SeriesStyle(COLORS[index % n_colors], LINES[index // n_colors % len(LINES)], MARKERS[index % len(MARKERS)])


@contextmanager
def figure_style() -> Iterator[None]:
    """Context in which figures of reports and papers are drawn: its settings end with it."""
    import matplotlib as mpl

    with mpl.rc_context(dict(_SETTINGS)):
        yield


def new_figure(
    columns: Columns = 1, height_in: float = 2.2, grid: tuple[int, int] = (1, 1), **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Empty figure as wide as one or two columns of a paper, with its axes row by row.

    Call it, and draw, inside of `figure_style`.

    Args:
        columns: columns of the paper that it spans.
        height_in: height in inches.
        grid: rows and columns of axes.
        shared: more arguments of `Figure.subplots`, such as `sharey=True`.
    """
    # not pyplot, which would choose a backend and keep every figure open
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN_WIDTHS_IN[columns], height_in), layout="constrained")
    return figure, list(figure.subplots(*grid, squeeze=False, **shared).ravel())


def save_figure(figure: Figure, stem: Path, formats: Sequence[Format] = ("png", "svg", "pdf")) -> list[Path]:
    """Write a figure as files `stem.png`, `stem.svg` and `stem.pdf`, each whole or not at all; needs no screen.

    Returns:
        Paths of the files.
    """
    paths = [stem.with_name(f"{stem.name}.{one}") for one in formats]
    for path, one in zip(paths, formats, strict=True):
        with replacing(path) as partial:
            _WRITERS[one](figure, partial)
        figure.set_layout_engine("none")  # found by the first format, and the same for all
    return paths


def inline_svg(figure: Figure, name: str, meaning: str) -> str:
    """SVG element for an HTML page: its colors are CSS variables, it scales with its box, and fetches nothing.

    Args:
        figure: figure, drawn inside of `figure_style`.
        name: name of the figure, unique in its page; letters, digits and hyphens.
        meaning: text for readers who do not see it.
    """
    from xml.sax.saxutils import quoteattr

    text = _svg_text(figure)
    body = text[text.index("<svg") : text.index("</svg>") + len("</svg>")]
    opening, body = body.split(">", maxsplit=1)
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None, "matplotlib writes a view box into every SVG"
    # matplotlib's rule for all elements would hold in the whole page, and its metadata name hosts
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    # names of elements hold in the whole page too
    body = re.sub(r'(\sid="|xlink:href="#|\shref="#|url\(#)', rf"\g<1>{name}-", body).replace("xlink:href", "href")
    body = _FONT.sub("font-family: var(--font)", body)
    body = _COLOR.sub(lambda found: _in_page(found[0]), body)
    return f'<svg {box[0]} role="img" aria-label={quoteattr(meaning)} class="plot">{body}'


def _in_page(color: str) -> str:
    return f"var({THEMES[color].variable})" if color in THEMES else color


def _svg_text(figure: Figure) -> str:
    """The figure as SVG text, the same for equal figures."""
    with figure_style(), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        return _FONT.sub(f"font-family: {_FILE_FONTS}", file.getvalue())


def _write_svg(figure: Figure, path: Path) -> None:
    path.write_text(_svg_text(figure), encoding="utf-8")


def _write_pdf(figure: Figure, path: Path) -> None:
    with figure_style():
        figure.savefig(path, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})


def _write_png(figure: Figure, path: Path) -> None:
    with figure_style():
        figure.savefig(path, format="png", dpi=PNG_DPI, facecolor=PAPER)


_WRITERS: Mapping[Format, Callable[[Figure, Path], None]] = {"png": _write_png, "svg": _write_svg, "pdf": _write_pdf}
