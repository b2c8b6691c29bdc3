"""`write_comparison_report`: figures and page of a comparison, from its `results.json` and its run folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.whole_file import write_whole
from ..report.figure_style import Format, save_figure
from .comparison_page import ComparisonFigure, comparison_page
from .comparison_tables import has_servers, markdown
from .curves import curves_of
from .difference_figures import draw_differences
from .figures import Axis, draw_costs, draw_curves, draw_varied
from .latex_tables import latex
from .long_form import long_form
from .stored_results import stored_results

#: What to do about a folder that cannot be used.
ELSEWHERE = "choose another with --out"
REPORT = "report.html"
#: Names of all figures that a comparison can have.
FIGURES = frozenset({"differences", *(f"curves-{axis}" for axis in get_args(Axis)), "costs", "vary"})
_OVER = {"rounds": "rounds of training", "bytes": "bytes sent by all nodes", "time": "simulated time"}


def write_comparison_report(folder: Path) -> Path:
    """Write tables, figures and page of a stored comparison again, in the place of earlier ones.

    Results that any version wrote are taken; `results.json` itself stays as it is.

    Args:
        folder: folder of the comparison, with its run folders below `runs`.

    Returns:
        Path of the page.

    Raises:
        DataError: no comparison is stored there, or a file of it is damaged.
        ConfigError: its task is one of a plugin that is not loaded, or the folder cannot be written.
    """
    results = stored_results(folder)
    with writing(folder):
        write_tables(results, folder)
        write_figures(results, folder)
    return folder / REPORT


def write_tables(results: Mapping[str, Any], folder: Path) -> None:
    """Write `table.md`, `table.tex` and `results.csv`."""
    write_whole(folder / "table.md", markdown(results))
    write_whole(folder / "table.tex", latex(results))
    write_whole(folder / "results.csv", long_form(results))


def write_figures(results: Mapping[str, Any], folder: Path) -> None:
    """Write the figures as PNG, SVG and PDF, and the page that shows them; remove those of before that are none now."""
    figures = list(_figures(results, folder / "runs"))
    for one in figures:
        save_figure(one.figure, folder / one.name)
    # a comparison that was made again may vary nothing any more, or have no server
    for name in FIGURES - {one.name for one in figures}:
        for kind in get_args(Format):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)
    write_whole(folder / REPORT, comparison_page(results, figures))


def _figures(results: Mapping[str, Any], runs: Path) -> Iterator[ComparisonFigure]:
    """Figures of the comparison; none without a run, which is without groups and so without panels."""
    if not any(entry["n"] for entry in results["entries"]):
        return
    seeds = "mean ± standard deviation over seeds" if len(results["seeds"]) > 1 else "one seed"
    if "statistics" in results:
        caption = f"Mean difference to {results['reference']} per method and group, with confidence intervals."
        yield ComparisonFigure("differences", caption, draw_differences(results))
    curves = curves_of(results, runs)
    for axis in get_args(Axis):
        drawn = draw_curves(results, curves, axis)
        yield ComparisonFigure(f"curves-{axis}", f"First score over {_OVER[axis]}: {seeds} (band).", drawn)
    if has_servers(results):
        caption = f"First score over all clients against its costs: {seeds} (band)."
        yield ComparisonFigure("costs", caption, draw_costs(results, curves))
    if results["vary"]:
        caption = f"First score over {results['vary']}: {seeds} (whiskers)."
        yield ComparisonFigure("vary", caption, draw_varied(results))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Context for all writing into the folder of a comparison.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        yield
    except SheafedgeError:  # already one sentence, such as one about a stored run
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"folder {folder} cannot be written ({reason}); {ELSEWHERE}") from None
