"""Executors: how the work of base stations is computed, chosen by their models where the scenario leaves it open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...emulator.nodes.compute_pool import BatchedPool, ComputePool, SerialPool, ThreadPool
from ...models.joint.joint_network import is_convolutional
from ..schema.compute_section import ComputeSection
from .client import Client

Kind = Literal["batched", "threads", "serial"]


@dataclass(frozen=True, slots=True)
class Executor:
    """How work is computed.

    Attributes:
        kind: "batched": equal work of several clients by one call; "threads": a client per thread; "serial": one client
            after the other.
        threads: on which clients, or batches of them, are computed side by side.

    >>> str(Executor("batched", 2)), str(Executor("serial", 2))
    ('batched, 2 threads', 'serial')
    """

    kind: Kind
    threads: int

    def __str__(self) -> str:
        if self.kind == "serial":
            return self.kind
        return f"{self.kind}, {self.threads} thread{'' if self.threads == 1 else 's'}"

    def pool(self) -> ComputePool:
        """A new pool."""
        if self.kind == "serial":
            return SerialPool()
        if self.kind == "threads":
            return ThreadPool(self.threads)
        return BatchedPool(ThreadPool(self.threads) if self.threads > 1 else SerialPool())


def choose_executor(section: ComputeSection, clients: Iterable[Client], *, in_step: bool, here: bool) -> Executor:
    """Executor of a run.

    "auto" computes small models together, and on a CPU those with convolutions on threads: there a client's own
    arithmetic fills a processor, and convolutions of several networks at once take longer than one after the other. On
    a GPU they take less. Where clients do not begin their phases together (asynchronous mode), or are trained by
    workers, nothing can be computed together.

    Args:
        section: of the scenario.
        clients: of the run.
        in_step: whether all begin their phases together.
        here: whether they are trained in this process.
    """
    wanted = section.executor
    if wanted == "auto":
        models = [model for client in clients for model in client.models.values()]
        fills = any(is_convolutional(model) and not model.head.is_cuda for model in models)
        wanted = "threads" if fills or not here else "batched"
    if wanted == "batched" and not (in_step and here):
        wanted = "serial"
    return Executor(wanted, section.threads)
