"""Player of a run: builds it, and plays its rounds from the start or from a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...emulator.contracts import ConfigError, Learner, NodeId, State
from ...emulator.counters import Traffic
from ...emulator.saved_state import SavedState
from ...version import __version__
from ..schema.fault_section import SERVER
from ..schema.scenario import Scenario
from ..wiring.coupling_watch import StabilityWatch
from ..wiring.data import LoadedData, load_data
from ..wiring.emulation import Emulation, build, emulate, observe_resting
from ..wiring.evaluation import Evaluator, best_model
from ..wiring.pacing import Pacing
from ..wiring.predictions import Predictions
from ..workers.worker_pool import WorkerPool, collect_learners
from .checkpoint import Checkpoint
from .emulation_state import emulation_state, restore_emulation
from .fitted_biases import fit_biases
from .interrupts import StopRequest, stop_requests
from .progress import RunProgress
from .run_folder import RunFolder

if TYPE_CHECKING:
    from ..theory.theory_watch import TheoryWatch

#: Share of messages that come late from which a run warns.
LATE_SHARE = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class PlayedRun:
    """A run after its last round, with everything that its summary reads.

    Attributes:
        scenario: scenario of the run.
        data: data of its clients.
        emulation: emulation with trained learners.
        evaluator: evaluator with the scores of all clients.
        watch: watch over the stability of the coupling of heads.
        predictions: answers of the trained models.
        theory: figures of theory; None: they were not asked for.
        outside: clients whose models were trained by outside processes, and are not in this one.
        n_workers: number of worker processes that ran the clients; 0: this process did.
        warnings: sentences about risks before the first round, instabilities after it, and `lateness`.
        lateness: those about a clock, and messages, that were late.
        pacing: lateness of the clock, and statistics of outside clients; empty without real time.
        recording_s, training_s: real time in s of loading or recording, and of training.
    """

    scenario: Scenario
    data: LoadedData
    emulation: Emulation
    evaluator: Evaluator
    watch: StabilityWatch
    predictions: Predictions
    theory: TheoryWatch | None
    outside: frozenset[NodeId]
    n_workers: int
    warnings: tuple[str, ...]
    lateness: tuple[str, ...]
    pacing: Mapping[str, Any]
    recording_s: float
    training_s: float


def late_messages(traffic: Traffic, deadline_s: float) -> tuple[str, ...]:
    """A sentence where so many messages came late that the deadline decides what is learned; else nothing.

    Args:
        traffic: of the run.
        deadline_s: `network.deadline_s`.
    """
    if traffic.late_messages < LATE_SHARE * traffic.messages or not traffic.late_messages:
        return ()
    said = (
        f"{traffic.late_messages:,} of {traffic.messages:,} messages came after their phase had ended, and nobody used"
        f" them; network.deadline_s = {deadline_s:g} is short for what nodes compute and send: raise it, or shorten"
        " local training"
    )
    return (said,)


class RunPlayer:
    """Builds a run, plays its rounds, and writes down what the clients report and where the run is.

    Args:
        scenario: scenario to run.
        progress: callbacks.
        checkpoint_every: number of rounds between checkpoints; 0: none are written.
        pool: workers that run the clients; None: this process does.
        pacing: pacing of the clock, and outside clients; None: not in real time.
        checkpoint: checkpoint to continue from; None: the run begins.
    """

    def __init__(
        self,
        scenario: Scenario,
        progress: RunProgress,
        checkpoint_every: int,
        pool: WorkerPool | None,
        pacing: Pacing | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._scenario, self._progress = scenario, progress
        # asynchronous clients have no ends of rounds in common, and so no instant for a checkpoint
        self._every = checkpoint_every if scenario.network.mode == "synchronous" else 0
        self._pool, self._pacing = pool, pacing
        self._started_s = time.perf_counter()
        self._incomplete: dict[int, list[Mapping[str, Any]]] = {}
        self._data = load_data(scenario, progress.recording, progress.noted)
        self._loaded_s = time.perf_counter()
        self._waited_s, self._rounds_are_over, self._in_columns = 0.0, False, False
        self._rounds_done = 0 if checkpoint is None else checkpoint.rounds_done
        self._emulation = build(
            scenario,
            self._data.clients,
            self._observe,
            self._on_observation,
            # the time of a SimPy environment cannot be set later: it starts at the instant of the checkpoint
            start_s=None if checkpoint is None else checkpoint.state["emulation"]["clock"]["now_s"],
            hosts=None if pool is None else pool.hosts,
            pacing=pacing,
        )
        self._wait_for_clients()
        self._worker_warnings = () if pool is None else pool.different_starts(self._emulation.client_learners)
        clients = self._emulation.clients
        self._evaluator = Evaluator(scenario.task_spec, clients, scenario.rounds, scenario.evaluate_every)
        n_watched = scenario.clients.sampled or len(clients)
        self._watch = StabilityWatch(n_watched, clamps_map_step=scenario.sheaf.clamp_map_step)
        self._theory = _theory_watch(scenario, self._emulation)
        if checkpoint is not None:
            self._restore(checkpoint)

    def play(self, folder: RunFolder) -> PlayedRun:
        """Play all rounds, or the rest of them, and write rows and checkpoints into the folder.

        Raises:
            KeyboardInterrupt: the run was stopped, after a checkpoint where it writes any.
            WorkerLost: a worker died.
        """
        self._folder = folder
        n_clients = self._scenario.clients.n_clients
        # a run that goes on has begun with lines or with columns, and keeps to them
        if self._rounds_done == 0 and n_clients > self._scenario.export.client_lines:
            folder.keep_columns()
        self._in_columns = folder.has_columns
        self._progress.started(self._emulation)
        if self._theory is not None and self._rounds_done == 0:
            self._theory.see(0)
        # Without checkpoints nothing is gained by waiting for the end of a round.
        with stop_requests(self._stopping) if self._every else nullcontext(StopRequest()) as self._stop:
            emulate(self._emulation, self._scenario.rounds, self._rounds_done, self._round_ended)
        # after the last checkpoint: a run that trains on from there has not made these observations
        self._rounds_are_over = True
        observe_resting(self._emulation, self._scenario.rounds - 1, self._observe)
        if self._in_columns and (rows := self._incomplete.pop(self._scenario.rounds - 1, [])):
            folder.add_round(rows, n_clients, resting=True)
        self._write_link_states()
        if self._pool is not None:
            # before workers stop: scores, exports and the value of prediction read the models here
            collect_learners(self._emulation)
            self._pool.stop()
        outside = frozenset() if self._pacing is None else self._pacing.outside
        if self._scenario.training.fitted_biases:
            fit_biases(self._emulation, outside)
            for client in self._emulation.clients:
                if client.client_id not in outside:
                    self._evaluator.score_again(self._emulation.learners[client.client_id])
        refusals = () if self._pool is None else self._pool.refusals()
        lateness = (
            *(() if self._pacing is None else self._pacing.warnings()),
            *late_messages(self._emulation.recorder.traffic, self._scenario.network.deadline_s),
        )
        return PlayedRun(
            scenario=self._scenario,
            data=self._data,
            emulation=self._emulation,
            evaluator=self._evaluator,
            watch=self._watch,
            predictions=Predictions(self._emulation.client_learners, self._emulation.pool),
            theory=self._theory,
            outside=outside,
            n_workers=0 if self._pool is None else self._pool.n_workers,
            warnings=(*self._emulation.warnings, *self._worker_warnings, *refusals, *self._watch.warnings, *lateness),
            lateness=lateness,
            pacing={} if self._pacing is None else self._pacing.summary(),
            recording_s=self._loaded_s - self._started_s,
            # without the wait for workers and outside clients, whose start is no training
            training_s=time.perf_counter() - self._loaded_s - self._waited_s,
        )

    def close(self) -> None:
        """Free threads and sockets."""
        self._emulation.close()

    def _wait_for_clients(self) -> None:
        """Let workers build their clients, and outside clients join."""
        begun_s = time.perf_counter()
        try:
            if self._pacing is not None:
                self._pacing.fill()
            if self._pool is not None:
                self._pool.fill()
        except BaseException:
            self.close()
            raise
        self._waited_s = time.perf_counter() - begun_s

    def _stopping(self) -> None:
        """On the first signal: finish the round, but no longer in real time."""
        self._progress.stopping()
        if self._pacing is not None:
            self._pacing.hurry()

    def _round_ended(self, round_index: int) -> None:
        """Write a checkpoint when it is due, or when the run is to stop."""
        self._rounds_done = round_index + 1
        if self._theory is not None and self._theory.is_due(self._rounds_done):
            self._theory.see(self._rounds_done)
        is_due = self._every > 0 and (
            self._rounds_done % self._every == 0 or self._rounds_done == self._scenario.rounds
        )
        if is_due or self._stop.is_made:
            self._write_link_states()
            self._folder.write_checkpoint(self._rounds_done, self._state())
        if self._stop.is_made:
            raise KeyboardInterrupt

    def _observe(self, learner: Learner, round_index: int) -> Mapping[str, Any]:
        return self._evaluator.observe(learner, round_index)

    def _on_observation(self, node: NodeId, round_index: int, now_s: float, seen: Mapping[str, Any]) -> None:
        """Write the row of a client, or of the server, that has finished a round."""
        recorder = self._emulation.recorder
        self._evaluator.see(node, seen)
        row = {
            "round": round_index,
            "client": node,
            "group": SERVER if node == self._emulation.server else self._emulation.clients[node].group,
            "time_s": now_s,
            "bytes_sent": recorder.bytes_sent[node],
            "energy_j": recorder.energy_j[node],
            **recorder.times_since(node),
            **seen,
        }
        # a client that has never trained has no loss, and NaN is no JSON
        written = {name: value for name, value in row.items() if not (isinstance(value, float) and math.isnan(value))}
        if not self._in_columns:
            self._folder.add_row(written)
        self._write_link_states()
        # asynchronous clients finish a round at different times: rows of several rounds are incomplete at once
        rows = self._incomplete.setdefault(round_index, [])
        rows.append(written)
        if self._rounds_are_over:
            return
        self._watch.see(row)
        if len(rows) == self._n_observed(round_index):
            del self._incomplete[round_index]
            if self._in_columns:
                self._folder.add_round(rows, len(self._emulation.clients))
            self._progress.round_recorded(rows)
            self._progress.round_ended(round_index, now_s, self._mean_score(rows))

    def _n_observed(self, round_index: int) -> int:
        """Number of nodes that are observed in a round."""
        playing = self._emulation.taking_part
        return len(self._emulation.hosts) if playing is None else len(playing(round_index))

    def _write_link_states(self) -> None:
        """Write what radio links did, so that memory and checkpoints do not grow with the rounds."""
        if self._emulation.radio is not None:
            self._folder.add_link_states(self._emulation.radio.log.take())

    def _mean_score(self, rows: list[Mapping[str, Any]]) -> float | None:
        task = self._scenario.task_spec
        models = [row["models"] for row in rows if "models" in row]
        wanted = self._scenario.export.model
        scored = [one[best_model(task, one, wanted)][task.columns[0].key] for one in models]
        return sum(scored) / len(scored) if scored else None

    def _state(self) -> State:
        return {
            "sheafedge": __version__,
            "torch": str(torch.__version__),
            "emulation": emulation_state(self._emulation),
            "scores": {str(client): scores for client, scores in self._evaluator.latest.items()},
            "watch": self._watch.state(),
            **({} if self._theory is None else {"theory": self._theory.state()}),
        }

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Restore emulation, scores and watch from the checkpoint.

        Raises:
            ConfigError: it does not fit the scenario beside it.
        """
        saved = SavedState(checkpoint.state, owner="a run")
        try:
            restore_emulation(self._emulation, saved.part("emulation"), checkpoint.rounds_done)
            self._evaluator.latest = {int(client): one.state for client, one in saved.part("scores").named().items()}
            self._watch.restore(saved.part("watch"))
            if self._theory is not None and "theory" in checkpoint.state:  # a run may begin without, and go on with it
                self._theory.restore(saved.part("theory"))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ConfigError(
                f"checkpoint {checkpoint.path} does not fit the scenario.toml beside it ({error}); start the run anew"
            ) from None


def _theory_watch(scenario: Scenario, emulation: Emulation) -> TheoryWatch | None:
    if not scenario.export.theory:
        return None
    from ..theory.theory_watch import TheoryWatch  # with parts of scipy that other runs do without

    return TheoryWatch(scenario, emulation)


def check_origin(checkpoint: Checkpoint) -> None:
    """Refuse, before any work, a checkpoint that another version wrote, or that is not one of a run.

    Raises:
        ConfigError: as said.
    """
    state = checkpoint.state
    try:
        written = {name: state[name] for name in ("sheafedge", "torch")}
        now_s, n_bytes = state["emulation"]["clock"]["now_s"], state["metrics_bytes"]
        is_of_a_run = (type(now_s), type(n_bytes)) == (float, int) and 0.0 <= now_s < math.inf
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
