"""The folder that a run leaves: under a temporary name while it grows, under its own when it is complete."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
        text = tomli_w.dumps(scenario.tables())
        with self.writing():
            (self.path / "scenario.toml").write_text(text, encoding="utf-8")

    def add_row(self, row: Mapping[str, Any]) -> None:
        """One line of `metrics.jsonl`."""
        with self.writing():
            self.metrics.write(json.dumps(row) + "\n")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """`summary.json`."""
        with self.writing():
            (self.path / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    def close(self) -> None:
        """No more rows."""
        with self.writing():
            self.metrics.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around everything that writes into the folder.

        Raises:
            ConfigError: the disk is full, or the folder was taken away.
        """
        try:
            yield
        except OSError as error:
            raise _unwritable(self.target, error) from error


def default_target(scenario: Scenario) -> Path:
    """A new name under `runs/`."""
    stem = f"{scenario.name}-{scenario.algorithm}-seed{scenario.seed}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (Path("runs") / (stem if n == 1 else f"{stem}-{n}") for n in range(1, 1000))
    return next(path for path in names if not path.exists())


def refuse_unusable(target: Path) -> None:
    """Find out early, before any work, whether a run folder of this name can be made.

    Raises:
        ConfigError: it exists, or no folder can be made there.
    """
    try:
        exists = os.path.lexists(target)  # a link that leads nowhere is in the way too
        ground = next(parent for parent in target.absolute().parents if parent.exists())
    except (OSError, ValueError) as error:
        raise _unwritable(target, error) from None
    if exists:
        raise ConfigError(f"output folder {target} exists already; choose another with --out, or move it away")
    if not ground.is_dir():
        raise ConfigError(
            f"output folder {target} cannot be made because {ground} is a file; choose another with --out"
        )


@contextmanager
def open_run_folder(target: Path) -> Iterator[RunFolder]:
    """Fill a run folder; whatever ends the block decides its name.

    Complete: `target`. Interrupted from the keyboard: `target.interrupted`, with a note. Failed: `target.failed`, with
    the reason. The exception then carries a note that says where.

    Raises:
        ConfigError: `target` exists, or cannot be written.
    """
    refuse_unusable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".partial", dir=target.parent))
        path.chmod(0o755)  # mkdtemp's is private
        folder = RunFolder(path, target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unwritable(target, error) from None
    try:
        yield folder
        folder.close()
        refuse_unusable(target)  # by now somebody else may have made it
        with folder.writing():
            path.rename(target)
    except KeyboardInterrupt as error:
        note = "Interrupted from the keyboard; metrics.jsonl holds the rounds until then."
        _set_aside(folder, "interrupted", note, error)
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, SheafedgeError) else f"{type(error).__name__}: {error}"
        _set_aside(folder, "failed", reason, error)
        raise


def _set_aside(folder: RunFolder, ending: str, note: str, error: BaseException) -> None:
    """Rename an incomplete folder, whatever the disk still allows, and tell where it is."""
    with suppress(OSError):  # the name alone says what happened
        folder.metrics.close()
    with suppress(OSError):
        (folder.path / f"{ending.upper()}.txt").write_text(note + "\n", encoding="utf-8")
    names = (f"{folder.target.name}.{ending}" + ("" if n == 1 else f"-{n}") for n in range(1, 1000))
    aside = next(path for path in map(folder.target.with_name, names) if not os.path.lexists(path))
    try:
        folder.path.rename(aside)
    except OSError:
        aside = folder.path
    error.add_note(f"what there is lies in {aside}")


def _unwritable(target: Path, error: Exception) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ConfigError(
        f"output folder {target} cannot be written ({reason}); make room there, or choose another with --out"
    )
