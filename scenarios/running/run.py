"""One run of a scenario: build, emulate, score, hand out, and leave a folder."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...emulator.contracts import ConfigError, NodeId, SheafedgeError, State
from ...emulator.network.transport.errors import WorkerLost
from ...emulator.saved_state import SavedState
from ...version import __version__
from ..recording.inspection import plot_recording
from ..schema.scenario import Scenario
from ..schema.world_section import WorldFile
from ..value.value_report import value_of_prediction
from ..wiring.assembly import find_algorithm
from ..wiring.coupling_watch import StabilityWatch
from ..wiring.data import load_data
from ..wiring.emulation import Emulation, build, emulate
from ..wiring.encoders import check_weights
from ..wiring.evaluation import Evaluator, baseline_scores, best_model, by_group
from ..wiring.pacing import Pacing, pacing_of
from ..wiring.progress import NoProgress, Progress
from ..wiring.radio_links import RadioLinks, write_link_states
from ..wiring.real_time_options import RealTime
from ..wiring.torch_setup import choose_device, one_torch_thread
from ..workers.worker_options import Workers
from ..workers.worker_pool import Crew, bring_home, crew_of
from .checkpoint import Checkpoint
from .emulation_state import emulation_state, restore_emulation
from .interrupts import StopRequest, stop_requests
from .onnx_files import export_clients
from .run_folder import (
    Interrupted,
    RunFolder,
    default_target,
    interrupted_run,
    open_run_folder,
    refuse_unusable,
    reopened_run_folder,
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left.

    Attributes:
        folder: the run folder.
        summary: content of its `summary.json`.
        warnings: what became unstable on the way; with those from before the first round, they are in the summary too.
    """

    folder: Path
    summary: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def run_scenario(
    scenario: Scenario,
    out: Path | None = None,
    progress: Progress | None = None,
    *,
    checkpoints: bool = True,
    workers: Workers | None = None,
    real_time: RealTime | None = None,
) -> RunResult:
    """Run a scenario from nothing to exported models.

    Args:
        scenario: what to run.
        out: name of the run folder; None picks a new one under `runs/`.
        progress: is told how far it is.
        checkpoints: write them as the scenario says; otherwise never.
        workers: where its clients live; None: in this process. The results are the same.
        real_time: how its clock keeps to the wall; None: it does not. The results are the same, but where outside
            processes play clients of it: such a run writes no checkpoints, for what those know is theirs.

    Raises:
        WorkerLost: a worker died.
        SheafedgeError: a field, a file, the training or an export is wrong; the message says which and what to do.
    """
    find_algorithm(scenario.algorithm)  # before reading or recording any data
    check_weights(scenario)
    target = out or default_target(scenario)
    refuse_unusable(target)
    # What can be wrong with a scenario is found while building it: nothing is on disk before the first round.
    every = scenario.checkpoint_every if checkpoints and not (real_time and real_time.outside) else 0
    return _played(scenario, progress or NoProgress(), every, workers, real_time, open_run_folder(target))


def resume_run(
    path: Path,
    progress: Progress | None = None,
    workers: Workers | None = None,
    real_time: RealTime | None = None,
) -> RunResult:
    """Go on with a run that was interrupted, killed or failed, as if it had never stopped.

    Args:
        path: its folder.
        progress: is told how far it is.
        workers: where its clients live from now on, whether they did before or not.
        real_time: how its clock keeps to the wall from now on; all its clients are emulated.

    Raises:
        SheafedgeError: nothing there can go on, or whatever `run_scenario` raises.
    """
    return _resumed(interrupted_run(path), progress or NoProgress(), workers, real_time)


def _resumed(
    interrupted: Interrupted, progress: Progress, workers: Workers | None, real_time: RealTime | None
) -> RunResult:
    refuse_unusable(interrupted.target)
    scenario, checkpoint = interrupted.scenario, interrupted.checkpoint
    _check_origin(checkpoint)
    return _played(
        scenario,
        progress,
        scenario.checkpoint_every,
        workers,
        real_time,
        reopened_run_folder(interrupted),
        checkpoint,
    )


def _played(
    scenario: Scenario,
    progress: Progress,
    every: int,
    workers: Workers | None,
    real_time: RealTime | None,
    opened: AbstractContextManager[RunFolder],
    checkpoint: Checkpoint | None = None,
) -> RunResult:
    """A run from building to summary; its folder is opened when nothing of the scenario can be wrong any more."""
    folder: RunFolder | None = None
    try:
        with (
            one_torch_thread(),
            crew_of(scenario, workers) as crew,
            pacing_of(scenario, real_time) as pacing,
            closing(_Run(scenario, progress, every, crew, pacing, checkpoint)) as run,
            opened as folder,
        ):
            if checkpoint is None:
                folder.write_scenario(scenario)
            return run.finished(folder)
    except WorkerLost as lost:
        if folder is None:  # nothing has begun
            raise
        rounds_done = 0 if checkpoint is None else checkpoint.rounds_done
        return _with_new_workers(lost, folder.path, scenario, rounds_done, progress, workers, real_time)


def _with_new_workers(
    lost: WorkerLost,
    path: Path,
    scenario: Scenario,
    rounds_done: int,
    progress: Progress,
    workers: Workers | None,
    real_time: RealTime | None,
) -> RunResult:
    """Go on from the last checkpoint after a worker was lost, where the scenario says so.

    Args:
        lost: the worker; raised again where nothing is gained by going on: the run had got no further than when it
            began, so that whatever ended the worker would end the next one.
        path: folder of the run.
        scenario: of the run.
        rounds_done: when it began.
        progress, workers, real_time: as of the run.
    """
    if scenario.compute.lost_worker == "stop":
        raise lost
    try:
        interrupted = interrupted_run(path)
    except SheafedgeError:
        raise lost from None
    if interrupted.checkpoint.rounds_done <= rounds_done:
        raise lost
    progress.worker_lost(str(lost))
    return _resumed(interrupted, progress, workers, real_time)


class _Run:
    """A run: built at once, then played; collects what the clients report, round by round.

    Args:
        scenario: what to run.
        progress: is told how far it is.
        every: write a checkpoint after so many rounds; 0: never.
        crew: workers in which its clients live; None: they live here.
        pacing: of its clock, and its outside clients; None: it does not look at the wall.
        checkpoint: where to go on; None: at the beginning.

    Attributes:
        watch: over the coupling of heads.
    """

    def __init__(
        self,
        scenario: Scenario,
        progress: Progress,
        every: int,
        crew: Crew | None,
        pacing: Pacing | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._scenario, self._progress = scenario, progress
        self._every = every if scenario.network.mode == "synchronous" else 0  # else rounds have no ends in common
        self._crew, self._pacing = crew, pacing
        self._outside = frozenset[NodeId]() if pacing is None else pacing.outside
        self._started_s = time.perf_counter()
        self._pending: dict[int, list[Mapping[str, Any]]] = {}
        self._task = scenario.task_spec
        self._data = load_data(scenario, progress.recording)
        self._loaded_s = time.perf_counter()
        self._waited_s = 0.0
        self._rounds_done = 0 if checkpoint is None else checkpoint.rounds_done
        self._emulation = build(
            scenario,
            self._data.clients,
            self._observe,
            self._on_observation,
            start_s=None if checkpoint is None else checkpoint.state["emulation"]["clock"]["now_s"],
            hosts=None if crew is None else crew.hosts,
            pacing=pacing,
        )
        self._worker_warnings = self._settle()
        self._evaluator = Evaluator(self._task, self._emulation.clients, scenario.rounds, scenario.evaluate_every)
        self.watch = StabilityWatch(scenario, len(self._emulation.clients))
        if checkpoint is not None:
            self._restore(checkpoint)

    def finished(self, folder: RunFolder) -> RunResult:
        """The whole run, or the rest of it."""
        self._folder = folder
        self._progress.started(self._emulation)
        # Without checkpoints nothing is gained by waiting for the end of a round.
        with stop_requests(self._stopping) if self._every else nullcontext(StopRequest()) as self._stop:
            emulate(self._emulation, self._scenario.rounds, self._rounds_done, self._round_ended)
        if self._crew is not None:
            bring_home(self._emulation)
            self._crew.dismiss()
        summary = self._summary()
        folder.write_summary(summary)
        folder.drop_checkpoints()
        return RunResult(folder.target, summary, self.watch.warnings)

    def close(self) -> None:
        """Free threads and sockets."""
        self._emulation.close()

    def _summary(self) -> dict[str, Any]:
        emulation = self._emulation
        trained_s = time.perf_counter()
        if emulation.radio is not None:
            with self._folder.writing():
                write_link_states(self._folder.path / "links.jsonl", emulation.radio.log.states)
        members = emulation.groups_without(self._outside)
        groups = by_group(self._task, members, self._evaluator.latest)
        baselines = {client.client_id: baseline_scores(self._task, client) for client in emulation.clients}
        reported = {group: best_model(self._task, models) for group, models in groups.items()}
        value = value_of_prediction(
            self._scenario, emulation.clients, emulation.learners, reported, self._data.recordings, self._outside
        )
        valued_s = time.perf_counter()
        return {
            **self._facts(emulation),
            "recording_time_s": self._loaded_s - self._started_s,
            "wall_time_s": trained_s - self._loaded_s - self._waited_s,
            "groups": {
                group: {"clients": len(members[group]), "model": best, **groups[group][best]}
                for group, best in reported.items()
            },
            "baselines": by_group(self._task, members, baselines),
            "value": value,
            "value_time_s": valued_s - trained_s,
            "traffic": emulation.recorder.traffic.as_dict(),
            **({} if emulation.in_step else {"staleness": emulation.recorder.staleness.as_dict()}),
            "exports": self._export(emulation, reported),
            "export_time_s": time.perf_counter() - valued_s,
            "pictures": self._draw(),
            **({"sheaf": sheaf} if (sheaf := self.watch.summary()) else {}),
            **({} if self._pacing is None else self._pacing.summary()),
            "warnings": [*emulation.warnings, *self._worker_warnings, *self._refusals(), *self.watch.warnings],
            "environment": {
                **_environment(self._scenario),
                "workers": 0 if self._crew is None else self._crew.n_workers,
            },
        }

    def _stopping(self) -> None:
        """On a signal: the round is played to its end, but nobody waits for the wall any longer."""
        self._progress.stopping()
        if self._pacing is not None:
            self._pacing.hurry()

    def _round_ended(self, round_index: int) -> None:
        """Write down where the run is, when it is time, or when it is to stop."""
        self._rounds_done = round_index + 1
        is_due = self._every > 0 and (
            self._rounds_done % self._every == 0 or self._rounds_done == self._scenario.rounds
        )
        if is_due or self._stop.is_made:
            self._folder.write_checkpoint(self._rounds_done, self._state())
        if self._stop.is_made:
            raise KeyboardInterrupt

    def _state(self) -> State:
        return {
            "sheafedge": __version__,
            "torch": str(torch.__version__),
            "emulation": emulation_state(self._emulation),
            "scores": {str(client): scores for client, scores in self._evaluator.latest.items()},
            "watch": self.watch.state(),
        }

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Take over everything that the checkpoint says.

        Raises:
            ConfigError: it does not fit the scenario beside it.
        """
        saved = SavedState(checkpoint.state, owner="a run")
        try:
            restore_emulation(self._emulation, saved.part("emulation"), checkpoint.rounds_done)
            self._evaluator.latest = {int(client): one.state for client, one in saved.part("scores").named().items()}
            self.watch.restore(saved.part("watch"))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ConfigError(
                f"checkpoint {checkpoint.path} does not fit the scenario.toml beside it ({error}); start the run anew"
            ) from None

    def _settle(self) -> tuple[str, ...]:
        """Let workers build their clients, and outside clients come; says so where workers start from elsewhere."""
        begun_s = time.perf_counter()
        try:
            if self._pacing is not None:
                self._pacing.fill()
            if self._crew is not None:
                self._crew.fill()
            self._waited_s = time.perf_counter() - begun_s
        except BaseException:
            self.close()
            raise
        return () if self._crew is None else self._crew.different_starts(self._emulation.learners)

    def _refusals(self) -> tuple[str, ...]:
        return () if self._crew is None else self._crew.refusals()

    def _observe(self, learner: Any, round_index: int) -> Mapping[str, Any]:
        return self._evaluator.observe(learner, round_index)

    def _on_observation(self, node: NodeId, round_index: int, now_s: float, seen: Mapping[str, Any]) -> None:
        recorder = self._emulation.recorder
        self._evaluator.see(node, seen)
        row = {
            "round": round_index,
            "client": node,
            "group": self._emulation.clients[node].group,
            "time_s": now_s,
            "bytes_sent": recorder.bytes_sent[node],
            "energy_j": recorder.energy_j[node],
            **seen,
        }
        self._folder.add_row(row)
        self.watch.see(row)
        pending = self._pending.setdefault(round_index, [])
        pending.append(row)
        if len(pending) == len(self._emulation.clients):
            self._progress.round_ended(round_index, now_s, self._mean_score(self._pending.pop(round_index)))

    def _facts(self, emulation: Emulation) -> dict[str, Any]:
        scenario = self._scenario
        return {
            "scenario": scenario.name,
            "task": scenario.task,
            "algorithm": scenario.algorithm,
            "seed": scenario.seed,
            "rounds": scenario.rounds,
            "split": scenario.data.split,
            "scored": scenario.data.scored,
            "clients": len(emulation.clients),
            "edges": emulation.graph.number_of_edges(),
            "train_windows": sum(len(client.data.train) for client in emulation.clients),
            "test_windows": sum(len(client.data.test) for client in emulation.clients),
            "virtual_time_s": emulation.env.now,
            "energy_j": sum(emulation.recorder.energy_j.values()),
            "trace_hash": emulation.recorder.trace_hash,
        }

    def _mean_score(self, rows: list[Mapping[str, Any]]) -> float | None:
        key = self._task.columns[0].key
        scored = [max(model[key] for model in row["models"].values()) for row in rows if "models" in row]
        return sum(scored) / len(scored) if scored else None

    def _export(self, emulation: Emulation, reported: Mapping[str, str]) -> list[dict[str, Any]]:
        if not self._scenario.export.onnx:
            return []
        here = [client for client in emulation.clients if client.client_id not in self._outside]
        learners = [learner for learner in emulation.learners if learner.client_id not in self._outside]
        self._progress.exporting(len(here))
        with self._folder.writing():
            return export_clients(self._scenario, here, learners, reported, self._folder.path / "models")

    def _draw(self) -> list[str]:
        """Moments of the first base stations of the first recording."""
        n_stations = self._scenario.export.pictures
        if not self._data.recordings or n_stations == 0:
            return []
        folder = self._folder.path / "pictures"
        with self._folder.writing():
            drawn = plot_recording(self._data.recordings[0], folder, tuple(range(n_stations)))
            if self._emulation.radio is not None:
                drawn.append(self._draw_links(self._emulation.radio, folder / "links.png"))
        return [f"{folder.name}/{path.name}" for path in drawn]

    def _draw_links(self, radio: RadioLinks, path: Path) -> Path:
        from .link_tracks import draw_run_links

        scenario = self._scenario
        world = WorldFile(scenario.recorded_world, scenario.seed) if scenario.data.source == "world" else None
        draw_run_links(path, radio, [client.data for client in self._emulation.clients], world, scenario.name)
        return path


def _check_origin(checkpoint: Checkpoint) -> None:
    """Refuse, before any work, what another version wrote, or what no run did.

    Raises:
        ConfigError: as said.
    """
    state = checkpoint.state
    try:
        written = {name: state[name] for name in ("sheafedge", "torch")}
        numbers = state["emulation"]["clock"]["now_s"], state["metrics_bytes"]
        is_of_a_run = list(map(type, numbers)) == [float, int]
    except (KeyError, TypeError, IndexError):
        is_of_a_run = False
    if not is_of_a_run:
        raise ConfigError(f"checkpoint {checkpoint.path} is not one of a run; start the run anew")
    for name, here in (("sheafedge", __version__), ("torch", str(torch.__version__))):
        if written[name] != here:
            raise ConfigError(
                f"checkpoint {checkpoint.path} was written with {name} {written[name]}, here is {here}, which would not"
                " go on bit for bit; resume with the same version, or start anew"
            )


def _environment(scenario: Scenario) -> dict[str, Any]:
    device = choose_device(scenario.compute.device)
    return {
        "sheafedge": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "executor": f"{scenario.compute.executor}, {scenario.compute.threads} threads"
        if scenario.compute.executor == "threads"
        else scenario.compute.executor,
    }
