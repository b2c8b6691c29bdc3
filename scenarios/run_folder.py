"""The folder that a run leaves: under a temporary name while it grows, under its own when it is complete."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import tomli_w

from ..emulator.contracts import ConfigError, SheafedgeError
from .schema import Scenario


class RunFolder:
    """A run folder being filled.

    Attributes:
        path: where files go now.
        target: what it will be called when complete.
        metrics: open `metrics.jsonl`.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self.target = path, target
        self.metrics: TextIO = (path / "metrics.jsonl").open("w", encoding="utf-8")

    def write_scenario(self, scenario: Scenario) -> None:
        """The resolved scenario, enough to repeat the run."""
        text = tomli_w.dumps(scenario.model_dump(mode="json"))
        (self.path / "scenario.toml").write_text(text, encoding="utf-8")

    def add_row(self, row: Mapping[str, Any]) -> None:
        """One line of `metrics.jsonl`."""
        self.metrics.write(json.dumps(row) + "\n")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """`summary.json`."""
        (self.path / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def default_target(scenario: Scenario) -> Path:
    """A new name under `runs/`."""
    stem = f"{scenario.name}-{scenario.algorithm}-seed{scenario.seed}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (Path("runs") / (stem if n == 1 else f"{stem}-{n}") for n in range(1, 1000))
    return next(path for path in names if not path.exists())


@contextmanager
def open_run_folder(target: Path) -> Iterator[RunFolder]:
    """Fill a run folder; whatever ends the block decides its name.

    Complete: `target`. Interrupted from the keyboard: `target.interrupted`, with a note. Failed: `target.failed`, with
    the reason.

    Raises:
        ConfigError: `target` exists, or its parent cannot be written.
    """
    if target.exists():
        raise ConfigError(f"output folder {target} exists already; choose another with --out, or move it away")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".partial", dir=target.parent))
        folder = RunFolder(path, target)
    except OSError as error:
        raise ConfigError(
            f"output folder {target} cannot be written ({error.strerror or error}); choose another with --out"
        ) from None
    path.chmod(0o755)  # mkdtemp's is private
    try:
        yield folder
    except KeyboardInterrupt:
        _set_aside(folder, "interrupted", "Interrupted from the keyboard; metrics.jsonl holds the rounds until then.")
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, SheafedgeError) else f"{type(error).__name__}: {error}"
        _set_aside(folder, "failed", reason)
        raise
    folder.metrics.close()
    path.rename(target)


def _set_aside(folder: RunFolder, ending: str, note: str) -> None:
    folder.metrics.close()
    (folder.path / f"{ending.upper()}.txt").write_text(note + "\n", encoding="utf-8")
    names = (f"{folder.target.name}.{ending}" + ("" if n == 1 else f"-{n}") for n in range(1, 1000))
    folder.path.rename(next(p for p in map(folder.target.with_name, names) if not p.exists()))
