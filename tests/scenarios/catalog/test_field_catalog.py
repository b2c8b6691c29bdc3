"""The catalog of fields: complete, described, and true to what the schema accepts."""

from __future__ import annotations

import re
import tomllib

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.catalog.field_catalog import FieldEntry, field_choices, fields_below, scenario_fields
from sheafedge.scenarios.schema.scenario import load_scenario, shipped_scenarios, validated
from sheafedge.scenarios.terminal.completion import complete_assignment


@pytest.fixture(scope="module")
def fields() -> dict[str, FieldEntry]:
    return {one.name: one for one in scenario_fields()}


def set_keys(tables: object, where: str = "") -> set[str]:
    """Dotted names of all values in tables, list items as `*`."""
    if isinstance(tables, dict) and where != "compute.profiles":
        return {name for key, value in tables.items() for name in set_keys(value, f"{where}.{key}".strip("."))}
    if isinstance(tables, list) and tables and isinstance(tables[0], dict):
        return {name for item in tables for name in set_keys(item, f"{where}.*")}
    return {where}


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_every_field_of_a_shipped_scenario_is_in_the_catalog(name: str, fields: dict[str, FieldEntry]) -> None:
    assert set_keys(load_scenario(name).tables()) - fields.keys() == set()


def test_what_a_file_builds_on_is_described_and_is_no_setting() -> None:
    (found,) = fields_below("base")
    assert "builds on" in found.meaning
    assert [name for name, _ in complete_assignment("ba")] == []
    assert "rounds=" in [name for name, _ in complete_assignment("ro")]


def test_every_field_says_what_it_means(fields: dict[str, FieldEntry]) -> None:
    assert [one.name for one in fields.values() if not one.meaning] == []
    references = re.compile(r"see (there|`)|a name of `[A-Z_]+`")
    assert [one.name for one in fields.values() if references.search(one.meaning)] == []


@pytest.mark.parametrize(
    ("name", "kind", "default", "unit", "valid"),
    [
        ("rounds", "integer", "60", "", "at least 1"),
        ("seed", "integer", "0", "", "in [0, 2^63)"),
        ("link.loss_probability", "number", "0", "", "in [0, 1]"),
        ("link.rate_bps", "number", "1e+08", "bit/s", "above 0"),  # checked by another class
        ("network.deadline_s", "number", "0.1", "s", "above 0"),
        ("network.missing", "string", '"skip"', "", '"skip", "stale", "wait"'),
        ("world.street.speed_limit_m_per_s", "number", "11.1", "m/s", "in [3, 30]"),
        ("sheaf.compression", "number", "1", "", "in (0, 1] (0.1 keeps one coordinate per ten head parameters)"),
        ("faults.*.groups", "list of lists of integers or strings", "[]", "", ""),
        ("clients.groups.*.share", "number", "required", "", "in [0, 1]"),
        ("links.edges.*.rate_bps", "number", "not set", "bit/s", ""),
    ],
)
def test_a_field_is_described_as_the_schema_checks_it(
    name: str, kind: str, default: str, unit: str, valid: str, fields: dict[str, FieldEntry]
) -> None:
    found = fields[name]
    assert (found.type, found.default, found.unit, found.valid) == (kind, default, unit, valid)


def test_defaults_are_what_a_scenario_gets(fields: dict[str, FieldEntry]) -> None:
    group = {"name": "all", "modalities": ["rf"], "share": 1.0}
    least = validated({"name": "x", "task": "beam_tracking", "world": {"user": "car"}, "clients": {"groups": [group]}})
    for name, one in fields.items():
        if name.startswith(("link.", "sheaf.", "network.", "training.", "data.owners")):
            section, field = name.split(".")
            stored = least.tables()[section].get(field)
            assert one.default == "not set" if stored is None else tomllib.loads(f"x = {one.default}")["x"] == stored


def test_a_prefix_finds_a_table_or_what_begins_so() -> None:
    assert {one.name for one in fields_below("decision.link")} >= {"decision.link", "decision.link.slot_s"}
    assert [one.name for one in fields_below("link.retry")] == ["link.retry_limit", "link.retry_interval_s"]
    assert "clients.groups.*.share" in {one.name for one in fields_below("clients.groups.0")}
    assert not any(one.name.startswith("links") for one in fields_below("link"))


@pytest.mark.parametrize(
    ("prefix", "hint"),
    [
        ("loss_probability", "link.loss_probability"),
        ("lnik.rate_bps", "link.rate_bps"),
        ("links.deadline", "network.deadline_s"),  # the meaning is in the last part, whatever table it stands in
        ("deadline", "network.deadline_s"),
    ],
)
def test_an_unknown_prefix_is_answered_with_the_field_that_was_meant(prefix: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"no field is called {prefix}; did you mean {hint}"):
        fields_below(prefix)


def test_choices_are_the_values_that_can_be_listed() -> None:
    assert field_choices("algorithm") == tuple(ALGORITHMS)
    assert field_choices("network.missing") == ("skip", "stale", "wait")
    assert field_choices("links.priorities") == ("true", "false")
    assert field_choices("rounds") == field_choices("no.field") == ()
