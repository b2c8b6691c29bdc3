"""Pools that compute the real work of nodes: submitted when simulated work starts, collected when it ends.

Jobs that are submitted in between may run side by side. The choice of the pool changes no result: the jobs of one node
never overlap, and each job's arithmetic runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

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
        try:
            ticket.set_result(job())
        except Exception as error:  # noqa: BLE001 - kept for the caller that collects it, as on a thread
            ticket.set_exception(error)
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
