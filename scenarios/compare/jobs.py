"""Jobs of a comparison: recordings and runs, ordered so that every world is recorded once."""

from __future__ import annotations

import gc
import time
import traceback
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
class Job:
    """A run, or the recording of a world.

    Attributes:
        scenario: scenario of the run, or a scenario with this world.
        folder: run folder; None: only record the world.
        world: key of the recording that the job needs or makes; empty: none.
    """

    scenario: Scenario
    folder: Path | None
    world: str


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Outcome of a job.

    Attributes:
        seconds: duration in real seconds.
        error: class name of the error; empty: success.
        sentence: message of the error.
    """

    seconds: float
    error: str = ""
    sentence: str = ""


def run_job(job: Job) -> JobOutcome:
    """Run a job; an error that the user can correct is returned as an outcome.

    So is any other exception, for one method's plugin must not cost the others' runs; its traceback is printed.
    """
    started_s = time.perf_counter()
    error, sentence = "", ""
    try:
        if job.folder is None:
            # the world is recorded as a side effect; runs find the file by its key
            recording_paths(job.scenario)
        else:
            with replacing_run(job.folder):
                run_scenario(job.scenario, job.folder, checkpoints=False)  # no checkpoints: runs are short
    except SheafedgeError as wrong:
        error, sentence = type(wrong).__name__, str(wrong)
    except Exception as wrong:  # noqa: BLE001 - code of plugins raises what it likes
        traceback.print_exc()
        error, sentence = type(wrong).__name__, _unexpected(wrong)
    gc.collect()  # reference cycles of a run hold hundreds of megabytes; free them before the next
    return JobOutcome(time.perf_counter() - started_s, error, sentence)


def _unexpected(wrong: Exception) -> str:
    """An exception that is no sentence for users, with the place that raised it."""
    raised: BaseException = wrong
    # SimPy raises a copy of what a process raised, whose cause has the place
    while (cause := raised.__cause__) is not None and (type(cause), cause.args) == (type(raised), raised.args):
        raised = cause
    place = traceback.extract_tb(raised.__traceback__)[-1]
    told = f"{type(wrong).__name__}: {wrong}".splitlines()[0]
    return f"{told} ({Path(place.filename).name}, line {place.lineno}; its traceback was printed)"


@dataclass(slots=True)
class JobQueue:
    """Jobs that have not started; a run waits until its world is recorded.

    Attributes:
        waiting: jobs in the order in which they start.
        recorded: key of a world -> outcome of its recording.
    """

    waiting: list[Job]
    recorded: dict[str, JobOutcome] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[PlannedRun], folder: Path) -> JobQueue:
        """Queue of these runs, each world's recording before the first run that reads it."""
        jobs, worlds = [], set()
        for run in runs:
            scenario = run.scenario
            # the key covers the seed: every seed has a world of its own
            from_world = scenario.data.source == "world"
            world = recording_key(scenario.recorded_world, scenario.seed) if from_world else ""
            if from_world and world not in worlds:
                worlds.add(world)
                jobs.append(Job(scenario, None, world))
            jobs.append(Job(scenario, folder / run.name, world))
        return cls(jobs)

    def take(self) -> Job | None:
        """Next job that can start; None: none can start before another one ends."""
        # not only the first: while one world is recorded, runs of other worlds use the idle processes
        for index, job in enumerate(self.waiting):
            if job.folder is None or not job.world or job.world in self.recorded:
                return self.waiting.pop(index)
        return None

    def failed_recording(self, job: Job) -> JobOutcome | None:
        """Outcome of the failed recording that this job needs; None: it did not fail."""
        recorded = self.recorded.get(job.world)
        return recorded if recorded is not None and recorded.error else None

    def ended(self, job: Job, outcome: JobOutcome) -> None:
        """Note the end of a job; runs that wait for its recording can start."""
        if job.folder is None:
            self.recorded[job.world] = outcome
