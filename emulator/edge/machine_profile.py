"""A device profile of this machine: how many times as long it takes as the reference machine, model by model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..contracts import ConfigError
from .bench_bundles import Workload
from .device_profiles import REFERENCE, AnswerCost, DeviceProfile


class Measured(NamedTuple):
    """Time of one call that was measured.

    Attributes:
        precision: of the model.
        workload: of the call.
        seconds: that it took.
    """

    precision: str
    workload: Workload
    seconds: float


def calibrated(name: str, power_w: float, calls: Sequence[Measured], measured_on: str) -> DeviceProfile:
    """The reference machine, slowed by what was measured here; one factor per precision.

    With bundles of several sizes the factor is the geometric mean of theirs, and `source` states their spread.

    Args:
        name: of the device.
        power_w: that it draws.
        calls: that were measured, one per bundle; one of them float32.
        measured_on: machine and software, for people.

    Raises:
        ConfigError: no float32 bundle is among them.
    """
    factors = _factors(calls)
    if "float32" not in factors:
        raise ConfigError("--save-profile needs a float32 bundle, against which the others count; name one too")
    known = {cost.precision: cost for cost in REFERENCE.answers}
    # Geometric, because factors multiply: twice as fast and half as fast cancel out.
    means = {precision: float(np.exp(np.mean(np.log(found)))) for precision, found in factors.items()}
    whole = REFERENCE.slowed(means["float32"])
    answers = tuple(_scaled(known[precision], means[precision]) for precision in known if precision in means)
    spread = ", ".join(f"{one} {min(found):.2f}-{max(found):.2f}" for one, found in sorted(factors.items()))
    source = f"measured: {measured_on}; times of {REFERENCE.name}: {spread} ({len(calls)} bundles); training by float32"
    return replace(whole, name=name, power_w=power_w, source=source, kind="measured", answers=answers)


def _factors(calls: Sequence[Measured]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for call in calls:
        expected_s = call.workload.seconds_on(REFERENCE, call.precision)
        found.setdefault(call.precision, []).append(call.seconds / expected_s)
    return found


def _scaled(cost: AnswerCost, factor: float) -> AnswerCost:
    (slower,) = replace(REFERENCE, answers=(cost,)).slowed(factor).answers
    return slower
