"""Interrupted run: what its folder holds, checked before anything in it is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...emulator.contracts import ConfigError
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml
from ..wiring.taking_part import observed_in
from .checkpoint import Checkpoint, has_checkpoint, read_checkpoint
from .metric_rows import METRICS, observed_until
from .stored_run import StoredSummary

#: Name of the folder of checkpoints in a run folder.
CHECKPOINTS = "checkpoint"
#: File of a run folder that grows with the messages over radio links.
LINKS = "links.jsonl"
#: File about edges and held-out answers, written after the last round.
DIAGNOSTICS = "diagnostics.json"
#: What to do about a run that another process writes.
RESUME_ANOTHER = "stop that process first"

_ENDING = re.compile(r"\.(partial|interrupted|failed)(-\d+)?$")
_ANEW = "start the run anew"


class Interrupted(NamedTuple):
    """Interrupted run that can be resumed.

    Attributes:
        path: path of its folder.
        scenario: scenario of the run.
        checkpoint: newest complete checkpoint.
    """

    path: Path
    scenario: Scenario
    checkpoint: Checkpoint

    @property
    def target(self) -> Path:
        """Path of the folder when the run is complete."""
        return target_of(self.path)


def real_folder(path: Path) -> Path:
    """The folder itself, where a link or a name like `.` leads to it: its name says what became of the run."""
    return path.resolve() if path.is_symlink() or path.name in {"", ".."} else path


def target_of(folder: Path) -> Path:
    """Path of the folder of an interrupted run when the run is complete."""
    return folder.with_name(_ENDING.sub("", folder.name))


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a run with all of its rounds, under the name that it was to have."""
    return (folder / "summary.json").exists() and folder == target_of(folder)


def resumable_scenario(folder: Path, edits: Mapping[str, Any] | None = None) -> Scenario:
    """Scenario of a run that was interrupted, killed, or failed; or of a complete one that is to have more rounds.

    Args:
        folder: of the run.
        edits: dotted key -> value of what is to change.

    Raises:
        SheafedgeError: there is nothing to resume, or the folder is not that of a run.
    """
    if is_complete(folder) and "rounds" not in (edits or {}):
        raise ConfigError(f"run {folder} is complete; there is nothing to resume, but --set rounds=N trains on")
    if is_complete(folder) and not has_checkpoint(folder / CHECKPOINTS):
        raise ConfigError(
            f"run {folder} is complete and has no checkpoint to train on from; run it with --set keep_checkpoint=true"
        )
    path = folder / "scenario.toml"
    if not path.is_file():
        raise ConfigError(
            f"{folder} is not the folder of a run that was interrupted; give one that ends in .partial, .interrupted or"
            " .failed"
        )
    return stored_scenario(read_toml(path), str(path))


def interrupted_run(folder: Path, edits: Mapping[str, Any] | None = None) -> Interrupted:
    """Scenario and newest checkpoint of a run; for the arguments see `resumable_scenario`. The edits are not made.

    Raises:
        SheafedgeError: it is complete, or nothing that can go on is there.
    """
    return Interrupted(folder, resumable_scenario(folder, edits), read_checkpoint(folder / CHECKPOINTS))


def last_summary(folder: Path) -> dict[str, Any] | None:
    """Summary of a run that lacks nothing but the name of its folder; None: it lacks more."""
    try:
        content = (folder / "summary.json").read_bytes()
        StoredSummary.model_validate_json(content)
    except (OSError, ValueError):  # pydantic's is a ValueError
        return None
    summary: dict[str, Any] = json.loads(content)
    return summary


def written_bytes(checkpoint: Checkpoint) -> dict[str, int]:
    """Name of a file that grows with the rounds -> length that it had at a checkpoint."""
    state = checkpoint.state
    return {METRICS: state["metrics_bytes"], LINKS: state.get("links_bytes", 0)}


def check_rows(interrupted: Interrupted) -> None:
    """Refuse an interrupted run whose files do not agree on how far it was: its rows would not be those of one run.

    Up to its checkpoint it holds every round once of every client that took part in it, as lines or columns, whatever
    was written after it.

    Raises:
        ConfigError: as said.
    """
    folder, scenario, checkpoint = interrupted
    if not 1 <= checkpoint.rounds_done <= scenario.rounds:
        raise ConfigError(
            f"checkpoint {checkpoint.path} is of round {checkpoint.rounds_done}, its scenario has {scenario.rounds}"
            f" rounds; {_ANEW}"
        )
    n_link_bytes = written_bytes(checkpoint)[LINKS]
    path = folder / LINKS
    found_bytes = path.stat().st_size if path.is_file() else 0
    if not (type(n_link_bytes) is int and 0 <= n_link_bytes <= found_bytes):
        raise ConfigError(f"{path} is shorter than at checkpoint {checkpoint.path.name}; {_ANEW}")
    path, n_bytes = folder / METRICS, written_bytes(checkpoint)[METRICS]
    try:
        found_bytes = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); {_ANEW}") from None
    try:
        found = observed_until(folder, checkpoint.rounds_done, n_bytes)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        found = []
    # within a round clients report in the order in which they finish
    wanted = observed_in(scenario, checkpoint.rounds_done)
    if not 0 <= n_bytes <= found_bytes or sorted(found, key=str) != sorted(wanted, key=str):
        raise ConfigError(
            f"{path} does not hold each of the {checkpoint.rounds_done} rounds of checkpoint {checkpoint.path.name}"
            f" once for every client that took part in it; {_ANEW}"
        )
