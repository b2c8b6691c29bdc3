"""Plugins that a scenario lists: loaded for users who say so, and never because a file says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from doubles.plugin_files import IDLE, SCENARIO, install, write_own
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.plugin_sources import LOADED, digest_of
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.plugins.loading import load_plugin, load_plugins
from sheafedge.scenarios.schema.scenario import Scenario, listed_plugins, load_scenario, stored_scenario, validated
from sheafedge.scenarios.terminal.shared_options import load_wanted


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_scenario(str(path))
    return str(caught.value)


@pytest.fixture
def own(tmp_path: Path) -> Scenario:
    """The scenario that goes through all doors, with its plugin loaded."""
    plugin, scenario = write_own(tmp_path)
    load_plugin(plugin)
    return load_scenario(str(scenario))


def test_a_list_runs_nothing_and_says_what_to_type(tmp_path: Path) -> None:
    plugin, scenario = write_own(tmp_path)
    plugin.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    sentence = refused(scenario)
    assert f"the scenario needs the plugin {plugin}, whose code would run here" in sentence
    assert f"add --plugin {plugin}, or --trust-plugins for all" in sentence
    load_wanted(None)  # without --trust-plugins
    assert not (tmp_path / "ran").exists()
    assert not LOADED


def test_what_a_trusted_file_lists_is_loaded(tmp_path: Path) -> None:
    _, scenario = write_own(tmp_path)
    comparison = tmp_path / "views.toml"
    comparison.write_text('scenario = "own.toml"\n[methods.own]\nalgorithm = "half_steps"\n')
    load_wanted(None, trusted=comparison)
    assert load_scenario(str(scenario)).algorithm_spec is ALGORITHMS["half_steps"]


@pytest.mark.parametrize("name", ["blockage", "no such file"])
def test_where_nothing_is_listed_nothing_is_loaded(name: str) -> None:
    load_wanted(None, trusted=name)
    assert not LOADED


def test_a_name_that_nobody_has_may_be_one_of_a_plugin() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown algorithm 'half_steps'; known: .*; load one of your own with --plu"
    ):
        load_scenario("digits").edited({"algorithm": "half_steps"})


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (["rules", "ru.py"], "the scenario needs the plugin 'rules', which is not installed here; install the package"),
        ("rules.py", "plugins must be a list, got 'rules.py'"),
        ([3], "plugins.0 must be a string, got 3"),
    ],
)
def test_a_list_that_cannot_be_met_is_refused(listed: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated({**load_scenario("digits").tables(), "plugins": listed})
    assert expected in str(caught.value)


def test_an_installed_plugin_is_listed_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "listed_rules", IDLE, "lazy = listed_rules:PLUGIN")
    load_plugins()
    scenario = load_scenario("digits").edited({"algorithm": "idle"})
    (entry,) = scenario.pinned_tables("plugins/")["plugins"]
    assert entry == f"lazy#sha256={LOADED['lazy'].digest}"
    assert validated({**scenario.tables(), "plugins": [entry]}).algorithm == "idle"


def test_a_scenario_knows_which_plugins_it_uses(own: Scenario) -> None:
    digest = LOADED["all_doors.py"].digest
    assert own.pinned_tables("plugins/")["plugins"] == [f"plugins/all_doors.py#sha256={digest}"]
    plain = load_scenario("digits")
    assert plain.pinned_tables()["plugins"] == []
    for edits in ({"algorithm": "half_steps"}, {"links.model": "slow"}, {"links.edges": [EXCEPTION]}):
        assert [one.name for one in plain.edited(edits).used_plugins] == ["all_doors.py"]


def test_a_pinned_plugin_is_that_source_or_none(own: Scenario, tmp_path: Path) -> None:
    """As in a run folder, whose files may have another place by now."""
    tables = own.pinned_tables("plugins/")
    text, place = tomli_w.dumps(tables), str(tmp_path / "run" / "scenario.toml")
    assert stored_scenario(tables, place).algorithm == "half_steps"
    load_plugin_text(tmp_path / "all_doors.py", "SHARE = 0.5", "SHARE = 0.75")
    with pytest.raises(ConfigError) as caught:
        stored_scenario(tables, place)
    sentence = str(caught.value)
    assert (
        f"plugin all_doors.py of {tmp_path / 'all_doors.py'} is not the one that the scenario was run with" in sentence
    )
    assert digest_of((tmp_path / "all_doors.py").read_bytes())[:12] in sentence
    assert f"give --plugin {tmp_path / 'run' / 'plugins' / 'all_doors.py'}, or take #sha256=... out" in sentence
    assert "sha256" in text
    unpinned = {**tables, "plugins": ["plugins/all_doors.py"]}
    assert stored_scenario(unpinned, place).algorithm == "half_steps"


def load_plugin_text(path: Path, old: str, new: str) -> None:
    """Edit a plugin file, and load it again."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    load_plugin(path)


# --- the tables of link models ----------------------------------------------------------------------------------------

EXCEPTION = {"clients": [0, 1], "model": "slow", "slow": {"delay_s": 0.5}}


def test_settings_of_a_link_model_are_a_table_of_their_own(own: Scenario) -> None:
    assert own.links.settings_of("slow").delay_s == 0.25
    assert own.edited({"links.slow.delay_s": 1}).links.settings_of("slow").delay_s == 1.0
    again = validated(own.tables())
    assert again == own
    assert again.links.settings_of("slow").delay_s == 0.25
    left_out = load_scenario("digits").edited({"links.model": "slow"})
    assert left_out.links.settings_of("slow").delay_s == 0.125


def test_single_edges_have_settings_of_it_too(own: Scenario) -> None:
    (edge,) = own.edited({"links.model": "constant", "links.edges": [EXCEPTION]}).links.edges
    assert edge.model == "slow"
    assert edge.slow.delay_s == 0.5  # type: ignore[attr-defined]  # a field that only this plugin's table has


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"links.slow.dela_s": 1}, "links.slow.dela_s is not a known field; did you mean links.slow.delay_s?"),
        ({"links.slow.delay_s": "long"}, "links.slow.delay_s must be a valid number, got 'long'"),
        ({"links.slo": {"delay_s": 1}}, "links.slo is not a known field"),
        ({"links.model": "slo"}, "unknown links.model 'slo'"),
        ({"links.edges": [{**EXCEPTION, "slow": {"dela_s": 1}}]}, "links.edges.0.slow.dela_s is not a known field"),
        ({"links.edges": [{**EXCEPTION, "slo": {}}]}, "links.edges.0.slo is not a known field"),
        ({"links.edges": [{**EXCEPTION, "radio": {}}]}, "links.edges.0.radio is not a known field"),  # of all edges
    ],
)
def test_a_typo_in_its_table_is_named(own: Scenario, edits: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        own.edited(edits)
    assert expected in str(caught.value)


def test_the_scenario_lists_paths_relative_to_itself(tmp_path: Path) -> None:
    _, scenario = write_own(tmp_path)
    assert listed_plugins(scenario) == [str(tmp_path / "all_doors.py")]
    scenario.write_text(SCENARIO.replace('["all_doors.py"]', '["sub/x.py#sha256=ab", "installed", "/abs/y.py"]'))
    assert listed_plugins(scenario) == [f"{tmp_path}/sub/x.py#sha256=ab", "installed", "/abs/y.py"]
