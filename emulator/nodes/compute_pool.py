"""Pools that compute the real work of nodes: submitted when simulated work starts, collected when it ends.

Jobs that are submitted in between may run side by side, or together. The jobs of one node never overlap, and each job's
arithmetic runs on one thread, so that the number of threads changes no result. `BatchedPool` computes equal work of
several nodes by one call, which rounds differently.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from ..turns import run_jobs

Result = TypeVar("Result")


class ComputePool(Protocol):
    """Executor of the real work of nodes."""

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Start the job, now or later; it may run on another thread. The future raises what the job raised."""
        ...

    def close(self) -> None:
        """Drop jobs that have not started and wait for those that have."""
        ...


class SerialPool:
    """Pool without threads: runs every job at once, on the caller's thread.

    >>> SerialPool().submit(lambda: 6 * 7).result()
    42
    """

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        ticket: Future[Result] = Future()
        _settle(ticket, job)
        return ticket

    def close(self) -> None:
        """Nothing is ever pending."""


class ThreadPool:
    """Pool of threads; torch releases the interpreter lock while it computes.

    Args:
        n_threads: number of jobs that run at the same time.
    """

    def __init__(self, n_threads: int) -> None:
        self._executor = ThreadPoolExecutor(n_threads, thread_name_prefix="compute")

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        return self._executor.submit(job)

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)


class BatchedPool:
    """Pool that keeps jobs until the first result is asked for, and then computes equal turns of all of them together.

    Nodes that begin a phase at one simulated instant submit their jobs before any of them needs its result, however
    long their devices take; where jobs come one by one, as in asynchronous mode, each is computed alone.

    Args:
        inner: computes turns, those that are computed together as one job.

    >>> pool = BatchedPool(SerialPool())
    >>> first, second = pool.submit(lambda: 6), pool.submit(lambda: 7)
    >>> first.done(), second.result(), first.done()
    (False, 7, True)
    """

    def __init__(self, inner: ComputePool) -> None:
        self._inner = inner
        self._waiting: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        ticket: _Ticket[Result] = _Ticket(self._compute)
        self._waiting.append(partial(_settle, ticket, job))
        return ticket

    def close(self) -> None:
        self._waiting.clear()
        self._inner.close()

    def _compute(self) -> None:
        waiting, self._waiting = self._waiting, []
        run_jobs(waiting, self._inner.submit)


class _Ticket(Future[Result]):
    """Future whose job is computed, with all others that wait, when its result is asked for."""

    def __init__(self, compute: Callable[[], None]) -> None:
        super().__init__()
        self._compute = compute

    def result(self, timeout: float | None = None) -> Result:
        if not self.done():
            self._compute()
        return super().result(timeout)


def _settle(ticket: Future[Result], job: Callable[[], Result]) -> None:
    """Run a job and keep what it returns or raises."""
    try:
        ticket.set_result(job())
    except Exception as error:  # noqa: BLE001 - kept for the caller that collects it, as on a thread
        ticket.set_exception(error)
