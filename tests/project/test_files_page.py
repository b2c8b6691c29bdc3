"""The page of files names every column and key of real run folders, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import pytest
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

pytestmark = pytest.mark.checkout
PAGE = Path(__file__).parents[2] / "docs" / "files.md"
#: Runs of digits that between them write nearly all that there is.
RUNS: dict[str, dict[str, Any]] = {
    "sheaf": {"links.model": "radio", "evaluate_every": 1, "export.theory": True},
    "asynchronous": {"network.mode": "asynchronous", "algorithm": "dsgd", "rounds": 3},
    "mobile": {"topology.kind": "mobile", "faults": [{"kind": "node_off", "nodes": [0], "at_s": 0.0}]},
    "server": {"algorithm": "apfl"},
    "columns": {"algorithm": "apfl", "export.client_lines": 2},
    "generated": {"algorithm": "fedsheafhn", "hyper.late_clients": 1, "rounds": 3},
}
#: Named by the page, and of outside clients, plugins, real time, other tasks, or long runs with factored maps.
ELSEWHERE = {
    "metrics.jsonl": {"turned", "direction_margin", "report", "map_truncation"},
    "summary.json": {"positions", "dropped", "value", "value_time_s", "realtime", "outside"},
    "environment": {"plugins"},
    "sheaf": {"map_truncation"},
    "diagnostics.json": {"reliability", "roc", "lead_times_s", "residuals", "calibration"},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    return [run_scenario(small(edits), root / name).folder for name, edits in RUNS.items()]


def small(edits: dict[str, Any]) -> Scenario:
    sizes = {"rounds": 1, "evaluate_every": 1, "clients.n_clients": 3, "topology.edge_probability": 1.0}
    quiet = {"network.transport": "memory", "export.onnx": False, "export.report": False}
    return load_scenario("digits").edited({**sizes, **quiet, **edits})


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def first_cells(text: str) -> set[str]:
    """Names in the first column of the tables of a section."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def row(text: str, name: str) -> set[str]:
    """What the row of this name says in code."""
    (meaning,) = re.findall(rf"^\| `{name}` \| (.*) \|$", text, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", meaning))


def lines(folders: Iterable[Path], name: str) -> list[dict[str, Any]]:
    paths = [folder / name for folder in folders if (folder / name).exists()]
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def objects(folders: Iterable[Path], name: str) -> list[dict[str, Any]]:
    return [json.loads((folder / name).read_text(encoding="utf-8")) for folder in folders]


def keys(found: Iterable[dict[str, Any]]) -> set[str]:
    return {key for one in found for key in one}


@pytest.mark.parametrize("name", ["metrics.jsonl", "links.jsonl"])
def test_columns_of_lines_are_those_of_the_page(name: str, folders: list[Path]) -> None:
    found = keys(line for line in lines(folders, name) if "over_clients" not in line)
    assert found
    assert first_cells(section(name)) - ELSEWHERE.get(name, set()) == found


def test_columns_of_many_clients_are_those_of_lines_and_aggregates_those_of_the_page(folders: list[Path]) -> None:
    text, (folder,) = section("metrics/"), [folder for folder in folders if (folder / "metrics").exists()]
    aggregates = [line for line in lines([folder], "metrics.jsonl") if "over_clients" in line]
    assert first_cells(text) == keys(aggregates)
    assert row(text, "over_clients") == keys(one for line in aggregates for one in line["over_clients"].values())
    (path,) = (folder / "metrics").iterdir()
    assert re.fullmatch(r"round-\d{6}\.h5", path.name)
    with h5py.File(path, "r") as file:
        named, attributes = {name.partition(".")[0] for name in file}, set(file.attrs)
    assert named <= first_cells(section("metrics.jsonl")) | {"rest"}
    assert {"round", "client", "group", "loss", "models"} <= named
    assert attributes == set(re.findall(r"`([^`]+)`", text.partition("The attributes")[2].partition(".")[0]))


def test_keys_of_the_summary_are_those_of_the_page(folders: list[Path]) -> None:
    text, summaries = section("summary.json"), objects(folders, "summary.json")
    assert first_cells(text) - ELSEWHERE["summary.json"] == keys(summaries)
    environment = keys(one["environment"] for one in summaries) | {"commit"}  # of a checkout
    assert row(text, "environment") - ELSEWHERE["environment"] - {"-dirty"} == environment
    assert row(text, "sheaf") - ELSEWHERE["sheaf"] == keys(one.get("sheaf", {}) for one in summaries)
    assert row(text, "staleness") == keys(one.get("staleness", {}) for one in summaries)
    counted = set(re.findall(r"`([^`]+)`", text.partition("\n`traffic`:")[2]))
    assert keys(one["traffic"] for one in summaries) <= counted


def test_diagnostics_are_those_of_the_page(folders: list[Path]) -> None:
    text, found = section("diagnostics.json"), objects(folders, "diagnostics.json")
    edges, curves = text.partition("`held_out`")[::2]
    assert keys(found) == {"edges", "held_out"}
    assert first_cells(edges) == keys(edge for one in found for edge in one["edges"])
    drawn = keys(models for one in found for group in one["held_out"].values() for models in group.values())
    named = set(re.findall(r"`([^`]+)`", curves))
    assert drawn | ELSEWHERE["diagnostics.json"] <= named
