"""A comparison from its value to a folder: runs, results, tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.whole_file import write_whole
from ..recording.pictures import save_picture
from ..workers.ray_cluster import Engine
from .comparison import Comparison
from .curves import curves_of
from .figures import Axis, draw_curves, draw_varied
from .plan import planned_runs
from .play import ComparisonProgress, play
from .results import results_of
from .tables import markdown


def run_comparison(
    comparison: Comparison,
    out: Path | None = None,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
) -> dict[str, Any]:
    """Make the runs of a comparison that are not there yet, and say what they say together.

    Args:
        comparison: what to run.
        out: its folder; it may be there, and then only what is missing is run. None: `runs/compare-NAME`.
        jobs: runs made at a time.
        progress: is told how far it is.
        engine: what makes them.

    Returns:
        Content of `results.json`.

    Raises:
        ConfigError: the comparison is wrong; an arm that fails while it runs is a result.
    """
    runs = planned_runs(comparison)
    folder = out or default_folder(comparison)
    with writing(folder):
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        write_whole(folder / "comparison.toml", comparison.text())
    failed = play(runs, folder / "runs", jobs, progress, engine)
    results = results_of(comparison, runs, folder / "runs", failed)
    with writing(folder):
        write_whole(folder / "results.json", json.dumps(results, indent=2) + "\n")
        write_whole(folder / "table.md", markdown(results))
        _draw(results, folder)
    return results


def _draw(results: Mapping[str, Any], folder: Path) -> None:
    """Pictures, if there is anything to draw."""
    if not any(entry["n"] for entry in results["entries"]):
        return
    curves = curves_of(results, folder / "runs")
    for axis in get_args(Axis):
        save_picture(draw_curves(results, curves, axis), folder / f"curves-{axis}.png")
    if results["vary"]:
        save_picture(draw_varied(results), folder / "vary.png")


def default_folder(comparison: Comparison) -> Path:
    """Always the same, so that calling again continues."""
    return Path("runs") / f"compare-{comparison.name}"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Around everything that writes into the folder of a comparison.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        yield
    except SheafedgeError:  # a sentence already, such as one about a stored run
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"folder {folder} cannot be written ({reason}); choose another with --out") from None
