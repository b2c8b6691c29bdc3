"""`run_comparison`: from a comparison to a folder of runs, results, tables and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...emulator.ownership import owned
from ...emulator.whole_file import write_whole
from ..workers.ray_cluster import Engine, RayShare
from .comparison import Comparison
from .comparison_report import ELSEWHERE, write_figures, write_tables, writing
from .differences import with_differences
from .execution import ComparisonProgress, execute
from .plan import planned_runs
from .results import results_of


def run_comparison(
    comparison: Comparison,
    out: Path | None = None,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
    *,
    keep_stale: bool = False,
    share: RayShare | None = None,
) -> dict[str, Any]:
    """Makes the missing runs of a comparison, and writes results, tables and figures.

    Args:
        comparison: the comparison.
        out: its folder, which may exist: stored runs are not repeated. None: `runs/compare-NAME`.
        jobs: number of parallel runs.
        progress: called when runs and recordings end; None: no progress.
        engine: what starts parallel runs: "processes" or "ray".
        keep_stale: do not repeat complete runs that other code, or another torch, made.
        share: what Ray gives to every run; None: one processor.

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
        failed = execute(runs, folder / "runs", jobs, progress, engine, keep_stale=keep_stale, share=share)
        results = with_differences(results_of(comparison, runs, folder / "runs", failed))
        with writing(folder):
            write_whole(folder / "results.json", json.dumps(results, indent=2) + "\n")
            write_tables(results, folder)
            write_figures(results, folder)
    return results


def default_folder(comparison: Comparison) -> Path:
    """Default folder; fixed, so that the same command continues an interrupted comparison."""
    return Path("runs") / f"compare-{comparison.name}"
