"""Pieces of work of a comparison: worlds to record and runs to make, in an order that records every world once."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...emulator.contracts import SheafedgeError
from ..recording.recording_cache import recording_key
from ..running.run import run_scenario
from ..schema.scenario import Scenario
from ..wiring.data import recording_paths
from .plan import PlannedRun
from .stored_runs import replacing_run


@dataclass(frozen=True, slots=True)
class Task:
    """A run to make, or a world to record.

    Attributes:
        scenario: of the run, or one that has this world.
        folder: of the run; None: only record the world.
        world: which recording it needs or makes; empty: none.
    """

    scenario: Scenario
    folder: Path | None
    world: str


@dataclass(frozen=True, slots=True)
class Done:
    """How a piece of work ended.

    Attributes:
        seconds: that it took here.
        error: name of what went wrong; empty: nothing.
        sentence: about it.
    """

    seconds: float
    error: str = ""
    sentence: str = ""


def do(task: Task) -> Done:
    """Work; what a user can put right is an outcome like any other."""
    started_s = time.perf_counter()
    error, sentence = "", ""
    try:
        if task.folder is None:
            recording_paths(task.scenario)
        else:
            with replacing_run(task.folder):
                run_scenario(task.scenario, task.folder, checkpoints=False)  # short; a comparison goes on run by run
    except SheafedgeError as wrong:
        error, sentence = type(wrong).__name__, str(wrong)
    gc.collect()  # a run is full of cycles that hold hundreds of megabytes, and the next one is about to begin
    return Done(time.perf_counter() - started_s, error, sentence)


@dataclass(slots=True)
class Agenda:
    """What is left to do; runs wait until the world that they read is recorded.

    Attributes:
        waiting: in the order in which they are to begin.
        recorded: worlds, and what went wrong with them.
    """

    waiting: list[Task]
    recorded: dict[str, Done] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[PlannedRun], folder: Path) -> Agenda:
        """These runs, each behind the recording of its world."""
        tasks, worlds = [], set()
        for run in runs:
            scenario = run.scenario
            from_world = scenario.data.source == "world"
            world = recording_key(scenario.recorded_world, scenario.seed) if from_world else ""
            if from_world and world not in worlds:
                worlds.add(world)
                tasks.append(Task(scenario, None, world))
            tasks.append(Task(scenario, folder / run.name, world))
        return cls(tasks)

    def take(self) -> Task | None:
        """The next that can begin; None: none can, until something else has ended."""
        for index, task in enumerate(self.waiting):
            if task.folder is None or not task.world or task.world in self.recorded:
                return self.waiting.pop(index)
        return None

    def doomed(self, task: Task) -> Done | None:
        """How a run ends whose world could not be recorded."""
        recorded = self.recorded.get(task.world)
        return recorded if recorded is not None and recorded.error else None

    def ended(self, task: Task, done: Done) -> None:
        """Let those begin that have waited for this."""
        if task.folder is None:
            self.recorded[task.world] = done
