"""Which runs a comparison is made of; whatever is wrong with it is found here, before any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...emulator.contracts import ConfigError
from ..schema.scenario import Scenario
from ..wiring.assembly import find_algorithm
from .comparison import Comparison
from .stored_runs import run_name

#: Runs of a comparison hand nothing out.
NOTHING_HANDED_OUT = {"export.onnx": False, "export.pictures": 0}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One arm with one seed, at one value of what varies.

    Attributes:
        arm: its name.
        value: of the varied field; None where nothing varies.
        seed: of every draw.
        scenario: resolved.
        name: of its run folder; arms that come down to the same scenario share one.
    """

    arm: str
    value: Any
    seed: int
    scenario: Scenario
    name: str


def planned_runs(comparison: Comparison) -> tuple[PlannedRun, ...]:
    """Every run, seed by seed.

    Raises:
        ConfigError: an unknown algorithm or field, or a value that no run could have.
    """
    base = comparison.base()
    return tuple(
        _planned(comparison, base, arm, value, seed)
        for seed in comparison.seeds
        for value in comparison.varied_values
        for arm in comparison.arms
    )


def _planned(comparison: Comparison, base: Scenario, arm: str, value: Any, seed: int) -> PlannedRun:
    varied = {comparison.varied_key: value} if comparison.vary else {}
    try:
        scenario = base.edited({**comparison.arms[arm], **varied, "seed": seed, **NOTHING_HANDED_OUT})
        find_algorithm(scenario.algorithm)
    except ConfigError as error:
        at = "".join(f" at {key} = {value}" for key in varied)
        raise ConfigError(f"arm {arm!r}{at}: {error}") from None
    return PlannedRun(arm, value, seed, scenario, run_name(scenario))
