"""Which precision answers fastest: measured on this machine, or modelled for a device.

Contenders take turns, see `emulator/edge/bench.py`, and are compared by the time of the thread that computes: other
clients of an export are answered for meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from ...emulator.edge.bench import Clocks, Contender, take_turns
from ...emulator.edge.device_profiles import DEVICE_PROFILES, DeviceProfile
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import TRAINED

#: Precision of a request that leaves the choice to the times.
AUTO = "auto"
#: Place of times that were measured on this machine.
HERE = "this machine"
#: Another precision is chosen if it saves at least this share of the time: less is within what turns differ by.
LEAST_GAIN = 0.05
#: Of every contender; some milliseconds in all.
_ANSWERS = 150


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Time of one answer about one sample, on one thread.

    Attributes:
        where: `HERE`, or the name of a device.
        seconds: precision -> median time in seconds; the trained one is among them.
    """

    where: str
    seconds: Mapping[str, float]

    def slowdown(self, precision: str) -> float:
        """Factor by which a precision is slower than the trained one; below 1 it is faster."""
        return self.seconds[precision] / self.seconds[TRAINED]

    def fastest(self, allowed: Collection[str]) -> str:
        """The fastest precision of those allowed; the trained one where none saves `LEAST_GAIN`.

        >>> AnswerTimes(HERE, {"float32": 2e-4, "float16": 1.95e-4, "int8": 3e-4}).fastest(["float16", "int8"])
        'float32'
        """
        best = min((TRAINED, *allowed), key=lambda precision: self.seconds[precision])
        return best if self.slowdown(best) <= 1.0 - LEAST_GAIN else TRAINED

    def reason(self, chosen: str) -> str:
        """Why the outcome of `fastest` was chosen, with all times.

        >>> AnswerTimes(HERE, {"float32": 2e-4, "int8": 1.96e-4}).reason("float32")
        'float32, since no other saves 5 % of its time: float32 0.200 ms, int8 0.196 ms on this machine'
        """
        is_fastest = self.seconds[chosen] <= min(self.seconds.values())
        why = "the fastest" if is_fastest else f"since no other saves {100 * LEAST_GAIN:g} % of its time"
        return f"{chosen}, {why}: {self.as_text()}"

    def as_text(self) -> str:
        """Times for people, such as "float32 0.130 ms, int8 0.210 ms on this machine"."""
        each = ", ".join(f"{precision} {1e3 * seconds:.3f} ms" for precision, seconds in self.seconds.items())
        return f"{each} on {self.where}"


def measured_times(sessions: Mapping[str, OnnxSession], sample: Mapping[str, NDArray[np.float32]]) -> AnswerTimes:
    """Times on this machine.

    Args:
        sessions: precision -> model, on one thread of the CPU; the trained one is among them.
        sample: input -> [1, ...].
    """
    contenders = [Contender(precision, partial(session.run, sample)) for precision, session in sessions.items()]
    # of this thread alone, which is where a session of one thread computes
    times = take_turns(contenders, answers=_ANSWERS, clocks=Clocks(cpu=time.thread_time))
    return AnswerTimes(HERE, {precision: float(np.median(found.cpu_s)) for precision, found in times.items()})


def modelled_times(device: DeviceProfile, flops: float, input_bytes: float, sizes: Mapping[str, int]) -> AnswerTimes:
    """Times on a device, from its profile.

    Args:
        device: its profile, with figures for the trained precision.
        flops: of one answer.
        input_bytes: of one sample, as float32.
        sizes: precision -> bytes of its model. Precisions without figures of the device count as float32.
    """
    return AnswerTimes(
        device.name,
        {
            precision: device.answer_seconds(flops, precision, input_bytes=input_bytes, weight_bytes=size)
            for precision, size in sizes.items()
        },
    )


def choosing_device(name: str | None) -> DeviceProfile | None:
    """Device whose figures choose a precision; None: this machine.

    Raises:
        ConfigError: there is no such device, or no figures of its answers.
    """
    if name is None:
        return None
    known = sorted(one.name for one in DEVICE_PROFILES.values() if one.answers)
    if name not in known:
        raise ConfigError(
            f"--device must be one of {', '.join(known)}, whose answers have figures, got {name[:40]!r}; leave it out"
            " to measure on this machine"
        )
    return DEVICE_PROFILES[name]
