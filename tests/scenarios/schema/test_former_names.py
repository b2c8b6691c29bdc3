"""Former names: a user is answered with the present one, and what a run wrote is read on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare import stored_runs
from sheafedge.scenarios.schema.former_names import FORMER_NAMES, GONE_NAMES, with_former_names, with_present_names
from sheafedge.scenarios.schema.scenario import load_scenario, stored_scenario

#: Former name -> an edit that uses it, and the sentence that answers it.
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "link.blockage_loss": (
        {"link.blockage_loss": 0.5},
        "link.blockage_loss is now link.blocked_loss_probability; use that name",
    ),
    "links.edges.*.blockage_loss": (
        {"links.edges": [{"clients": [0, 1], "blockage_loss": 0.5}]},
        "links.edges.0.blockage_loss is now links.edges.0.blocked_loss_probability; use that name",
    ),
    "server.sampled": ({"server.sampled": 3}, "server.sampled is now clients.sampled; use that name"),
    "decision.handover.warned_for_s": (
        {"decision.handover.warned_for_s": 0.2},
        "decision.handover.warned_for_s is now decision.handover.prepare_s; use that name",
    ),
    "link.loss_model": (
        {"link.loss_model": "iid"},
        (
            "link.loss_model is now links.model; set links.model = 'gilbert_elliott' for bursts, and leave it out for"
            " 'iid'"
        ),
    ),
}
IN_USE = [
    {"link.blocked_loss_probability": 0.5},
    {"links.edges": [{"groups": ["lidar+rf", "lidar+rf"], "blocked_loss_probability": 0.25}]},
    {"clients.sampled": 3},
    {"decision.handover.prepare_s": 0.2},
]


def test_every_former_name_is_answered_below() -> None:
    assert ANSWERS.keys() == FORMER_NAMES.keys()


@pytest.mark.parametrize("name", ANSWERS)
def test_a_user_who_writes_a_former_name_is_answered_with_the_present_one(name: str) -> None:
    edits, sentence = ANSWERS[name]
    with pytest.raises(ConfigError) as caught:
        load_scenario("blockage").edited(edits)
    assert str(caught.value) == sentence


def test_a_scenario_file_of_a_user_is_answered_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(with_former_names(load_scenario("blockage").tables())), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.toml:\d+: link\.blockage_loss is now link\.blocked_loss_probability"):
        load_scenario(str(path))


def test_the_file_of_a_run_folder_repeats_its_run_under_former_names(tmp_path: Path) -> None:
    scenario = load_scenario("blockage").edited(IN_USE[0])
    path = tmp_path / "scenario.toml"
    path.write_text(tomli_w.dumps(with_former_names(scenario.tables())), encoding="utf-8")
    (tmp_path / "metrics.jsonl").write_text("", encoding="utf-8")
    assert load_scenario(str(path)) == scenario


@pytest.mark.parametrize("edits", IN_USE)
def test_what_a_run_wrote_under_former_names_is_read_on(edits: dict[str, Any]) -> None:
    scenario = load_scenario("blockage").edited(edits)
    former = with_former_names(scenario.tables())
    assert "blocked_loss_probability" not in str(former)
    assert "sampled" in former["server"]
    assert "sampled" not in former["clients"]
    assert stored_scenario(former, "scenario.toml") == scenario
    assert with_present_names(former) == scenario.tables()


@pytest.mark.parametrize("name", GONE_NAMES)
def test_a_field_that_is_gone_is_answered_and_left_out_of_what_a_run_wrote(name: str) -> None:
    scenario = load_scenario("drone_beam")
    with pytest.raises(ConfigError, match=rf"^{name} is gone; .*beams") as caught:
        scenario.edited({name: 1})
    assert "\n" not in str(caught.value)
    section, table, field = name.split(".")
    tables = scenario.tables()
    written = {**tables, section: {**tables[section], table: {**tables[section][table], field: 1}}}
    assert stored_scenario(written, "scenario.toml") == scenario


def test_a_name_whose_values_changed_is_not_read_on() -> None:
    tables = {**load_scenario("blockage").tables(), "link": {"loss_model": "iid"}}
    with pytest.raises(ConfigError, match=r"scenario\.toml: link\.loss_model is now links\.model"):
        stored_scenario(tables, "scenario.toml")


def test_a_compared_run_is_found_under_the_folder_name_that_it_had_before_a_field_was_renamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is one that version 0.1.0 gave when the field was called `link.blockage_loss`."""
    monkeypatch.setattr(stored_runs, "__version__", "0.1.0")
    then = {"decision.warn_above": 0.8}  # as it was shipped
    scenario = load_scenario("blockage").edited({"link.blocked_loss_probability": 0.5, **then})
    assert stored_runs.run_name(scenario) == "sheaf_dmfl_att-seed0-658d845b325e"
