"""Completion in the shell: what is offered for a word that is half typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.schema.scenario import shipped_scenarios
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.terminal.completion import (
    complete_algorithm,
    complete_algorithms,
    complete_assignment,
    complete_field,
    complete_scenario,
)


def names(offered: list[tuple[str, str]]) -> list[str]:
    return [name for name, _ in offered]


def test_scenarios_are_shipped_ones_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.toml", "notes.txt", ".hidden.toml"):
        (tmp_path / name).touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.toml").touch()
    assert names(complete_scenario("")) == [*shipped_scenarios(), "mine.toml", "more/"]
    assert names(complete_scenario("bl")) == ["blockage"]
    assert names(complete_scenario("more/")) == ["more/other.toml"]
    assert names(complete_scenario("/no/such/")) == []


def test_algorithms_complete_alone_and_in_a_list() -> None:
    assert names(complete_algorithm("")) == list(ALGORITHMS)
    assert complete_algorithms("local,fedp") == ["local,fedproto_decentralized", "local,fedprox", "local,fedper"]
    assert "local,local" not in complete_algorithms("local,loc")


def test_fields_complete_and_then_their_values() -> None:
    assert names(complete_assignment("link.loss")) == ["link.loss_probability="]
    assert names(complete_assignment("network.missing=s")) == ["network.missing=skip", "network.missing=stale"]
    assert names(complete_assignment("rounds=")) == []
    offered = names(complete_assignment(""))
    assert "sheaf.coupling=" in offered
    assert [one for one in offered if "*" in one or one == "sheaf="] == []
    assert names(complete_field("decision.han"))[:2] == ["decision.handover", "decision.handover.offset_db"]


def test_the_shell_gets_the_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By the protocol of typer's script for bash."""
    monkeypatch.setenv("_SHEAFEDGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "sheafedge\nrun\nbeam_tr")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capsys.readouterr().out.split() == ["beam_tracking"]
