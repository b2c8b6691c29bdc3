"""`run_comparison`: from a comparison to a folder of runs, results, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.ownership import owned
from ...emulator.whole_file import write_whole
from ..recording.pictures import save_picture
from ..workers.ray_cluster import Engine
from .comparison import Comparison
from .comparison_tables import has_servers, markdown
from .curves import curves_of
from .differences import with_differences
from .execution import ComparisonProgress, execute
from .figures import Axis, draw_costs, draw_curves, draw_varied
from .latex_tables import latex
from .long_form import long_form
from .plan import planned_runs
from .results import results_of

#: What to do about a folder that cannot be used.
ELSEWHERE = "choose another with --out"


def run_comparison(
    comparison: Comparison,
    out: Path | None = None,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
    *,
    keep_stale: bool = False,
) -> dict[str, Any]:
    """Makes the missing runs of a comparison, and writes results, tables and figures.

    Args:
        comparison: the comparison.
        out: its folder, which may exist: stored runs are not repeated. None: `runs/compare-NAME`.
        jobs: number of parallel runs.
        progress: called when runs and recordings end; None: no progress.
        engine: what starts parallel runs: "processes" or "ray".
        keep_stale: do not repeat complete runs that other code, or another torch, made.

    Returns:
        Content of `results.json`.

    Raises:
        OwnedError: another process makes a comparison in this folder.
        ConfigError: an invalid comparison. A run that fails is no error, but part of the results.
    """
    # before any folder is made: an invalid comparison leaves nothing behind
    runs = planned_runs(comparison)
    folder = out or default_folder(comparison)
    with owned(folder, ELSEWHERE, inside=True):
        with writing(folder):
            (folder / "runs").mkdir(exist_ok=True)
            write_whole(folder / "comparison.toml", comparison.text())
        failed = execute(runs, folder / "runs", jobs, progress, engine, keep_stale=keep_stale)
        results = with_differences(results_of(comparison, runs, folder / "runs", failed))
        with writing(folder):
            write_whole(folder / "results.json", json.dumps(results, indent=2) + "\n")
            write_whole(folder / "table.md", markdown(results))
            write_whole(folder / "table.tex", latex(results))
            write_whole(folder / "results.csv", long_form(results))
            _draw(results, folder)
    return results


def _draw(results: Mapping[str, Any], folder: Path) -> None:
    """Draws the figures, if any run succeeded."""
    # without a run there are no groups, and so no panels
    if not any(entry["n"] for entry in results["entries"]):
        return
    curves = curves_of(results, folder / "runs")
    for axis in get_args(Axis):
        save_picture(draw_curves(results, curves, axis), folder / f"curves-{axis}.png")
    if has_servers(results):
        save_picture(draw_costs(results, curves), folder / "costs.png")
    if results["vary"]:
        save_picture(draw_varied(results), folder / "vary.png")


def default_folder(comparison: Comparison) -> Path:
    """Default folder; fixed, so that the same command continues an interrupted comparison."""
    return Path("runs") / f"compare-{comparison.name}"


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
