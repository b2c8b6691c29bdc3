"""Scripts behind a page of results; they lie beside each other in folders of docs, and are no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SEEDS = range(6)


@contextmanager
def page_scripts(folders: Sequence[Path], names: Sequence[str]) -> Iterator[Mapping[str, ModuleType]]:
    """Context in which scripts of these folders are imported, by name; other tests import theirs anew."""
    added = [str(folder) for folder in folders]
    sys.path[:0] = added
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        for folder in added:
            sys.path.remove(folder)
        for name, module in [*sys.modules.items()]:
            if (file := getattr(module, "__file__", None)) is not None and Path(file).parent in folders:
                del sys.modules[name]


def page_of(scripts: Mapping[str, ModuleType], folder: Path, *versions: str) -> Any:
    """The page of these codes, with nothing kept yet."""
    return replace(scripts["make"].edition_of([], folder), folder=folder, versions=versions)


def score_row(
    scripts: Mapping[str, ModuleType], regime: str, arm: str, seed: int, score: float, group: str = "all clients"
) -> Any:
    """A row of the kept scores, of no run that ever was."""
    return scripts["ledger"].Row(
        regime, arm, "", seed, group, 4, score, 100, 50, 12.5, 3.25, 60.0, 0.01, 0.1, "c0de", "P, V"
    )


def kept(
    scripts: Mapping[str, ModuleType], path: Path, regime: str, scores: Mapping[str, float | tuple[float, ...]]
) -> Any:
    """A ledger in which arms have the same score in every group of a regime: one for all seeds, or one for each."""
    ledger = scripts["ledger"].Ledger(path)
    groups = scripts["claims"].BLOCKAGE if regime == "blockage" else (*scripts["claims"].BEAMS, "rf")
    for arm, figure in scores.items():
        values = figure if isinstance(figure, tuple) else tuple(figure + 0.001 * ((7 * seed) % 5) for seed in SEEDS)
        for seed, value in zip(SEEDS, values, strict=True):
            ledger.put(score_row(scripts, regime, arm, seed, value, group) for group in (*groups, "all clients"))
    return ledger


def judged(scripts: Mapping[str, ModuleType], ledger: Any, regimes: Iterable[str]) -> dict[str, Any]:
    """What decides of every regime, without the correction for samples that are dealt anew."""
    return {name: scripts["judged_controls"].judged_controls(ledger.of(name), 0.0) for name in regimes}
