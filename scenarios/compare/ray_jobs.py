"""Jobs of a comparison as Ray tasks. Their hosts need share no folder: runs and recordings travel as bytes."""

from __future__ import annotations

import shutil
import socket
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomli_w

from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.whole_file import sync
from ..plugins.loading import PluginSource, load_plugin_sources, loaded_sources
from ..recording.recording_cache import Recording, found_recording, keep_recording
from ..schema.scenario import Scenario, validated
from ..workers.ray_cluster import RayShare, fetched, is_cluster_given, one_line, ray_running
from .comparison_report import writing
from .jobs import Job, JobOutcome, run_job
from .stored_runs import replacing_run, run_software

#: Fields of a `JobOutcome`: Ray pickles numbers and texts, and no class of ours.
Told = tuple[float, str, str]
#: Path below the parent of a run folder, and content, of every file.
Files = list[tuple[str, bytes]]

#: Jobs are pure: one that was lost with its host is made again on another one, by Ray.
_RETRIES = 2
_STOPPING_S = 3.0  # for interrupted jobs to remove their folders


def make_run(
    scenario: str, name: str, software: Mapping[str, str], plugins: Sequence[Sequence[str]], recording: Sequence[Any]
) -> tuple[Told, Files]:
    """Ray task that makes a run in a folder of its own, and returns what came of it.

    Args:
        scenario: scenario as TOML.
        name: name of the run folder.
        software: what the host of the command would make it with.
        plugins: sources of plugins, three texts each.
        recording: Ray's reference to the recording of its world, which is fetched where this host has none; may be
            empty.
    """
    try:
        wanted = _prepared(scenario, software, plugins)
        if recording and found_recording(wanted.recorded_world, wanted.seed) is None:
            keep_recording(tuple(fetched(recording[0])))
    except SheafedgeError as error:
        return (0.0, type(error).__name__, str(error)), []
    with tempfile.TemporaryDirectory(prefix="sheafedge-", ignore_cleanup_errors=True) as folder:
        outcome = run_job(Job(wanted, Path(folder) / name, ""))
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        files = [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]
    return (outcome.seconds, outcome.error, outcome.sentence), files


def make_recording(
    scenario: str, software: Mapping[str, str], plugins: Sequence[Sequence[str]], is_wanted: bool
) -> tuple[Told, Recording | None]:
    """Ray task that records the world of a scenario in the cache of its host, and returns it where it is wanted."""
    try:
        wanted = _prepared(scenario, software, plugins)
    except SheafedgeError as error:
        return (0.0, type(error).__name__, str(error)), None
    outcome = run_job(Job(wanted, None, ""))
    told = (outcome.seconds, outcome.error, outcome.sentence)
    path = found_recording(wanted.recorded_world, wanted.seed) if is_wanted and not outcome.error else None
    return told, None if path is None else (path.name, path.read_bytes())


def _prepared(scenario: str, software: Mapping[str, str], plugins: Sequence[Sequence[str]]) -> Scenario:
    """The scenario, on a host that makes the same of it as the host of the command would.

    Raises:
        SheafedgeError: it would not, or a plugin of its own cannot be loaded.
    """
    here = run_software()
    if other := next((name for name in software if software[name] != here[name]), None):
        values = "" if other == "code" else f" ({here[other]}, not {software[other]})"
        raise ConfigError(
            f"{socket.gethostname()} has another {other}{values} than the host of this command; install the same"
            " release of sheafedge and torch on all hosts of the cluster"
        )
    load_plugin_sources([PluginSource(*source) for source in plugins])  # before a scenario that has values of theirs
    return validated(tomllib.loads(scenario))


class RayJobs:
    """Pool of Ray tasks with the interface of `JobProcesses`.

    Args:
        n_jobs: largest number of parallel tasks.
        share: what each of them is given.

    Raises:
        SheafedgeError: Ray is not installed, does not start, or has no room; on entering.
    """

    def __init__(self, n_jobs: int, share: RayShare) -> None:
        self._n_jobs, self._share = n_jobs, share
        self._until = ExitStack()
        self._ray: Any = None
        self._busy: dict[Any, tuple[Job, Any]] = {}
        self._recordings: dict[str, Any] = {}
        self._software = run_software()

    def __enter__(self) -> Self:
        self._ray = self._until.enter_context(ray_running(self._n_jobs, self._share, n_needed=1))
        strategy = "SPREAD" if self._share.placement == "spread" else "DEFAULT"
        task = self._ray.remote(
            num_cpus=self._share.cpus,
            num_gpus=self._share.gpus,
            max_retries=_RETRIES,
            scheduling_strategy=strategy,
            num_returns=2,
        )
        self._make_run, self._make_recording = task(make_run), task(make_recording)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._until:
            for told in self._busy:
                self._ray.cancel(told)  # raises KeyboardInterrupt in it
            if self._busy:
                self._ray.wait(list(self._busy), num_returns=len(self._busy), timeout=_STOPPING_S)

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
        told, made = self._recording_of(job) if job.folder is None else self._run_of(job, job.folder.name)
        self._busy[told] = job, made

    def next_ended(self) -> Iterator[tuple[Job, JobOutcome]]:
        """Wait until a job ends, and yield it with its outcome.

        Raises:
            ConfigError: the folder of a run cannot be written.
            SheafedgeError: Ray lost a task, again and again.
        """
        # one at a time: its slot is filled before the next one is awaited
        ready, _ = self._ray.wait(list(self._busy), num_returns=1)
        for told in ready:
            job, made = self._busy.pop(told)
            with self._losses_in_one_sentence():
                outcome = JobOutcome(*self._ray.get(told))
                if job.folder is not None:
                    store_run(job.folder, self._ray.get(made))
                elif is_cluster_given() and not outcome.error:
                    self._share_recording(job, made)
            yield job, outcome

    def _run_of(self, job: Job, name: str) -> tuple[Any, Any]:
        # in a list, because Ray would fetch a bare reference to every host, also to those that have the recording
        recording = [self._recordings[job.world]] if job.world in self._recordings else []
        told, made = self._make_run.remote(_text(job), name, self._software, _plugins(), recording)
        return told, made

    def _recording_of(self, job: Job) -> tuple[Any, Any]:
        is_wanted = is_cluster_given()
        if is_wanted and (path := found_recording(job.scenario.recorded_world, job.scenario.seed)) is not None:
            return self._ray.put((0.0, "", "")), self._ray.put((path.name, path.read_bytes()))
        told, made = self._make_recording.remote(_text(job), self._software, _plugins(), is_wanted)
        return told, made

    def _share_recording(self, job: Job, made: Any) -> None:
        """Let the runs of a world fetch its recording, and keep it here, too."""
        self._recordings[job.world] = made
        if found_recording(job.scenario.recorded_world, job.scenario.seed) is None:
            keep_recording(self._ray.get(made))

    @contextmanager
    def _losses_in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except self._ray.exceptions.RayError as error:
            raise SheafedgeError(
                f"Ray lost a run ({one_line(error)}); the same command continues, with fewer --jobs if memory ran out"
            ) from None


def store_run(folder: Path, files: Files) -> None:
    """Put the files of a run that another process made into its place, all of them or none.

    Args:
        folder: run folder; that of a failed run gets the name that the run gave it, `NAME.failed`.
        files: path below the parent of the folder, and content.

    Raises:
        ConfigError: they cannot be written; what was there before is as it was.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    with writing(folder), replacing_run(folder):
        try:
            for name in sorted({path.partition("/")[0] for path, _ in files}):
                _write(partial, {path: content for path, content in files if path.startswith(f"{name}/")})
                partial.rename(folder.with_name(name))
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        file = folder / path.partition("/")[2]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        sync(file)


def _text(job: Job) -> str:
    return tomli_w.dumps(job.scenario.pinned_tables())


def _plugins() -> list[tuple[str, ...]]:
    return [tuple(source) for source in loaded_sources()]
