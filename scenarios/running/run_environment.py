"""Software and machine that a run was made with: versions, commit and source hash, plugins, processor, device."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from ...emulator.source_hash import PACKAGE, source_hash
from ...version import __version__
from ..schema.scenario import Scenario
from ..wiring.executors import Executor
from ..wiring.torch_setup import choose_device

#: Code that decides the figures of a run; what starts, compares, exports, serves or replays runs does not.
_SOURCES = (
    "emulator/*.py",
    "emulator/[!e]*/**/*.py",
    "emulator/edge/*.py",
    "emulator/**/tables/*.csv",
    "models/*.py",
    "models/[!e]*/**/*.py",
    "models/encoders/**/*.py",
    "datasets/**/*.py",
    "scenarios/links/*.py",
    "scenarios/recording/*.py",
    "scenarios/running/*.py",
    "scenarios/schema/*.py",
    "scenarios/sleeping/*.py",
    "scenarios/tasks/*.py",
    "scenarios/value/*.py",
    "scenarios/wiring/*.py",
    "scenarios/workers/*.py",
)


def run_code() -> str:
    """Hash over the source files of the package that decide the figures of a run."""
    return source_hash(_SOURCES)[:16]


def run_plugins(scenario: Scenario) -> dict[str, str]:
    """Name of every plugin that a run uses -> hash over its source, which decides figures too."""
    return {plugin.name: plugin.digest[:16] for plugin in scenario.used_plugins}


def run_environment(scenario: Scenario, executor: Executor) -> dict[str, Any]:
    """Content of `environment` in `summary.json`, without the number of workers.

    `commit` is there where the package lies in a git repository; it ends in `-dirty` if files differ from the commit.
    """
    compute, plugins, commit = scenario.compute, run_plugins(scenario), source_commit(PACKAGE)
    device = choose_device(compute.device)
    return {
        "sheafedge": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "code": run_code(),
        **({"commit": commit} if commit else {}),
        **({"plugins": plugins} if plugins else {}),
        "machine": platform.machine(),
        "processor": processor_name(),
        "cpus": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "executor": str(executor),
    }


def source_commit(folder: Path) -> str:
    """Commit of a folder that is the root of a git repository; empty where it is none, or git is not installed."""
    if not (folder / ".git").exists():
        return ""  # an installed package may lie in the repository of somebody else
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10.0)  # noqa: S603 - fixed
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name of the processor; its architecture where the system does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
