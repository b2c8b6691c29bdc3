"""One run of a scenario: check, build, emulate, score, export, and write a run folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...emulator.contracts import ConfigError, MessageKind, ScenarioError, SheafedgeError
from ...emulator.network.transport.errors import WorkerLost
from ...emulator.network.transport.wire import Wire
from ...emulator.ownership import owned
from ..library.run_result import RunResult
from ..library.shown_progress import shown_run
from ..schema.compatibility import run_complaints
from ..schema.network_section import NetworkSection
from ..schema.scenario import Scenario, load_scenario
from ..wiring.emulation import make_transport
from ..wiring.encoders import check_weights
from ..wiring.pacing import pacing_of
from ..wiring.real_time_options import RealTime
from ..wiring.torch_setup import choose_device, gpu_arithmetic, one_torch_thread
from ..workers.worker_options import Workers
from ..workers.worker_pool import open_worker_pool
from .checkpoint import Checkpoint
from .diagnostics import run_diagnostics
from .interrupted_run import (
    RESUME_ANOTHER,
    Interrupted,
    check_rows,
    interrupted_run,
    is_complete,
    last_summary,
    real_folder,
    resumable_scenario,
    target_of,
)
from .progress import RunProgress
from .run_folder import (
    RunFolder,
    complete,
    default_targets,
    open_run_folder,
    owned_target,
    refuse_unusable,
    reopened_run_folder,
)
from .run_player import RunPlayer, check_origin
from .run_summary import run_summary
from .training_on import check_resumed_edits, copied_run, target_of_longer, with_edits


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Options of a run that change none of its results; see `run_scenario`."""

    progress: RunProgress
    workers: Workers | None
    real_time: RealTime | None


def run_scenario(
    scenario: Scenario | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    progress: RunProgress | bool | None = None,
    *,
    checkpoints: bool = True,
    workers: Workers | None = None,
    real_time: RealTime | None = None,
    live: bool | int = False,
) -> RunResult:
    """Run a scenario from nothing to exported models.

    Args:
        scenario: scenario to run, or the name or path that `load_scenario` takes.
        out: path of the run folder, which must not exist; None: a new one under `runs/`.
        progress: True: lines or a bar as on the command line; callbacks: these are called; None: no progress.
        checkpoints: whether checkpoints are written as the scenario says.
        workers: processes that run its clients; None: this process does. The results are the same.
        real_time: how its clock follows real time; None: it does not. The results are the same, except where outside
            processes play clients of it: such a run writes no checkpoints, because the state of those is elsewhere.
        live: True: a page on loopback shows the run while it goes on, and its address is printed; a number: at this
            port. The results are the same.

    Returns:
        The folder of the run and what is in it: scores, data frames, models, bundles, report.

    Raises:
        WorkerLost: a worker died.
        OwnedError: another process makes a run of this name.
        SheafedgeError: a field, a file, the training or an export is wrong; the message says which and what to do.

    Examples:
        >>> from sheafedge import load_scenario, run_scenario
        >>> small = {"clients.n_clients": 4, "rounds": 2, "link.loss_probability": 0.1, "export.onnx": False}
        >>> result = run_scenario(load_scenario("digits").edited(small), "runs/small")
        >>> result.summary["groups"]["all"]["accuracy"] > 0.5
        True
        >>> (result.folder / "metrics.jsonl").exists()
        True
    """
    chosen = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    # All that can be wrong is found before the first round, and nothing but a lock is on disk until then.
    every = chosen.checkpoint_every if checkpoints and not (real_time and real_time.outside) else 0
    folder, defaults = None if out is None else Path(out), default_targets(chosen.name, chosen.algorithm, chosen.seed)
    with owned_target(folder, defaults) as target, shown_run(progress, chosen, live, target) as callbacks:
        return _played(chosen, every, _Conditions(callbacks, workers, real_time), open_run_folder(target))


def resume_run(
    path: str | os.PathLike[str],
    progress: RunProgress | bool | None = None,
    workers: Workers | None = None,
    real_time: RealTime | None = None,
    edits: Mapping[str, Any] | None = None,
    *,
    live: bool | int = False,
) -> RunResult:
    """Go on with a run that was interrupted, killed or failed, as if it had never stopped.

    With more rounds it trains on, and ends as a run that had so many from its start. A complete run that has kept its
    checkpoint (`keep_checkpoint`) trains on in a folder of its own: NAME-90rounds.

    Args:
        path: folder of the interrupted run, or with other `rounds` of a complete one.
        progress: as for `run_scenario`.
        workers: processes that run its clients from now on; None: this process does.
        real_time: how its clock follows real time from now on; all its clients are emulated.
        edits: dotted key -> value of fields that change from now on; see `training_on.MAY_CHANGE`.
        live: as for `run_scenario`.

    Raises:
        OwnedError: the run is still alive, or another process resumes it.
        SheafedgeError: the folder holds no run that can be resumed, or an error of `run_scenario`.

    Examples:
        >>> from sheafedge import SheafedgeError, resume_run
        >>> try:
        ...     resume_run("runs/elsewhere")
        ... except SheafedgeError as error:
        ...     print(str(error).partition(";")[0])
        runs/elsewhere is not the folder of a run that was interrupted
    """
    folder, edited = real_folder(Path(path)), dict(edits or {})
    check_resumed_edits(edited)
    scenario = resumable_scenario(folder, edited).edited(edited)  # of what is no such folder, nobody need be the owner
    target = target_of_longer(folder, scenario.rounds) if is_complete(folder) else target_of(folder)
    with owned(target, RESUME_ANOTHER), shown_run(progress, scenario, live, target, folder) as callbacks:
        if not edited and (summary := last_summary(folder)) is not None:
            return RunResult(complete(folder, keep_checkpoint=scenario.keep_checkpoint), summary)
        interrupted = with_edits(interrupted_run(folder, edited), edited)
        if is_complete(folder):
            refuse_unusable(target)
            _check_resumed(interrupted)  # before anything is copied
            interrupted = interrupted._replace(path=copied_run(folder, target))
        return _resumed(interrupted, _Conditions(callbacks, workers, real_time), edited=bool(edited))


def _resumed(interrupted: Interrupted, conditions: _Conditions, *, edited: bool = False) -> RunResult:
    refuse_unusable(interrupted.target)
    scenario, checkpoint = interrupted.scenario, interrupted.checkpoint
    _check_resumed(interrupted)
    opened = reopened_run_folder(interrupted)
    return _played(scenario, scenario.checkpoint_every, conditions, opened, checkpoint, edited=edited)


def _check_resumed(interrupted: Interrupted) -> None:
    check_origin(interrupted.checkpoint)
    check_rows(interrupted)


def _played(
    scenario: Scenario,
    checkpoint_every: int,
    conditions: _Conditions,
    opened: AbstractContextManager[RunFolder],
    checkpoint: Checkpoint | None = None,
    *,
    edited: bool = False,
) -> RunResult:
    """A run from building to summary; its folder is opened once nothing of the scenario can be wrong any more."""
    check_run(scenario, conditions.workers, conditions.real_time)
    folder: RunFolder | None = None
    progress = conditions.progress
    try:
        with (
            # the folder is opened last: what fails before leaves nothing on the disk
            one_torch_thread(),
            gpu_arithmetic(tf32=scenario.compute.tf32),
            open_worker_pool(scenario, conditions.workers) as pool,
            pacing_of(scenario, conditions.real_time) as pacing,
            closing(RunPlayer(scenario, progress, checkpoint_every, pool, pacing, checkpoint)) as player,
            opened as folder,
        ):
            if checkpoint is None or edited:
                folder.write_scenario(scenario)
            played = player.play(folder)
            folder.write_diagnostics(run_diagnostics(played))
            summary = run_summary(played, folder, progress)
            folder.write_summary(summary)
            # after the summary: until then an interrupted run must be able to go on
            if not scenario.keep_checkpoint:
                folder.drop_checkpoints()
            return RunResult(folder.target, summary, (*played.watch.warnings, *played.lateness))
    except WorkerLost as lost:
        if folder is None:  # nothing has begun
            raise
        if scenario.compute.lost_worker == "stop":
            raise
        return _with_new_workers(lost, folder.path, 0 if checkpoint is None else checkpoint.rounds_done, conditions)


def _with_new_workers(lost: WorkerLost, path: Path, rounds_done: int, conditions: _Conditions) -> RunResult:
    """Go on from the last checkpoint after a worker was lost.

    Args:
        lost: the worker; raised again where the run had got no further than when it began, because whatever ended the
            worker would end the next one.
        path: folder of the run.
        rounds_done: when it began.
        conditions: options of the run.
    """
    try:
        interrupted = interrupted_run(path)
    except SheafedgeError:
        raise lost from None
    if interrupted.checkpoint.rounds_done <= rounds_done:
        raise lost
    conditions.progress.worker_lost(str(lost))
    return _resumed(interrupted, conditions)


def check_run(scenario: Scenario, workers: Workers | None = None, real_time: RealTime | None = None) -> None:
    """Refuse a run that is impossible on this machine or with these options.

    Args:
        scenario: scenario to run.
        workers: processes that share its clients; None: there are none.
        real_time: pacing of its clock in real time; None: as fast as possible.

    Raises:
        ScenarioError: all complaints, one sentence each.
    """
    n_workers = None if workers is None else workers.n_workers
    found = [*run_complaints(scenario, n_workers, () if real_time is None else real_time.outside)]
    if not found:  # the next are slower, and some read files that may be missing
        kinds = scenario.algorithm_spec.kinds
        checks: tuple[Callable[[], object], ...] = (
            lambda: choose_device(scenario.compute.device),
            lambda: _check_gpus(scenario, workers),
            lambda: check_weights(scenario.model),
            lambda: _check_address(scenario.network, kinds),
        )
        found += [sentence for check in checks for sentence in _refused(check)]
    if found:
        raise ScenarioError(found)


def _check_gpus(scenario: Scenario, workers: Workers | None) -> None:
    if workers is not None and workers.share.gpus and scenario.compute.device == "cpu":
        raise ConfigError(
            "--ray-gpus takes GPUs that compute.device = 'cpu' does not use; leave it out, or use --device auto"
        )


def _check_address(network: NetworkSection, kinds: frozenset[MessageKind]) -> None:
    """Bind the address of the network once and close it, to find an address that cannot be used."""
    if network.transport == "zmq" and network.address:
        make_transport(network, Wire(kinds)).close()


def _refused(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except ConfigError as error:
        yield str(error)
