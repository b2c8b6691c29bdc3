"""Turns: parts of a learner's work that can be computed together with equal ones of other learners.

A learner plays a turn wherever it comes to one. Its job waits there, on a stack of its own, until all jobs that are
gathered have come to a turn or to their end; turns of equal keys are then computed by one call. Where nobody gathers,
the turn is computed at once, so that no algorithm knows of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

#: Computes a function, now or on a thread.
Submit = Callable[[Callable[[], None]], Future[None]]


class Turn(Protocol):
    """A part of the work of one learner; where its result is kept, is its own business."""

    @property
    def key(self) -> Hashable:
        """Turns that may be computed together have equal keys; None: it is always computed alone."""
        ...

    def run(self) -> None:
        """Compute it alone."""
        ...

    def run_with(self, others: Sequence[Any], /) -> None:
        """Compute it together with others of the same type and key; equal to `run` of each up to rounding."""
        ...


class _Job(greenlet):
    """A function on a stack of its own, which hands out the turns that it comes to."""

    ended = False

    def __init__(self, job: Callable[[], None]) -> None:
        super().__init__(self._whole)
        self._job = job

    def _whole(self) -> None:
        self._job()
        self.ended = True


def play(turn: Turn) -> None:
    """Compute a turn, alone or with those of other jobs; returns when that is done, and raises what it raised."""
    current = getcurrent()
    if isinstance(current, _Job):
        assert current.parent is not None
        current.parent.switch(turn)
    else:
        turn.run()


def run_jobs(
    jobs: Iterable[Callable[[], None]],
    submit: Submit,
    together: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Run jobs to their ends, with turns of equal keys computed together.

    Args:
        jobs: raise nothing. They may play turns; between two turns they run one after the other, on this thread.
        submit: computes turns without equals.
        together: makes the context in which turns are computed together.

    >>> run_jobs([lambda: print("first"), lambda: print("second")], submit=lambda _: Future())
    first
    second
    """
    waiting: list[tuple[_Job, Turn]] = []
    for job in map(_Job, jobs):
        _go_on(job, waiting)
    while waiting:
        parked, waiting = waiting, []
        failed = _compute([turn for _, turn in parked], submit, together)
        for job, turn in parked:
            _go_on(job, waiting, failed.get(id(turn)))


def _go_on(job: _Job, waiting: list[tuple[_Job, Turn]], error: BaseException | None = None) -> None:
    """Let a job run to its next turn, or to its end."""
    turn = job.switch() if error is None else job.throw(error)
    if not job.ended:
        waiting.append((job, turn))


def _compute(
    turns: Sequence[Turn], submit: Submit, together: Callable[[], AbstractContextManager[None]]
) -> dict[int, BaseException]:
    """Compute turns, in groups of equal type and key; returns id of a turn -> what it has raised."""
    groups: dict[Hashable, list[Turn]] = {}
    for turn in turns:
        key = turn.key
        groups.setdefault(id(turn) if key is None else (type(turn), key), []).append(turn)
    failed: dict[int, BaseException] = {}
    alone = [(group[0], submit(group[0].run)) for group in groups.values() if len(group) == 1]
    for turn, ticket in alone:
        if (found := ticket.exception()) is not None:
            failed[id(turn)] = found
    for first, *others in (group for group in groups.values() if len(group) > 1):
        try:
            with together():
                first.run_with(others)
        except Exception as error:  # noqa: BLE001 - goes to the jobs that it belongs to
            failed.update((id(turn), error) for turn in (first, *others))
    return failed
