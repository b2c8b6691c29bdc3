"""Wireless edge-deployment emulator: base stations sense, train together over lossy links, and hand out ONNX models.

A scenario is a frozen value; running it leaves a folder and gives a result with data frames, models and bundles:

    >>> from sheafedge import load_scenario, run_scenario
    >>> scenario = load_scenario("digits").edited({"rounds": 2, "link.loss_probability": 0.2})
    >>> result = run_scenario(scenario)
    >>> result.metrics().groupby("round")["accuracy"].mean()  # doctest: +ELLIPSIS
    round
    0 ...

Run: `load_scenario`, `shipped_scenarios`, `run_scenario`, `resume_run`, `load_run`, `record`. Recordings of your own:
`write_recording`, `check_recording`; paths of a ray tracer: `write_paths`. Compare methods: `compare`, `tune`,
`load_comparison`. Use what was trained: `RunResult.model`, `RunResult.export`, `load_bundle`, `serve`, `FrameClient`.
Add an algorithm, task, data set or link model: `sheafedge.plugins`. Every error that a caller can cause is a
`SheafedgeError`. The page docs/python.md shows all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import plugins as plugins
    from .emulator.contracts import SheafedgeError
    from .emulator.edge.bundle import Bundle, load_bundle
    from .emulator.edge.frame_client import FrameClient
    from .emulator.edge.serving.background_server import serve
    from .scenarios.library.compared_methods import (
        ComparisonResult,
        TuningResult,
        compare,
        load_comparison,
        tune,
    )
    from .scenarios.library.recorded_worlds import record
    from .scenarios.library.run_result import RunResult, load_run
    from .scenarios.library.trained_model import TrainedModel
    from .scenarios.recording.own_paths import write_paths
    from .scenarios.recording.own_recordings import check_recording, write_recording
    from .scenarios.running.run import resume_run, run_scenario
    from .scenarios.schema.scenario import Scenario, load_scenario, shipped_scenarios

__all__ = [
    "Bundle",
    "ComparisonResult",
    "FrameClient",
    "RunResult",
    "Scenario",
    "SheafedgeError",
    "TrainedModel",
    "TuningResult",
    "__version__",
    "check_recording",
    "compare",
    "load_bundle",
    "load_comparison",
    "load_run",
    "load_scenario",
    "record",
    "resume_run",
    "run_scenario",
    "serve",
    "shipped_scenarios",
    "tune",
    "write_paths",
    "write_recording",
]

#: Name -> module that defines it.
_HOMES = {
    "Bundle": "emulator.edge.bundle",
    "ComparisonResult": "scenarios.library.compared_methods",
    "FrameClient": "emulator.edge.frame_client",
    "RunResult": "scenarios.library.run_result",
    "Scenario": "scenarios.schema.scenario",
    "SheafedgeError": "emulator.contracts",
    "TrainedModel": "scenarios.library.trained_model",
    "TuningResult": "scenarios.library.compared_methods",
    "check_recording": "scenarios.recording.own_recordings",
    "compare": "scenarios.library.compared_methods",
    "load_bundle": "emulator.edge.bundle",
    "load_comparison": "scenarios.library.compared_methods",
    "load_run": "scenarios.library.run_result",
    "load_scenario": "scenarios.schema.scenario",
    "record": "scenarios.library.recorded_worlds",
    "resume_run": "scenarios.running.run",
    "run_scenario": "scenarios.running.run",
    "serve": "emulator.edge.serving.background_server",
    "shipped_scenarios": "scenarios.schema.scenario",
    "tune": "scenarios.library.compared_methods",
    "write_paths": "scenarios.recording.own_paths",
    "write_recording": "scenarios.recording.own_recordings",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import sheafedge` must not pay for torch."""
    from importlib import import_module

    if name == "plugins":
        return import_module(f"{__name__}.plugins")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = found  # from now on without a detour
    return found


def __dir__() -> list[str]:
    """What an editor or a shell completes: the names of the API, and what the import system put beside them."""
    return sorted({*__all__, "plugins", *(name for name in globals() if name.startswith("__"))})
