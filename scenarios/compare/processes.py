"""Worker processes that make runs side by side. They end with their parent, whatever ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from ...emulator.contracts import SheafedgeError
from .work import Done, Task, do

#: A process that was asked to end puts its run aside first; it is given so long.
PATIENCE_S = 10.0


class Processes:
    """A few processes, each with at most one piece of work.

    Args:
        n_processes: how many; each imports torch anew, so that threads and settings of one do not touch another.
    """

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Task] = {}
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.terminate()
        for connection, process in self._processes.items():
            process.join(PATIENCE_S)
            if process.is_alive():
                process.kill()
            connection.close()

    @property
    def has_room(self) -> bool:
        """Whether another piece of work can begin."""
        return len(self._busy) < self._n_processes

    @property
    def is_busy(self) -> bool:
        """Whether anything is being worked on."""
        return bool(self._busy)

    def begin(self, task: Task) -> None:
        """Hand out a piece of work; there must be room."""
        connection = self._idle.pop() if self._idle else self._started()
        connection.send(task)
        self._busy[connection] = task

    def next_ended(self) -> Iterator[tuple[Task, Done]]:
        """Wait for those that end next.

        Raises:
            SheafedgeError: a process is gone.
        """
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)
            try:
                done = connection.recv()
            except EOFError:
                self._processes[connection].join()
                code = self._processes[connection].exitcode
                raise SheafedgeError(
                    f"a process of --jobs {self._n_processes} ended by itself (exit code {code}), perhaps for want of"
                    " memory; use fewer --jobs, the same command continues"
                ) from None
            self._idle.append(connection)
            yield self._busy.pop(connection), done

    def _started(self) -> Connection:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _deaf_to_the_keyboard():
            process.start()
        theirs.close()  # so that its end is seen here
        self._processes[ours] = process
        return ours


def _work(connection: Connection) -> None:
    """Life of a process: work on what comes until the parent is gone, or asks it to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            connection.send(do(connection.recv()))


@contextmanager
def _deaf_to_the_keyboard() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C from their first moment; their parent hears it and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
