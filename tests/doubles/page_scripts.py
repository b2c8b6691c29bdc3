"""Scripts behind a page of results; they lie beside each other in folders of docs, and are no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


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


def score_row(
    scripts: Mapping[str, ModuleType], regime: str, arm: str, seed: int, score: float, group: str = "all clients"
) -> Any:
    """A row of the kept scores, of no run that ever was."""
    return scripts["ledger"].Row(
        regime, arm, "", seed, group, 4, score, 100, 50, 12.5, 3.25, 60.0, 0.01, 0.1, "c0de", "P, V"
    )
