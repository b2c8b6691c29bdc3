"""The machine that figures come from, and the one way in which benchmarks print: `python benchmarks/machine.py`."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zmq


def machine_facts() -> dict[str, Any]:
    """What decides speed here, and how busy the machine was when asked."""
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average_1_min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "numpy": np.__version__,
        "pyzmq": zmq.__version__,
    }


def print_report(benchmark: str, machine: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """One JSON object on stdout; `machine` should be asked for before anything was run."""
    print(json.dumps({"benchmark": benchmark, "machine": machine, **figures}, indent=2))


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    print_report("machine", machine_facts(), {})
