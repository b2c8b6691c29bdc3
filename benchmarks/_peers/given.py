"""What the drivers of peers share. They run under a peer's own Python, with numpy and torch and nothing of ours.

The parent writes the problem to a file, names it on the command line, and reads one line of JSON from stdout.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters


@dataclass(frozen=True)
class Given:
    """One repeat.

    Attributes:
        inputs: [n_clients, n_samples, n_features].
        labels: [n_clients, n_samples].
        adjacency: [n_clients, n_clients] of the ring, bool, false on the diagonal.
        start: initial parameters of every client, both layers one after the other.
        rounds: to be timed, after one that is not.
        workers: processes for a peer that uses several.
    """

    inputs: Tensor
    labels: Tensor
    adjacency: NDArray[np.bool_]
    start: Tensor
    sizes: tuple[int, int, int]
    batch_size: int
    step_size: float
    rounds: int
    workers: int
    seed: int

    def model(self) -> nn.Sequential:
        """Of one client, at the start."""
        n_features, n_hidden, n_classes = self.sizes
        model = nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_classes))
        vector_to_parameters(self.start, model.parameters())
        return model


@lru_cache(maxsize=1)
def read_given(path: str) -> Given:
    """A worker process that is asked again and again reads the file once."""
    torch.set_num_threads(1)
    with np.load(path) as arrays:
        tensors = {name: torch.from_numpy(arrays[name]) for name in ("inputs", "labels", "start")}
        numbers = json.loads(str(arrays["numbers"]))
        adjacency = arrays["adjacency"]
    return Given(**tensors, adjacency=adjacency, **{**numbers, "sizes": tuple(numbers["sizes"])})


def train_an_epoch(model: nn.Module, given: Given, client: int, draws: torch.Generator) -> None:
    """Minibatches in a random order, as the bare loop takes them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=given.step_size)
    order = torch.randperm(given.inputs.shape[1], generator=draws)
    for batch in torch.split(order, given.batch_size):
        optimizer.zero_grad()
        functional.cross_entropy(model(given.inputs[client][batch]), given.labels[client][batch]).backward()
        optimizer.step()


class Clock:
    """Wall time, and CPU time of all threads of this process, between two instants."""

    wall_s = cpu_s = float("nan")

    def start(self) -> None:
        """Rounds begin."""
        self._begin_s = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Rounds have ended."""
        wall_s, cpu_s = self._begin_s
        self.wall_s, self.cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s


def drive(run: Callable[[str], tuple[Clock, Sequence[nn.Module]]], packages: Sequence[str]) -> None:
    """Run one repeat and tell.

    Args:
        run: from the path of the problem to the clock over the timed rounds, and the last model of every client.
        packages: whose versions are told.
    """
    problem_path, models_path = sys.argv[1:]
    clock, models = run(problem_path)
    np.save(Path(models_path), np.stack([parameters_to_vector(m.parameters()).detach().numpy() for m in models]))
    versions = {package: version(package) for package in packages}
    told: dict[str, Any] = {"rounds": read_given(problem_path).rounds, "wall_s": clock.wall_s, "cpu_s": clock.cpu_s}
    print()  # whatever the peer has left on the line ends here
    print(json.dumps({**told, "versions": {"python": platform.python_version(), **versions}}), flush=True)
