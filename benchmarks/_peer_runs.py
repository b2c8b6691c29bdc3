"""Other emulators and simulators, each asked in a process of its own Python, or a sentence why it was not."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sheafedge.benchmarks._repeats import Timing
from sheafedge.benchmarks.ring_mlp import (
    BATCH_SIZE,
    N_CLASSES,
    N_FEATURES,
    N_HIDDEN,
    STEP_SIZE,
    LastStates,
    Problem,
)
from torch.nn.utils import parameters_to_vector

DRIVERS = Path(__file__).resolve().parent / "_peers"
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Peer:
    """What is compared with us, and how far.

    Attributes:
        module: what its Python must be able to import.
        driver: file of `_peers` that plays one repeat; None where there is none.
        install: what to do to have it.
    """

    module: str
    driver: str | None
    install: str
    one_process: bool  # so that its CPU time is all it used
    what_runs: str
    equal: str
    unequal: str
    not_modelled: str

    def facts(self) -> dict[str, str]:
        """For the report."""
        names = ("install", "what_runs", "equal", "unequal", "not_modelled")
        return {name: getattr(self, name) for name in names}


PEERS: Mapping[str, Peer] = {
    "gossipy": Peer(
        module="gossipy",
        driver="drive_gossipy.py",
        install="python -m venv gossipy && gossipy/bin/pip install torch torchvision gossipy-dfl (it"
        " imports torchvision without asking for it; this must be of the same build as torch, CPU or CUDA)",
        one_process=True,
        what_runs="GossipSimulator with PUSH and MERGE_UPDATE: once a round every node sends its model to one neighbor"
        " drawn at random, which averages it with its own and trains an epoch; one process, one torch thread",
        equal="ring, samples, initial model, optimizer, minibatches per epoch, and as many epochs in a round over all"
        " nodes; nothing is lost, late or evaluated",
        unequal="half as many messages (one per node instead of one per neighbor); averages of two models instead of"
        " three; who trains is drawn, so that a node may train twice in a round or not at all; other minibatches",
        not_modelled="rates, queues, packets, bytes and seconds: a message is lost with a probability and late by a"
        " number of time steps; models are handed over as copies in memory",
    ),
    "flower": Peer(
        module="flwr",
        driver="drive_flower.py",
        install="python -m venv flower && flower/bin/pip install torch 'flwr[simulation]'",
        one_process=False,
        what_runs="run_simulation with FedAvg over all clients, on the workers of Ray; one torch thread per worker",
        equal="samples, initial model, optimizer, minibatches per epoch, and one epoch of every client in a round",
        unequal="a server that averages all models, instead of a ring: 2 messages per client and round, and one model"
        " for all; other minibatches; as many processes as --workers says, where all other arms have one",
        not_modelled="loss, delay, rates and a clock: a message takes as long as the machine takes for it",
    ),
    "decentralizepy": Peer(
        module="decentralizepy",
        driver=None,
        install="git clone https://github.com/sacs-epfl/decentralizepy && python -m venv decentralizepy &&"
        " decentralizepy/bin/pip install ./decentralizepy",
        one_process=False,
        what_runs="nothing yet: a process per node, with TCP sockets between them",
        equal="",
        unequal="",
        not_modelled="loss, rates and a clock: sockets of the machine carry the messages, in real time",
    ),
}


class NotRunError(Exception):
    """A peer did not run; the text is one sentence for the report."""


@dataclass(slots=True)
class PeerRuns:
    """Repeats of all peers on one problem.

    Attributes:
        pythons: name of a peer -> its interpreter.
        workers: processes for a peer that uses several.
        folder: where problem and models are exchanged.
        states: where every repeat leaves the models of all clients.
        versions: of every peer that ran.
    """

    pythons: Mapping[str, str]
    workers: int
    folder: Path
    states: LastStates
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def give(self, problem: Problem) -> None:
        """Write what all drivers read."""
        numbers = {
            "sizes": [N_FEATURES, N_HIDDEN, N_CLASSES],
            "batch_size": BATCH_SIZE,
            "step_size": STEP_SIZE,
            "rounds": problem.rounds,
            "workers": self.workers,
            "seed": problem.seed,
        }
        ring = problem.weights > 0.0
        np.fill_diagonal(ring, val=False)
        np.savez(
            self.folder / "problem.npz",
            inputs=problem.inputs.numpy(),
            labels=problem.labels.numpy(),
            adjacency=ring,
            start=parameters_to_vector(problem.model().parameters()).detach().numpy(),
            numbers=np.array(json.dumps(numbers)),
        )

    def timing(self, name: str) -> Timing:
        """One repeat: its rounds, without its start; CPU time is that of one process.

        Raises:
            NotRunError: it is not there, or did not end well, and what it said last.
        """
        if name not in self.versions:
            self._check(name)
        driver, models = DRIVERS / str(PEERS[name].driver), self.folder / f"{name}.npy"
        command = [self.pythons[name], str(driver), str(self.folder / "problem.npz"), str(models)]
        try:
            said = _answer(command, {"PYTHONPATH": str(DRIVERS), "OMP_NUM_THREADS": "1"})
        except NotRunError as error:
            raise NotRunError(f"{name} was started and failed: {error}") from None
        told: dict[str, Any] = json.loads(said.splitlines()[-1])
        self.versions[name] = told["versions"]
        self.states.by_arm[name] = torch.from_numpy(np.load(models))
        return Timing(told["wall_s"], told["cpu_s"])

    def _check(self, name: str) -> None:
        """Whether a peer can be asked at all."""
        peer, python = PEERS[name], self.pythons.get(name)
        if peer.driver is None:
            raise NotRunError(
                f"{name} is not on the package index, and this benchmark has no driver for it; have it by:"
                f" {peer.install}"
            )
        if python is None:
            raise NotRunError(
                f"no Python was named that has {name}; have it by: {peer.install}; then add"
                f" --python {name}={name}/bin/python"
            )
        try:
            _answer([python, "-c", f"import {peer.module}"], {})
        except NotRunError as error:
            raise NotRunError(f"{python} cannot import {name} ({error}); have it by: {peer.install}") from None


def _answer(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """What a command writes; our own import path is not handed on."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(variables)
    # Files, because daemons that a peer may leave behind, like those of Ray, could hold a pipe open.
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        try:
            done = subprocess.run(  # noqa: S603
                command, check=False, stdout=said, stderr=complained, env=environment, timeout=LIMIT_S
            )
        except OSError as error:
            raise NotRunError(error.strerror or str(error)) from None
        except subprocess.TimeoutExpired:
            raise NotRunError(f"no answer within {LIMIT_S:.0f} s") from None
        said.seek(0)
        complained.seek(0)
        if done.returncode != 0:
            lines = complained.read().strip().splitlines()
            raise NotRunError(lines[-1] if lines else f"exit code {done.returncode}")
        return said.read()
