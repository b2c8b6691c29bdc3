"""Training on: a run is resumed with more rounds than it was begun with, as if it had been begun with so many."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...emulator.contracts import ConfigError
from ..schema.scenario import Scenario
from .interrupted_run import CHECKPOINTS, LINKS, Interrupted
from .metric_columns import COLUMNS
from .metric_rows import METRICS

#: Fields that decide nothing about rounds which are over.
MAY_CHANGE = (
    "rounds",
    "checkpoint_every",
    "keep_checkpoint",
    "compute.executor",
    "compute.lost_worker",
    "compute.threads",
    "decision",
    "export",
)
#: What a run that trains on takes over from a complete one.
_TAKEN = ("scenario.toml", METRICS, COLUMNS, LINKS, CHECKPOINTS, "plugins")


def check_resumed_edits(edits: Mapping[str, Any]) -> None:
    """Refuse edits of a run that has begun, other than of fields which decide nothing about what is over.

    Raises:
        ConfigError: naming the first such field.
    """
    for key in edits:
        if not any(key == field or key.startswith(f"{field}.") for field in MAY_CHANGE):
            raise ConfigError(
                f"--resume cannot change {key}, which decided the rounds that are over; it can change"
                f" {', '.join(MAY_CHANGE)}; for anything else start a new run"
            )


def with_edits(interrupted: Interrupted, edits: Mapping[str, Any]) -> Interrupted:
    """The run with some fields changed, so that what it becomes equals a run that had these values from its start.

    Args:
        interrupted: run with its newest checkpoint.
        edits: dotted key -> value.

    Raises:
        ConfigError: a field that cannot change, or a number of rounds with which the rounds that are over would have
            been others.
    """
    check_resumed_edits(edits)
    before, done = interrupted.scenario, interrupted.checkpoint.rounds_done
    after = before.edited(edits)
    if after.rounds != before.rounds:
        _check_rounds(before, after.rounds, done)
    return interrupted._replace(scenario=after)


def _check_rounds(scenario: Scenario, rounds: int, done: int) -> None:
    """Refuse a number of rounds with which the rounds until the checkpoint would not have been the same."""
    if rounds <= done:
        raise ConfigError(f"rounds must be above {done}, which are done, got {rounds}")
    if scenario.algorithm_spec.tunes and scenario.sharing.until == 0:
        raise ConfigError(
            f"rounds of {scenario.algorithm} cannot change, because the last fifth of them is for training alone; start"
            " a new run with sharing.until set"
        )
    if scenario.data.mode == "live" and scenario.links.settings_of("trace").at_end == "stretch":
        raise ConfigError(
            "rounds cannot change where links.trace.at_end = 'stretch' fits traces to the length of the run; start a"
            " new run"
        )
    if done == scenario.rounds and done % scenario.evaluate_every:
        raise ConfigError(
            f"rounds cannot change after the last of {done} rounds was evaluated although evaluate_every ="
            f" {scenario.evaluate_every} does not divide {done}: a longer run would not have done so; start a new run"
        )


def target_of_longer(folder: Path, rounds: int) -> Path:
    """Path of the run that trains on where a complete one ended, which stays as it is."""
    return folder.with_name(f"{folder.name}-{rounds}rounds")


def copied_run(folder: Path, target: Path) -> Path:
    """Folder `target.partial` with what a run that trains on takes over from a complete one.

    Raises:
        ConfigError: it cannot be written.
    """
    path = target.with_name(f"{target.name}.partial")
    try:
        path.mkdir()
        for name in _TAKEN:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, path / name)
            elif (folder / name).exists():
                shutil.copy2(folder / name, path / name)
    except OSError as error:
        raise ConfigError(f"cannot copy {folder} to {path} ({error.strerror}); make room or move it away") from None
    return path
