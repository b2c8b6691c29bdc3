"""Planned runs of a comparison; every error in a comparison is raised here, before the first run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...emulator.contracts import ConfigError, ScenarioError
from ..schema.compatibility import IncompatibleError
from ..schema.scenario import Scenario
from .comparison import Comparison
from .stored_runs import run_name

#: Runs of a comparison export no models, draw no pictures and have no report each.
NO_EXPORTS = {"export.onnx": False, "export.pictures": 0, "export.report": False}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Run of one method with one seed, at one value of the varied field.

    Attributes:
        method: name of the method.
        value: value of the varied field; None if nothing varies.
        seed: root seed of the run.
        scenario: resolved scenario.
        name: name of the run folder; methods with the same resolved scenario share one.
        refusal: why the run cannot take place; empty: it can.
    """

    method: str
    value: Any
    seed: int
    scenario: Scenario
    name: str
    refusal: str = ""


def planned_runs(comparison: Comparison) -> tuple[PlannedRun, ...]:
    """All runs, ordered by seed, then by varied value, then by method.

    A method that does not go together with the scenario is part of the results: a comparison of all algorithms shows
    which of them cannot run.

    Raises:
        ConfigError: an unknown algorithm or field, or an invalid value.
    """
    base = comparison.base()
    return tuple(
        _planned(comparison, base, method, value, seed)
        for seed in comparison.seeds
        for value in comparison.varied_values
        for method in comparison.methods
    )


def _planned(comparison: Comparison, base: Scenario, method: str, value: Any, seed: int) -> PlannedRun:
    varied = {comparison.varied_key: value} if comparison.vary else {}
    edits = {**comparison.methods[method], **varied, "seed": seed, **NO_EXPORTS}
    refusal = ""
    try:
        scenario = base.edited(edits)
    # before ScenarioError, of which it is a subclass: what does not go together is a result, an invalid value an error
    except IncompatibleError as error:
        # the row of this method in the results still needs a scenario: its algorithm and the name of its folder
        scenario, refusal = base.unchecked(edits), "; ".join(error.sentences)
    except ScenarioError as error:
        at = "".join(f" at {key} = {value}" for key in varied)
        raise ScenarioError(error.sentences, f"method {method!r}{at}: ") from None
    except ConfigError as error:
        at = "".join(f" at {key} = {value}" for key in varied)
        raise ConfigError(f"method {method!r}{at}: {error}") from None
    return PlannedRun(method, value, seed, scenario, run_name(scenario), refusal)
