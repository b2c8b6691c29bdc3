"""Rounds of a scenario as work to be timed, blockage above all: the whole emulator, and the bare local steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sheafedge.benchmarks._bare_steps import BareSteps
from sheafedge.emulator.nodes.compute_pool import ComputePool
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.assembly import make_clients
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate


@dataclass(frozen=True, slots=True)
class Workload:
    """What all arms are made from; every repeat builds its own models."""

    scenario: Scenario
    data: list[ClientData]

    @classmethod
    def of(cls, edits: Mapping[str, Any]) -> Workload:
        """The scenario blockage as shipped, on the CPU, with some edits; its recording is made or found."""
        scenario = load_scenario("blockage").edited({"compute.device": "cpu", **edits})
        return cls(scenario, load_data(scenario).clients)

    def emulation(self, edits: Mapping[str, Any] | None = None, dtype: torch.dtype = torch.float32) -> Emulation:
        """Everything of a run; its base stations report their health to nobody."""
        scenario = self.scenario.edited(edits or {})
        return build(scenario, self.data, lambda learner, _: learner.health(), lambda *_: None, dtype=dtype)

    def bare(self, dtype: torch.dtype = torch.float32) -> list[BareSteps]:
        """The same clients without learners; nobody has touched their models."""
        algorithm = self.scenario.algorithm_spec
        clients, _ = make_clients(self.scenario, algorithm, self.data, torch.device("cpu"), dtype)
        return [BareSteps(self.scenario, client) for client in clients]


@contextmanager
def emulated_rounds(workload: Workload) -> Iterator[Callable[[], None]]:
    """All rounds of the scenario on the whole emulator."""
    emulation = workload.emulation()
    try:
        yield partial(emulate, emulation, workload.scenario.rounds)
    finally:
        emulation.close()


@contextmanager
def bare_rounds(workload: Workload) -> Iterator[Callable[[], None]]:
    """The local steps of as many rounds, in the same pool."""
    emulation = workload.emulation({"network.transport": "memory"})  # for its pool
    clients = workload.bare()
    scenario = workload.scenario
    try:
        yield partial(play_bare, clients, emulation.pool, scenario.rounds, scenario.training.local_steps)
    finally:
        emulation.close()


def play_bare(clients: Sequence[BareSteps], pool: ComputePool, rounds: int, local_steps: int) -> None:
    """Rounds of local steps; a round begins when all have ended the one before."""
    for _ in range(rounds):
        for ticket in [pool.submit(partial(client.run, local_steps)) for client in clients]:
            ticket.result()
