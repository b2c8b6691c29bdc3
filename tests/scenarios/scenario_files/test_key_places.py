"""Lines of keys: those that a reader of the file would point at."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from sheafedge.scenarios.scenario_files.annotated_toml import annotated_toml
from sheafedge.scenarios.scenario_files.key_places import key_lines
from sheafedge.scenarios.schema.scenario import shipped_scenarios

TEXT = '''# a comment with a = sign
rounds = 3
summary = """
[link]
rate_bps = 7
"""
link.loss_probability = 0.2
"quoted key" = 1  # [not a header]

[clients]
n_clients = 4
groups = [
    {name = "a", modalities = ["rf"]},  # comment
]

[[faults]]
kind = "node_off"

[[faults]]
kind = "link_down"
edges = [[0, 1]]
    [faults.deep]
    x = 1
'''
LINES = {
    "rounds": 2,
    "summary": 3,
    "link.loss_probability": 7,
    "quoted key": 8,
    "clients": 10,
    "clients.n_clients": 11,
    "clients.groups": 12,
    "clients.groups.0.modalities": 12,
    "faults": 16,
    "faults.0.kind": 17,
    "faults.1": 19,
    "faults.1.kind": 20,
    "faults.1.edges": 21,
    "faults.1.deep.x": 23,
}


def test_every_key_has_the_line_on_which_it_is_written() -> None:
    found = key_lines(TEXT)
    assert {key: found.get(key) for key in LINES} == LINES
    assert not any(key.startswith("link.rate") for key in found), "that one is inside a text"


def leaves(value: Any, where: str = "") -> set[str]:
    if isinstance(value, dict):
        return {name for key, inner in value.items() for name in leaves(inner, f"{where}.{key}".removeprefix("."))}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {name for index, inner in enumerate(value) for name in leaves(inner, f"{where}.{index}")}
    return {where}


@pytest.mark.parametrize("path", shipped_scenarios().values(), ids=lambda path: path.stem)
def test_every_key_of_a_shipped_file_is_found_on_its_line(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    found, lines = key_lines(text), text.splitlines()
    for key in leaves(tomllib.loads(text)):
        assert lines[found[key] - 1].lstrip().startswith((key.rpartition(".")[2], "groups", "{")), key


def test_a_value_without_end_costs_no_time_and_no_lines() -> None:
    found = key_lines("a = 1\nlong = [\n" + "1,\n" * 50_000 + "]\nb = 2\n")
    assert found == {"a": 1}


def test_annotated_text_is_still_the_same_toml() -> None:
    tables = tomllib.loads(TEXT)
    text = annotated_toml(tables, lambda key: f"from {key}")
    assert tomllib.loads(text) == tomllib.loads(tomli_w.dumps(tables))
    assert "rounds = 3                               # from rounds" in text.splitlines()
    assert any(line.endswith("# from faults.1.kind") for line in text.splitlines())
