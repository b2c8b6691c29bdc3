"""Jobs of a comparison as Ray tasks, on this host or on hosts that share the same folders."""

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
from .jobs import Job, JobOutcome, run_job


def make_run(scenario: str, folder: str, world: str) -> tuple[float, str, str]:
    """Run a job that is described by plain text; returns the fields of `JobOutcome`.

    Args:
        scenario: scenario as TOML.
        folder: run folder; empty: only record the world.
        world: key of the recording that the job needs or makes; empty: none.
    """
    outcome = run_job(Job(validated(tomllib.loads(scenario)), Path(folder) if folder else None, world))
    return outcome.seconds, outcome.error, outcome.sentence


class RayJobs:
    """Pool of Ray tasks with the interface of `JobProcesses`.

    Args:
        n_jobs: largest number of parallel tasks.

    Raises:
        SheafedgeError: Ray is not installed or does not start; on entering.
    """

    def __init__(self, n_jobs: int) -> None:
        self._n_jobs = n_jobs
        self._until = ExitStack()
        self._ray: ModuleType | None = None
        self._busy: dict[Any, Job] = {}

    def __enter__(self) -> Self:
        self._ray = self._until.enter_context(ray_running(self._n_jobs))
        # no retries: a lost task is reported, and the same command continues with what is missing
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(make_run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ray is not None
        with self._until:
            for reference in self._busy:
                self._ray.cancel(reference, force=True)

    @property
    def has_room(self) -> bool:
        """Whether another job can start."""
        return len(self._busy) < self._n_jobs

    @property
    def is_busy(self) -> bool:
        """Whether any job is running."""
        return bool(self._busy)

    def begin(self, job: Job) -> None:
        """Start a job; `has_room` must be true."""
        # absolute: a task on another host has another working directory
        folder = "" if job.folder is None else str(job.folder.absolute())
        self._busy[self._task.remote(tomli_w.dumps(job.scenario.tables()), folder, job.world)] = job

    def next_ended(self) -> Iterator[tuple[Job, JobOutcome]]:
        """Wait until a job ends, and yield it with its outcome.

        Raises:
            SheafedgeError: Ray lost a task.
        """
        assert self._ray is not None
        # one at a time: its slot is filled before the next one is awaited
        ready, _ = self._ray.wait(list(self._busy), num_returns=1)
        for one in ready:
            job = self._busy.pop(one)
            try:
                outcome = JobOutcome(*self._ray.get(one))
            except self._ray.exceptions.RayError as error:
                raise SheafedgeError(
                    f"Ray lost a run ({type(error).__name__}), perhaps because memory ran out; use fewer --jobs, the"
                    " same command continues"
                ) from None
            yield job, _checked_here(job, outcome)


def _checked_here(job: Job, outcome: JobOutcome) -> JobOutcome:
    """The outcome, or a failure if another host wrote the run folder where this host cannot read it."""
    if job.folder is None or outcome.error or (job.folder / "summary.json").exists():
        return outcome
    sentence = f"another host wrote {job.folder}, which this host cannot read; use an --out that all hosts share"
    return JobOutcome(outcome.seconds, "DataError", sentence)
