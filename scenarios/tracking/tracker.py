"""What a tracker of experiments is, and what it is told of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Tracker(Protocol):
    """One run in a tool that tracks experiments; any method may raise what its tool raises."""

    def log(self, rounds_done: int, figures: Mapping[str, float]) -> None:
        """Store figures of a round; a round that is repeated after a worker was lost is logged again."""
        ...

    def close(self, final: Mapping[str, float] | None) -> None:
        """End the run: with its final figures, or None where it was stopped or failed."""
        ...


class TrackedRun(NamedTuple):
    """What a tracker is told of a run.

    Attributes:
        folder: folder of the tracker, for this and other runs.
        project: runs of one project are compared: name of the scenario.
        name: name of the run folder.
        settings: dotted field of the scenario -> value; without fields that have their defaults.
    """

    folder: Path
    project: str
    name: str
    settings: Mapping[str, Any]
