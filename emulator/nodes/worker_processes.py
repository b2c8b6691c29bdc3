"""Worker processes on this machine: started, watched, and ended with the run."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_STOPPING_S = 2.0  # for a process that was sent the end, and again for one that was terminated


class WorkerProcesses:
    """Worker processes of a run, one per seat. They hold the other end of a pipe, which ends with this process.

    Args:
        command: seat and address of the engine -> command line of its process.
    """

    def __init__(self, command: Callable[[int, str], Sequence[str]]) -> None:
        self._command = command
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[int, int]:
        """Seat -> process id."""
        return {seat: process.pid for seat, process in self._processes.items()}

    def start(self, seat: int, address: str) -> None:
        """Start the process of a seat, which joins at this address; one that is still there is ended first."""
        if before := self._processes.pop(seat, None):
            _end([before], 0.0)
        self._processes[seat] = subprocess.Popen(  # noqa: S603 - our own program
            self._command(seat, address),
            # Never written to: the pipe ends when this process does, however it ends.
            stdin=subprocess.PIPE,
            # Standard error stays, so that a traceback of a worker is seen.
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the engine alone, which stops the workers
        )

    def ended(self, seat: int) -> str | None:
        """Reason why the process of a seat has ended; None: it has not, or there was none."""
        process = self._processes.get(seat)
        code = None if process is None else process.poll()
        if code is None:
            return None
        # POSIX: the negative number of the signal.
        if code < 0:
            return f"it was killed by {_signal_name(-code)}, perhaps for want of memory"
        return f"it ended by itself with exit code {code}"

    def close(self) -> None:
        """End all processes; safe to call twice."""
        processes = list(self._processes.values())
        self._processes.clear()
        _end(processes, _STOPPING_S)


def _end(processes: Sequence[subprocess.Popen[bytes]], patience_s: float) -> None:
    # In three sweeps over all processes, so that they end side by side.
    _wait(processes, patience_s)
    for process in processes:
        process.terminate()
    _wait(processes, _STOPPING_S)
    for process in processes:
        process.kill()
        process.wait()
        if process.stdin is not None:  # not before: a worker takes the end of the pipe for the end of this process
            process.stdin.close()


def _wait(processes: Sequence[subprocess.Popen[bytes]], patience_s: float) -> None:
    until_s = time.monotonic() + patience_s
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until_s - time.monotonic()))


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
