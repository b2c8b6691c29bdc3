"""Latency of models on this machine, measured so that a busy machine does not reverse comparisons.

Contenders take turns in one process, so that whatever else the machine does meets all of them alike; a turn is a few
answers in a row, as a device gives them. Ratios are taken turn by turn. Beside the time on the wall stands the time
that the processor really worked: where that is much shorter, others were served in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError

#: Answers in a row; the first of a turn finds the caches full of another contender and is not counted.
ANSWERS_PER_TURN = 10
#: With fewer, the last of a hundred is no estimate.
FEWEST_FOR_P99 = 100
#: A ratio needs a spread.
FEWEST_TURNS = 5
#: Part of the wall time that may be lost to others before the report mentions it.
QUIET = 0.1

Clock = Callable[[], float]
#: Whose time: the processor's, or that of the clock on the wall.
ClockName = Literal["cpu", "wall"]


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that is timed: each call of `answer` answers one batch."""

    name: str
    answer: Callable[[], object]


class Clocks(NamedTuple):
    """Time on the wall, and time that processors worked for this process, in seconds."""

    wall: Clock = time.perf_counter
    cpu: Clock = time.process_time


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Times of one contender.

    Attributes:
        wall_s, cpu_s: [n_turns, n_answers].
    """

    wall_s: NDArray[np.float64]
    cpu_s: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of one contender for a batch.

    Attributes:
        n: answers that were timed.
        p50_ms, p95_ms: percentiles.
        p99_ms: None with fewer than a hundred answers.
        cpu_ms: median of the processor's time.
        answers_per_s: rate of one caller that calls again at once, all of a batch counted.
        taken_by_others: share of the wall time in which this process was not served; 0 with several threads at work.
    """

    n: int
    p50_ms: float
    p95_ms: float
    p99_ms: float | None
    cpu_ms: float
    answers_per_s: float
    taken_by_others: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the times of two contenders, turn by turn.

    Attributes:
        median: over turns.
        low, high: tenth and ninetieth percentile over turns.
    """

    median: float
    low: float
    high: float


def take_turns(
    contenders: Sequence[Contender],
    *,
    seconds: float | None = None,
    answers: int | None = None,
    clocks: Clocks = Clocks(),  # noqa: B008 - frozen
) -> dict[str, Times]:
    """Times of contenders that are measured side by side.

    Args:
        contenders: contenders with different names; each has a warm-up turn that is not counted.
        seconds: go on until so much wall time is over, for all together; or
        answers: number of answers of each, at least.
        clocks: clocks of wall and processor time.

    Returns:
        name -> times; as many turns of everyone, at least `FEWEST_TURNS`.
    """
    _check_request(contenders, seconds, answers)
    for contender in contenders:
        _turn(contender, clocks)
    turns: dict[str, list[list[tuple[float, float]]]] = {contender.name: [] for contender in contenders}
    n_wanted = FEWEST_TURNS if answers is None else max(FEWEST_TURNS, -(-answers // ANSWERS_PER_TURN))
    until_s, n_done = clocks.wall() + (seconds or 0.0), 0
    while n_done < n_wanted or (seconds is not None and clocks.wall() < until_s):
        first = n_done % len(contenders)  # no contender always follows the same one, whose data fill the caches
        for contender in (*contenders[first:], *contenders[:first]):
            turns[contender.name].append(_turn(contender, clocks))
        n_done += 1
    return {name: _times(found) for name, found in turns.items()}


def latency(times: Times, batch: int) -> Latency:
    """Latency of one contender.

    Args:
        times: times of the contender.
        batch: samples that every call answered.
    """
    wall_ms = times.wall_s.ravel() * 1e3
    wall_s, cpu_s = float(times.wall_s.sum()), float(times.cpu_s.sum())
    p50, p95, p99 = (float(value) for value in np.percentile(wall_ms, [50, 95, 99]))
    return Latency(
        n=wall_ms.size,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99 if wall_ms.size >= FEWEST_FOR_P99 else None,
        cpu_ms=float(np.median(times.cpu_s)) * 1e3,
        answers_per_s=batch * wall_ms.size / wall_s,
        taken_by_others=max(0.0, 1.0 - cpu_s / wall_s),
    )


def ratio(one: Times, other: Times, by: ClockName = "cpu") -> Ratio:
    """Ratio of the times of `one` to those of `other`, turn by turn.

    Args:
        one, other: times of the same turns.
        by: the processor's time, which others cannot touch; or the wall's, where several threads or a GPU compute.
    """
    # Of the same turns, in which the machine was equally busy.
    first, second = (times.cpu_s if by == "cpu" else times.wall_s for times in (one, other))
    # median within a turn, then over turns: a single interruption moves neither
    each = np.median(first, axis=1) / np.median(second, axis=1)
    low, median, high = (float(value) for value in np.percentile(each, [10, 50, 90]))
    return Ratio(median, low, high)


def _check_request(contenders: Sequence[Contender], seconds: float | None, answers: int | None) -> None:
    if not contenders or len({contender.name for contender in contenders}) != len(contenders):
        raise ConfigError("contenders must have different names, and there must be one at least")
    if (seconds is None) == (answers is None):
        raise ConfigError("give either seconds or answers")
    if not 0 < (seconds or answers or 0) < float("inf"):
        raise ConfigError(f"seconds and answers must be above 0, got {seconds or answers}; try 10 seconds")


def _turn(contender: Contender, clocks: Clocks) -> list[tuple[float, float]]:
    """Wall and processor time of every answer of a turn but the first."""
    answer, wall, cpu = contender.answer, clocks.wall, clocks.cpu
    answer()  # fills the caches again after the other contenders' turns
    found = []
    for _ in range(ANSWERS_PER_TURN):
        wall_s, cpu_s = wall(), cpu()
        answer()
        found.append((wall() - wall_s, cpu() - cpu_s))
    return found


def _times(turns: Sequence[Sequence[tuple[float, float]]]) -> Times:
    both = np.array(turns)
    tick_s = 1e-9  # a clock that did not move between two readings must not divide by zero
    return Times(np.maximum(both[..., 0], tick_s), np.maximum(both[..., 1], tick_s))
