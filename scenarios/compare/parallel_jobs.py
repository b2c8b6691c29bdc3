"""Jobs of a comparison in parallel, in processes of this host."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from ...emulator.contracts import SheafedgeError
from ..plugins.loading import PluginSource, load_plugin_sources, loaded_sources
from .jobs import Job, JobOutcome, run_job

#: Time in s that a terminated process gets to rename the folder of its interrupted run.
TERMINATION_TIMEOUT_S = 10.0
#: Time in s after which a swallowed interrupt is repeated: the finalizer that swallowed it has ended by then.
REPEAT_S = 0.01


class JobProcesses:
    """Pool of processes with at most one job each.

    Args:
        n_processes: largest number of processes. Each imports torch itself, so that thread settings stay separate.
    """

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Job] = {}
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # all are terminated before the first is joined, so that they shut down at the same time
        for process in self._processes.values():
            process.terminate()
        for connection, process in self._processes.items():
            process.join(TERMINATION_TIMEOUT_S)
            if process.is_alive():
                process.kill()
            connection.close()

    @property
    def has_room(self) -> bool:
        """Whether another job can start."""
        return len(self._busy) < self._n_processes

    @property
    def is_busy(self) -> bool:
        """Whether any job is running."""
        return bool(self._busy)

    def begin(self, job: Job) -> None:
        """Start a job; `has_room` must be true.

        Raises:
            SheafedgeError: the process for it died.
        """
        connection = self._idle.pop() if self._idle else self._started()
        try:
            connection.send(job)
        except ConnectionError:  # nobody reads the pipe of a process that has died while it was idle
            raise self._death(connection) from None
        self._busy[connection] = job

    def next_ended(self) -> Iterator[tuple[Job, JobOutcome]]:
        """Wait until some jobs end, and yield them with their outcomes.

        Raises:
            SheafedgeError: a process died.
        """
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)
            try:
                outcome = connection.recv()
            except (EOFError, ConnectionError):  # the latter where it died before it had read its job
                raise self._death(connection) from None
            self._idle.append(connection)
            yield self._busy.pop(connection), outcome

    def _death(self, connection: Connection) -> SheafedgeError:
        """What there is to say about the process at the other end, which has died."""
        process = self._processes[connection]
        process.join()
        return SheafedgeError(
            f"a process of --jobs {self._n_processes} died (exit code {process.exitcode}), perhaps because memory ran"
            " out; use fewer --jobs, the same command continues"
        )

    def _started(self) -> Connection:
        # a forked process would inherit torch with the thread pool and locks of the parent
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, loaded_sources()), daemon=True)
        # a child keeps a signal that its parent ignored when it started
        with _ignoring_ctrl_c():
            process.start()
        theirs.close()  # otherwise the end of the process would not close the pipe
        self._processes[ours] = process
        return ours


def _work(connection: Connection, plugins: Sequence[PluginSource]) -> None:
    """Main loop of a process: run jobs until the parent ends or terminates it."""
    load_plugin_sources(plugins)  # before the first job, whose scenario may hold a value of theirs
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    # raised as KeyboardInterrupt, on which a run renames its unfinished folder before the process ends
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.unraisablehook = interrupt_again
    with suppress(EOFError, KeyboardInterrupt, ConnectionError):
        while True:
            connection.send(run_job(connection.recv()))
    gc.freeze()  # the process ends: see `sheafedge.scenarios.entry`


def _end_with_parent() -> None:
    """End this process with its parent: nobody waits for its run any more, whose folder must have no owner."""
    parent = parent_process()
    assert parent is not None, "a process of a pool has one"
    wait([parent.sentinel])
    os._exit(1)


def interrupt_again(swallowed: sys.UnraisableHookArgs) -> None:
    """Hook for exceptions that Python cannot raise: repeats an interrupt, and reports all others as usual.

    An interrupt that arrives inside a finalizer or a callback of a weak reference is swallowed there. Without a second
    one the job would go on until its process is killed, and leave its folder as it is.
    """
    if swallowed.exc_type is KeyboardInterrupt:
        threading.Timer(REPEAT_S, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(swallowed)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Context in which started processes ignore Ctrl-C; their parent handles it and terminates them."""
    # Python sets signal handlers in the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
