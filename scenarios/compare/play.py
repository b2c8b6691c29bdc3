"""Make the runs of a comparison that are not there yet, one after another or side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ...emulator.contracts import ConfigError
from ..workers.ray_cluster import Engine
from .plan import PlannedRun
from .processes import Processes
from .ray_runs import RayRuns
from .stored_runs import is_stored
from .work import Agenda, Done, Task, do


class ComparisonProgress(Protocol):
    """Who wants to follow a comparison; `console.ComparisonLines` prints it."""

    def begun(self, n_runs: int, n_stored: int) -> None:
        """So many different runs it takes, and so many of them are there."""
        ...

    def recorded(self, seed: int, done: Done) -> None:
        """A world has been recorded, or found."""
        ...

    def ended(self, run: PlannedRun, folder: Path, done: Done) -> None:
        """A run is there, or has failed."""
        ...


class NoComparisonProgress:
    """Nobody follows."""

    def begun(self, n_runs: int, n_stored: int) -> None:
        """Ignored."""

    def recorded(self, seed: int, done: Done) -> None:
        """Ignored."""

    def ended(self, run: PlannedRun, folder: Path, done: Done) -> None:
        """Ignored."""


def play(
    runs: Sequence[PlannedRun],
    folder: Path,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
) -> dict[str, Done]:
    """Make the runs that are not there.

    Args:
        runs: of the comparison; those of one name are one run.
        folder: of the run folders.
        jobs: processes; 1 works in this one, with the scenario's own executor. More share the processors out.
        progress: is told how far it is.
        engine: "ray" makes every run a task of Ray.

    Returns:
        Name of every run that cannot be -> why.

    Raises:
        ConfigError: no job.
        SheafedgeError: a process was killed.
    """
    if jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {jobs}; 2 makes two runs at a time")
    progress = progress or NoComparisonProgress()
    different = {run.name: run for run in reversed(runs)}  # of those that share a name, the first is told of
    missing = [run for run in runs if different[run.name] is run and not is_stored(folder / run.name, run.scenario)]
    progress.begun(len(different), len(different) - len(missing))
    here = jobs == 1 and engine == "processes"
    agenda = Agenda.of(missing if here else [_with_its_share(run, jobs, engine) for run in missing], folder)
    failed = {}
    for task, done in _one_by_one(agenda) if here else _side_by_side(agenda, min(jobs, len(missing)), engine):
        if task.folder is None:
            progress.recorded(task.scenario.seed, done)
            continue
        if done.error:
            failed[task.folder.name] = done
        progress.ended(different[task.folder.name], task.folder, done)
    return failed


def _with_its_share(run: PlannedRun, jobs: int, engine: Engine) -> PlannedRun:
    threads = max(1, (os.cpu_count() or 1) // jobs) if engine == "processes" else 1  # Ray gives a task one processor
    executor = "threads" if threads > 1 else "serial"
    scenario = run.scenario.edited({"compute.executor": executor, "compute.threads": threads})
    return replace(run, scenario=scenario)


def _one_by_one(agenda: Agenda) -> Iterator[tuple[Task, Done]]:
    while task := agenda.take():
        done = agenda.doomed(task) or do(task)
        agenda.ended(task, done)
        yield task, done


def _side_by_side(agenda: Agenda, jobs: int, engine: Engine) -> Iterator[tuple[Task, Done]]:
    if jobs == 0:
        return
    with RayRuns(jobs) if engine == "ray" else Processes(jobs) as processes:
        while True:
            while processes.has_room and (task := agenda.take()):
                if done := agenda.doomed(task):
                    yield task, done
                else:
                    processes.begin(task)
            if not processes.is_busy:
                return
            for task, done in processes.next_ended():
                agenda.ended(task, done)
                yield task, done
