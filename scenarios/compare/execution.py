"""Execution of the missing runs of a comparison, one by one or in parallel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ...emulator.contracts import ConfigError
from ..workers.ray_cluster import Engine, RayShare
from .jobs import Job, JobOutcome, JobQueue, run_job
from .parallel_jobs import JobProcesses
from .plan import PlannedRun
from .ray_jobs import RayJobs
from .stored_runs import ONE_BY_ONE, stored_state


class ComparisonProgress(Protocol):
    """Callbacks that follow a comparison; `terminal.compare_console.ComparisonLines` prints them."""

    def begun(self, n_runs: int, n_stored: int, stale: Mapping[str, int]) -> None:
        """The comparison needs `n_runs` different runs, of which `n_stored` are stored and will not be repeated.

        `stale` counts runs that other software made, by what is different: they are among the stored ones if stale
        runs are kept, and repeated otherwise.
        """
        ...

    def recorded(self, seed: int, outcome: JobOutcome) -> None:
        """The world of a seed was recorded, or its recording was found."""
        ...

    def ended(self, run: PlannedRun, folder: Path, outcome: JobOutcome) -> None:
        """A run is complete, or failed."""
        ...


class NoComparisonProgress:
    """Callbacks that do nothing."""

    def begun(self, n_runs: int, n_stored: int, stale: Mapping[str, int]) -> None:
        """Ignored."""

    def recorded(self, seed: int, outcome: JobOutcome) -> None:
        """Ignored."""

    def ended(self, run: PlannedRun, folder: Path, outcome: JobOutcome) -> None:
        """Ignored."""


def execute(
    runs: Sequence[PlannedRun],
    folder: Path,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
    *,
    keep_stale: bool = False,
    share: RayShare | None = None,
) -> dict[str, JobOutcome]:
    """Makes the runs that are not stored.

    Args:
        runs: runs of the comparison; runs with the same name are one run.
        folder: parent of the run folders.
        jobs: number of parallel runs. 1: in this process, with the executor of the scenario. More: each in a process
            with an equal share of the processors.
        progress: callbacks; None: no progress.
        engine: "ray" makes every run a Ray task.
        keep_stale: complete runs of other code, or another torch, count as stored.
        share: what Ray gives to every task; None: one processor.

    Returns:
        Name of a failed run -> its outcome.

    Raises:
        ConfigError: fewer than one job.
        SheafedgeError: a process died.
    """
    if jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {jobs}; 2 makes two runs at a time")
    progress = progress or NoComparisonProgress()
    different = {run.name: run for run in reversed(runs)}  # the first of the runs that share a name
    refused = [run for run in different.values() if run.refusal]
    possible = [run for run in runs if different[run.name] is run and not run.refusal]
    found = {run.name: stored_state(folder / run.name, run.scenario) for run in possible}
    kept = {"stored", "stale"} if keep_stale else {"stored"}
    missing = [run for run in possible if found[run.name].kind not in kept]
    stale = Counter(state.reason for state in found.values() if state.kind == "stale")
    progress.begun(len(different), len(possible) - len(missing), stale)
    # in this process the scenario keeps its own executor and threads
    here = not missing or (jobs == 1 and engine == "processes")  # no Ray and no pool where every run is stored
    share, n_jobs = share or RayShare(), max(1, min(jobs, len(missing)))
    threads = int(share.cpus) if engine == "ray" else (os.cpu_count() or 1) // jobs
    queue = JobQueue.of(missing if here else [_with_threads(run, max(1, threads)) for run in missing], folder)
    failed = {run.name: JobOutcome(0.0, "ConfigError", run.refusal) for run in refused}
    for run in refused:
        progress.ended(run, folder / run.name, failed[run.name])
    pool = RayJobs(n_jobs, share) if engine == "ray" else JobProcesses(n_jobs)
    for job, outcome in _one_by_one(queue) if here else _in_parallel(queue, pool):
        if job.folder is None:
            progress.recorded(job.scenario.seed, outcome)
            continue
        if outcome.error:
            failed[job.folder.name] = outcome
        progress.ended(different[job.folder.name], job.folder, outcome)
    return failed


def _with_threads(run: PlannedRun, threads: int) -> PlannedRun:
    executor = run.scenario.compute.executor
    if executor in ONE_BY_ONE:
        executor = "threads" if threads > 1 else "serial"
    # the run keeps its name: neither change can change a result
    scenario = run.scenario.edited({"compute.executor": executor, "compute.threads": threads})
    return replace(run, scenario=scenario)


def _one_by_one(queue: JobQueue) -> Iterator[tuple[Job, JobOutcome]]:
    while job := queue.take():
        outcome = queue.failed_recording(job) or run_job(job)
        queue.ended(job, outcome)
        yield job, outcome


def _in_parallel(queue: JobQueue, opened: JobProcesses | RayJobs) -> Iterator[tuple[Job, JobOutcome]]:
    with opened as pool:
        while True:
            while pool.has_room and (job := queue.take()):
                if outcome := queue.failed_recording(job):
                    yield job, outcome
                else:
                    pool.begin(job)
            # nothing runs and nothing can start, so that nothing will ever start: the queue is empty
            if not pool.is_busy:
                return
            for job, outcome in pool.next_ended():
                queue.ended(job, outcome)
                yield job, outcome
