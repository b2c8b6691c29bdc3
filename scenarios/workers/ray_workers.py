"""Workers of a run in processes of Ray, on this machine or on others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple
from types import ModuleType
from typing import Any

from ...emulator.contracts import SheafedgeError
from ...emulator.network.transport.curve_keys import CurveKeys
from ..plugins.loading import PluginSource, loaded_sources
from .ray_cluster import RayShare, one_line

_STOPPING_S = 3.0  # for workers to end after the server has closed
_ASK_S = 1  # for room, between two looks at Ctrl-C


class RayWorker:
    """A worker in a process of Ray, which is its own and ends with it."""

    def work(
        self, address: str, seat: int, keys: Sequence[bytes], plugins: Sequence[Sequence[str]], join_s: float
    ) -> str:
        """Serve the engine until it is done; returns why it ended, empty where the engine stopped it.

        Args:
            address: address of the engine's hub.
            seat: number of the seat to take.
            keys: fields of the keys of the worker; none: messages are not encrypted.
            plugins: sources of plugins, three texts each.
            join_s: limit for the engine to answer.
        """
        from ...emulator.nodes.worker_client import EngineAddress, process_name
        from ...emulator.nodes.worker_seat import WorkerLimits
        from ...version import __version__
        from .worker_run import served  # imports torch

        given = CurveKeys(*keys) if keys else None
        limits = WorkerLimits(join_s=join_s)
        engine = EngineAddress(address, __version__, process_name(), seat, given, limits=limits)
        return served(engine, [PluginSource(*source) for source in plugins])


class RayWorkers:
    """Starts workers as actors of Ray; the same protocol as `WorkerProcesses`.

    Their places are taken all together, so that no run has half of its workers and waits for those of another.

    Args:
        ray: module `ray` after `ray.init`.
        n_workers: number of seats.
        share: what each worker is given.
        keys: keys of the workers; None: messages are not encrypted.
        join_s: limit for the cluster to have room, and for workers to join.

    Raises:
        SheafedgeError: the cluster has no room within that time.
    """

    def __init__(self, ray: ModuleType, n_workers: int, share: RayShare, keys: CurveKeys | None, join_s: float) -> None:
        self._ray, self._join_s = ray, join_s
        self._keys: tuple[bytes, ...] = () if keys is None else astuple(keys)
        self._plugins = [tuple(source) for source in loaded_sources()]  # Ray pickles texts, and no class of ours
        self._places = _placed(ray, n_workers, share, join_s)
        # No restart by Ray: only the engine can restore what a dead worker had learned.
        self._actor = ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, max_restarts=0)(RayWorker)
        self._started: dict[int, tuple[Any, Any]] = {}

    def start(self, seat: int, address: str) -> None:
        """Start the worker of a seat, which joins at this address; a running one is ended first."""
        if before := self._started.pop(seat, None):
            self._ray.kill(before[0])
        place = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self._places, placement_group_bundle_index=seat
        )
        actor = self._actor.options(scheduling_strategy=place).remote()
        work = actor.work.remote(address, seat, self._keys, self._plugins, self._join_s)
        self._started[seat] = actor, work

    def ended(self, seat: int) -> str | None:
        """Why the worker of a seat has ended; None: it has not, or there was none."""
        if seat not in self._started:
            return None
        _, work = self._started[seat]
        if not self._ray.wait([work], timeout=0)[0]:
            return None
        try:
            return f"it ended by itself ({self._ray.get(work) or 'the engine stopped it'})"
        except self._ray.exceptions.RayError as error:
            return f"Ray has lost it ({one_line(error)})"

    def close(self) -> None:
        """End all workers; safe to call twice."""
        started = list(self._started.values())
        self._started.clear()
        if started:
            works = [work for _, work in started]
            self._ray.wait(works, num_returns=len(works), timeout=_STOPPING_S)
        for actor, _ in started:
            self._ray.kill(actor)


def _placed(ray: ModuleType, n_workers: int, share: RayShare, limit_s: float) -> Any:
    """Places for all workers, as a placement group; Ray takes it back when this process ends.

    Raises:
        SheafedgeError: others use too much of the cluster.
    """
    places = ray.util.placement_group([share.resources] * n_workers, strategy=share.placement.upper())
    until_s = time.monotonic() + limit_s
    while not places.wait(_ASK_S):  # in pieces: Ray does not hear Ctrl-C while it waits
        if time.monotonic() > until_s:
            raise SheafedgeError(
                f"Ray had no room for {n_workers} workers with {share} each within {limit_s:g} s, because others use"
                " it; ask for fewer or smaller ones, or try again later"
            )
    return places
