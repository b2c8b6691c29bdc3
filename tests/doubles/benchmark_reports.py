"""Benchmarks on problems so small that a test can ask what they print."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

VALUE_EDITS = json.dumps(
    {
        "rounds": 1,
        "world.n_sites": 2,
        "world.duration_s": 90,
        "clients.n_clients": 2,
        "topology.kind": "complete",
        "model.width": 0.125,
        "training.local_steps": 1,
        "training.batch_size": 8,
    }
)
#: Heads of the shipped size on a triangle: their history, if nothing bounded it, would be seen in resident memory.
MEMORY_EDITS = json.dumps(
    {
        "clients.n_clients": 3,
        "clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}],
        "topology.kind": "complete",
        "world.n_sites": 1,
        "world.duration_s": 200,
        "training.local_steps": 1,
        "training.batch_size": 8,
        "network.transport": "memory",
    }
)
SMALL = {
    "overhead": ["--rounds", "1", "--repeats", "1", "--clients", "8", "--executors", "threads", "batched"],
    "ring_mlp": ["--rounds", "2", "--repeats", "1", "--clients", "4", "--arms", "emulated_threads", "emulated_batched"],
    "peers": ["--rounds", "2", "--repeats", "1", "--clients", "4"],
    "maps": ["--rounds", "3", "--head-sizes", "128", "--compressions", "0.1", "0.23"],
    "links": ["--nodes", "10", "--messages", "200", "--repeats", "1"],
    "messages": ["--nodes", "10", "--degree", "4", "--rounds", "2", "--repeats", "1", "--floats", "8", "2000"],
    "traces": ["--megabytes", "0.1"],
    "hub": ["--peers", "5", "--messages", "20", "--together", "2", "--repeats", "2", "--kilobytes", "1"],
    "scale": [
        "--clients",
        "6",
        "12",
        "--rounds",
        "1",
        "--repeats",
        "1",
        "--graphs",
        "regular",
        "--transports",
        "zmq",
        "memory",
        *("--sampled", "4", "--of", "4", "12"),
    ],
    "memory": ["--rounds", "4", "--every", "2", "--edits", MEMORY_EDITS],
    "devices": ["--seconds", "0.1", "--small"],
    "export": ["--scenarios", "beam_tracking", "--repeats", "1", "--edits", MEMORY_EDITS],
    "export_form": ["--scenarios", "beam_tracking", "--repeats", "2", "--runs", "2", "--edits", MEMORY_EDITS],
    "record": ["--stations", "1", "--seconds", "10", "--chunks", "1"],
    "round": [
        *("--repeats", "1", "--batch", "2", "--width", "0.125"),
        *("--round-repeats", "2", "--products", "2", "--rounds", "1", "--clients", "2", "--seconds", "30"),
    ],
    "value": ["--scenarios", "blockage", "--seeds", "0", "--edits", VALUE_EDITS],
    "serve": ["--seconds", "0.2", "--repeats", "1", "--streams", "2", "--below-ms", "5000", "--most-rate", "32"],
    "serve_cost": ["--questions", "30", "--repeats", "2", "--calls", "3"],
    "cuda": ["--workloads", "beam_tracking", "--rounds", "2", "--repeats", "1", "--edits", MEMORY_EDITS],
    "blockage_round": ["--rounds", "1", "--repeats", "1", "--clients", "2", "--seconds", "30", "--width", "0.125"],
}


def report(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    import_module(f"sheafedge.benchmarks.{name}").main([*SMALL[name], *more])
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed["benchmark"] == name
    assert printed["machine"].keys() >= {"cpu", "cpus", "load_average_1_min", "torch", "torch_threads"}
    return printed


def assert_spread(figures: dict[str, float]) -> None:
    assert figures.keys() == {"median", "min", "max"}
    assert 0.0 < figures["min"] <= figures["median"] <= figures["max"]
