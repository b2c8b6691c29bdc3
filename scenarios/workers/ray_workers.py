"""Worker processes of a run that Ray starts, on this machine or on others."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..plugins.loading import named_sources, write_sources

_STOPPING_S = 3.0  # for workers to end after the server has closed


def work_for(address: str, seat: int, keys: str, plugins: Sequence[tuple[str, str]]) -> int:
    """Ray task that runs a worker in a child process; returns its exit code.

    Args:
        address: address of the engine's hub.
        seat: number of the seat that the worker takes.
        keys: folder of keys on this host; empty: none.
        plugins: name and source of every plugin file of the engine.
    """
    module = f"{__package__}.worker_run"
    with tempfile.TemporaryDirectory(prefix="sheafedge-") as folder:
        paths = write_sources(Path(folder), plugins)
        return _ended([sys.executable, "-P", "-m", module, address, str(seat), keys, *paths])


def _ended(command: Sequence[str]) -> int:
    """Exit code of a worker that was started here, and that ends with this process."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()  # not before: at its end a worker stops, because its parent seems dead


class RayWorkers:
    """Starts workers as tasks of Ray; the same protocol as `WorkerProcesses`.

    Args:
        ray: module `ray` after `ray.init`.
        address: address at which workers join.
        keys: folder of keys, at the same place on every host; None: none.
    """

    def __init__(self, ray: ModuleType, address: str, keys: Path | None) -> None:
        self._ray, self._address = ray, address
        self._keys = "" if keys is None else str(keys.absolute())
        self._plugins = named_sources()
        # no retries: only the engine can restore what a dead worker had learned
        self._task = ray.remote(num_cpus=1, max_retries=0)(work_for)
        self._started: dict[int, Any] = {}

    def start(self, seat: int) -> None:
        """Start the worker of a seat as a Ray task; a running one is ended first."""
        if before := self._started.pop(seat, None):
            self._ray.cancel(before, force=True)
        self._started[seat] = self._task.remote(self._address, seat, self._keys, self._plugins)

    def ended(self, seat: int) -> str | None:
        """Why the worker of a seat has ended; None: it has not, or there was none."""
        task = self._started.get(seat)
        if task is None or not self._ray.wait([task], timeout=0)[0]:
            return None
        try:
            return f"it ended by itself with exit code {self._ray.get(task)}"
        except self._ray.exceptions.RayError as error:
            return f"Ray has lost it ({type(error).__name__})"

    def close(self) -> None:
        """End all workers; safe to call twice."""
        started = list(self._started.values())
        self._started.clear()
        if started:
            _, left = self._ray.wait(started, num_returns=len(started), timeout=_STOPPING_S)
            for task in left:
                self._ray.cancel(task, force=True)
