"""Turns: parts of a learner's work that can be computed together with equal ones of other learners.

A learner plays a turn wherever it comes to one. Its job waits there, on a stack of its own, until all jobs that are
gathered have come to a turn or to their end; turns of equal keys are then computed by one call. Where nobody gathers,
the turn is computed at once, so that no algorithm knows of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
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

    @property
    def at_once(self) -> int:
        """Most turns of this key that one call computes."""
        ...

    def run(self) -> None:
        """Compute it alone."""
        ...

    def run_with(self, others: Sequence[Any], /) -> None:
        """Compute it together with others of the same type and key; equal to `run` of each up to rounding."""
        ...


class _GatheredJob(greenlet):
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
    if isinstance(current, _GatheredJob):
        assert current.parent is not None
        current.parent.switch(turn)
    else:
        turn.run()


def run_jobs(jobs: Iterable[Callable[[], None]], submit: Submit) -> None:
    """Run jobs to their ends, with turns of equal keys computed together.

    Args:
        jobs: raise nothing. They may play turns; between two turns they run one after the other, on this thread.
        submit: computes turns, those that are computed together as one.

    >>> run_jobs([lambda: print("first"), lambda: print("second")], submit=lambda _: Future())
    first
    second
    """
    waiting: list[tuple[_GatheredJob, Turn]] = []
    for job in map(_GatheredJob, jobs):
        _go_on(job, waiting)
    while waiting:
        parked, waiting = waiting, []
        failed = _compute([turn for _, turn in parked], submit)
        for job, turn in parked:
            _go_on(job, waiting, failed.get(id(turn)))


def _go_on(job: _GatheredJob, waiting: list[tuple[_GatheredJob, Turn]], error: BaseException | None = None) -> None:
    """Let a job run to its next turn, or to its end."""
    turn = job.switch() if error is None else job.throw(error)
    if not job.ended:
        waiting.append((job, turn))


def _compute(turns: Sequence[Turn], submit: Submit) -> dict[int, BaseException]:
    """Compute turns, in groups of equal type and key; returns id of a turn -> what it has raised."""
    equal: dict[Hashable, list[Turn]] = {}
    for turn in turns:
        key = turn.key
        equal.setdefault(id(turn) if key is None else (type(turn), key), []).append(turn)
    groups = [group for of_key in equal.values() for group in _pieces(of_key)]
    tickets = [submit(partial(group[0].run_with, group[1:]) if len(group) > 1 else group[0].run) for group in groups]
    raised = [(group, ticket.exception()) for group, ticket in zip(groups, tickets, strict=True)]
    return {id(turn): error for group, error in raised if error is not None for turn in group}


def _pieces(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """Turns of one key in groups of about one size, whatever the number of threads, because sizes decide rounding."""
    n_groups = 1 if len(turns) == 1 else math.ceil(len(turns) / turns[0].at_once)
    ends = [len(turns) * number // n_groups for number in range(n_groups + 1)]
    return (turns[first:last] for first, last in pairwise(ends))
