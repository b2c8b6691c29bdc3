"""Arms that take turns in one process, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sheafedge.benchmarks.machine import say

#: Sets up one repeat, hands over the work to be timed, and cleans up; only the work counts.
Arm = Callable[[], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True, slots=True)
class Timing:
    """One repeat: wall time, and CPU time of all threads of the process."""

    wall_s: float
    cpu_s: float


def interleaved(arms: Mapping[str, Arm], repeats: int, *, warm_up: bool = True) -> dict[str, list[Timing]]:
    """A B C A B C ...: this many timings of every arm, after one round that is thrown away, or cold."""
    timings: dict[str, list[Timing]] = {name: [] for name in arms}
    for repeat in range(-1 if warm_up else 0, repeats):
        for name, arm in arms.items():
            timing = timed(arm)
            say(f"{'warm-up' if repeat < 0 else f'repeat {repeat + 1}/{repeats}'}: {name} {timing.wall_s:.3f} s")
            if repeat >= 0:
                timings[name].append(timing)
    return timings


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def timed(arm: Arm) -> Timing:
    """One repeat: its set-up, the garbage of what ran before, and then the work on the clock."""
    with arm() as work:
        gc.collect()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        work()
        return Timing(time.perf_counter() - wall_s, time.process_time() - cpu_s)
