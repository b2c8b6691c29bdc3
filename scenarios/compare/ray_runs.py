"""Runs of a comparison as tasks of Ray, on this machine or on others that see the same folders."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import tomli_w

from ...emulator.contracts import SheafedgeError
from ..schema.scenario import validated
from ..workers.ray_cluster import ray_running
from .work import Done, Task, do


def make_run(scenario: str, folder: str, world: str) -> tuple[float, str, str]:
    """A piece of work of a comparison; returns the fields of `Done`.

    Args:
        scenario: as TOML.
        folder: of the run; empty: only record the world.
        world: which recording it needs or makes; empty: none.
    """
    done = do(Task(validated(tomllib.loads(scenario)), Path(folder) if folder else None, world))
    return done.seconds, done.error, done.sentence


class RayRuns:
    """The same door as `Processes`.

    Args:
        n_jobs: tasks at a time.

    Raises:
        SheafedgeError: Ray is not there, or does not start; on entering.
    """

    def __init__(self, n_jobs: int) -> None:
        self._n_jobs = n_jobs
        self._until = ExitStack()
        self._ray: ModuleType | None = None
        self._busy: dict[Any, Task] = {}

    def __enter__(self) -> Self:
        self._ray = self._until.enter_context(ray_running(self._n_jobs))
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(make_run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ray is not None
        with self._until:
            for task in self._busy:
                self._ray.cancel(task, force=True)

    @property
    def has_room(self) -> bool:
        """Whether another piece of work can begin."""
        return len(self._busy) < self._n_jobs

    @property
    def is_busy(self) -> bool:
        """Whether anything is being worked on."""
        return bool(self._busy)

    def begin(self, task: Task) -> None:
        """Hand out a piece of work; there must be room."""
        folder = "" if task.folder is None else str(task.folder.absolute())
        self._busy[self._task.remote(tomli_w.dumps(task.scenario.tables()), folder, task.world)] = task

    def next_ended(self) -> Iterator[tuple[Task, Done]]:
        """Wait for those that end next.

        Raises:
            SheafedgeError: a task is gone.
        """
        assert self._ray is not None
        ready, _ = self._ray.wait(list(self._busy), num_returns=1)
        for one in ready:
            task = self._busy.pop(one)
            try:
                done = Done(*self._ray.get(one))
            except self._ray.exceptions.RayError as error:
                raise SheafedgeError(
                    f"Ray has lost a run ({type(error).__name__}), perhaps for want of memory; use fewer --jobs, the"
                    " same command continues"
                ) from None
            yield task, _as_seen_here(task, done)


def _as_seen_here(task: Task, done: Done) -> Done:
    """A run that another host has written where this one cannot see it has failed."""
    if task.folder is None or done.error or (task.folder / "summary.json").exists():
        return done
    sentence = f"its host has written {task.folder} where this one does not see it; use an --out that all hosts share"
    return Done(done.seconds, "DataError", sentence)
