"""Wireless edge-deployment emulator: base stations sense, train together over lossy links, and hand out ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .scenarios.running.run import RunResult, run_scenario
    from .scenarios.schema.scenario import Scenario, load_scenario

__all__ = ["RunResult", "Scenario", "__version__", "load_scenario", "run_scenario"]

_HOMES = {
    "RunResult": "scenarios.running.run",
    "run_scenario": "scenarios.running.run",
    "Scenario": "scenarios.schema.scenario",
    "load_scenario": "scenarios.schema.scenario",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import sheafedge` must not pay for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
