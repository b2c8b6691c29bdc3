"""Worker processes of a run that Ray starts, on this machine or on others."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from .ray_tasks import work_for

_STOPPING_S = 3.0  # for workers that were told to stop


class RayWorkers:
    """The same door as `WorkerProcesses`.

    Args:
        ray: running.
        address: where workers join.
        keys: folder of keys, at the same place on every host; None: none.
    """

    def __init__(self, ray: ModuleType, address: str, keys: Path | None) -> None:
        self._ray, self._address = ray, address
        self._keys = "" if keys is None else str(keys.absolute())
        # A worker that dies is the engine's affair, which knows what it had learned.
        self._task = ray.remote(num_cpus=1, max_retries=0)(work_for)
        self._started: dict[int, Any] = {}

    def start(self, seat: int) -> None:
        """Let Ray start the worker of a seat; one that is still there is ended first."""
        if before := self._started.pop(seat, None):
            self._ray.cancel(before, force=True)
        self._started[seat] = self._task.remote(self._address, seat, self._keys)

    def ended(self, seat: int) -> str | None:
        """Why the worker of a seat is no more; None: it is, or there was none."""
        task = self._started.get(seat)
        if task is None or not self._ray.wait([task], timeout=0)[0]:
            return None
        try:
            return f"it ended by itself with exit code {self._ray.get(task)}"
        except self._ray.exceptions.RayError as error:
            return f"Ray has lost it ({type(error).__name__})"

    def close(self) -> None:
        """End them all; safe to call twice."""
        started = list(self._started.values())
        self._started.clear()
        if started:
            _, left = self._ray.wait(started, num_returns=len(started), timeout=_STOPPING_S)
            for task in left:
                self._ray.cancel(task, force=True)
