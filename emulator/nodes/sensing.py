"""The sensing side of a base station as a process on the simulated clock: sample, and hand over now and then.

It runs on the clock's own thread, beside the rounds of the learning side, whatever the frames are used for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from ..contracts import SensorSource
from ..ranges import check_ranges

#: Ticks that are sensed at once, however rarely frames are handed over: memory does not grow with the time between.
TICKS_AT_ONCE = 256
#: In ticks: far above what products of times and rates lose to rounding, far below a tick.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class SensorClock:
    """Instants at which a base station senses, and at which it hands over.

    Attributes:
        rate_hz: tick i is at the simulated instant i / rate_hz.
        n_ticks: ticks 0 to n_ticks - 1 are all that there are.
        handover_s: frames are handed over at every multiple of this simulated time.
        first_tick: those before have been sensed already.

    Raises:
        ConfigError: a value outside its range.
    """

    rate_hz: float
    n_ticks: int
    handover_s: float
    first_tick: int = 0

    def __post_init__(self) -> None:
        any_number = (0, 1 << 53)
        ranges = {"rate_hz": (1e-6, 1e6), "handover_s": (1e-6, 1e6), "n_ticks": any_number, "first_tick": any_number}
        check_ranges("live", self, ranges)


def sensing(
    env: simpy.Environment,
    source: SensorSource,
    clock: SensorClock,
    hand_over: Callable[[Mapping[str, NDArray[Any]]], None],
) -> Generator[simpy.Event, object, None]:
    """The sensors' life: every tick once, in order, until the last.

    A frame is sensed and handed over at the first handover at or after its instant, never before it.

    Args:
        env: the clock.
        source: the sensors.
        clock: theirs.
        hand_over: takes pieces of one frame or more, in order.
    """
    tick = clock.first_tick
    for index in count(1):
        if tick >= clock.n_ticks:
            return
        handover_s = index * clock.handover_s
        # All ticks at or before the handover; a product of time and rate may lie just below a whole number.
        stop = min(math.floor(handover_s * clock.rate_hz + ROUNDING) + 1, clock.n_ticks)
        if stop <= tick:
            continue
        handover_s = max(handover_s, (stop - 1) / clock.rate_hz)  # which rounding may have put a moment later
        while env.now < handover_s:  # once; twice where the sum of now and the rest rounds down
            yield env.timeout(handover_s - env.now)
        for first in range(tick, stop, TICKS_AT_ONCE):
            frames = source.sense(np.arange(first, min(first + TICKS_AT_ONCE, stop)))
            if frames:
                hand_over(frames)
        tick = stop
