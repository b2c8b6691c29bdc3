"""Real work of the nodes, asked for when simulated work starts and collected when it ends.

Whatever was asked for in between runs side by side. Which pool does it changes no result: the jobs of one node never
overlap, and each job's arithmetic runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class ComputePool(Protocol):
    """Where real work runs."""

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Start the job, now or later; it may run on another thread. The ticket raises what the job raised."""
        ...

    def close(self) -> None:
        """Drop jobs that have not started and wait for those that have."""
        ...


class SerialPool:
    """Every job at once, on the caller's thread."""

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        ticket: Future[Result] = Future()
        try:
            ticket.set_result(job())
        except Exception as error:  # noqa: BLE001 - kept for whoever collects, as on a thread
            ticket.set_exception(error)
        return ticket

    def close(self) -> None:
        """Nothing is ever pending."""


class ThreadPool:
    """Jobs on threads; torch lets go of the interpreter while it computes.

    Args:
        n_threads: how many jobs at a time.
    """

    def __init__(self, n_threads: int) -> None:
        self._executor = ThreadPoolExecutor(n_threads, thread_name_prefix="compute")

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        return self._executor.submit(job)

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
