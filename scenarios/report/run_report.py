"""Report of a run, written into its folder: `report.html`, and its figures for papers under `figures/`.

The page is written at the end of every run of the command line; the figures, whose fonts take longer, when asked for.
"""

from __future__ import annotations

from pathlib import Path

from ...emulator.contracts import ConfigError
from ...emulator.whole_file import write_whole
from .figure_style import Format, figure_style, save_figure
from .run_page import RunPage
from .run_records import read_records

REPORT, FIGURES = "report.html", "figures"
#: Ending of the names of files that are two columns of a paper wide.
WIDE = "-wide"
_FORMATS: tuple[Format, ...] = ("svg", "pdf")


def write_run_report(folder: Path, *, figures: bool = True) -> Path:
    """Write the report of a complete run into its folder, in the place of an earlier one.

    Args:
        folder: run folder.
        figures: also write its figures as SVG and PDF.

    Returns:
        Path of the page.

    Raises:
        ConfigError: it is no folder of a complete run, needs a plugin, or cannot be written.
        DataError: a file in it is damaged.
    """
    page = RunPage(read_records(folder))
    path = folder / REPORT
    with figure_style():
        text = page.text()
        try:
            if figures:
                _write_figures(page, folder / FIGURES)
            write_whole(path, text)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"report {path} cannot be written ({reason}); make room there") from None
    return path


def _write_figures(page: RunPage, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for figure in page.figures:
        save_figure(page.drawn(figure), folder / figure.name, _FORMATS)
        save_figure(figure.draw(2), folder / f"{figure.name}{WIDE}", _FORMATS)
