"""A run that is resumed with more rounds is the run that had so many from its start, to the last bit."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from integration.tiny import tiny
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.terminal.cli import main

#: Half of what is sent is lost, some arrives after its deadline, and maps learn.
HARD = {
    "rounds": 4,
    "link.loss_probability": 0.3,
    "network.missing": "stale",
    "network.deadline_s": 0.02,
    "evaluate_every": 2,
}
TIMES = ("recording_time_s", "wall_time_s", "value_time_s", "export_time_s")


class Stops(NoRunProgress):
    """Somebody presses Ctrl-C when a round ends."""

    def __init__(self, round_index: int) -> None:
        self._round_index = round_index

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if round_index == self._round_index:
            os.kill(os.getpid(), signal.SIGINT)


def interrupted(chosen: Scenario, out: Path, round_index: int) -> Path:
    with pytest.raises(KeyboardInterrupt):
        run_scenario(chosen, out, Stops(round_index))
    return out.with_name(f"{out.name}.interrupted")


def left(folder: Path) -> dict[str, Any]:
    """Everything in a run folder that is not about this machine, and no checkpoint."""
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    summary = json.loads(files.pop(Path("summary.json")))
    return {
        "summary": {key: value for key, value in summary.items() if key not in TIMES},
        "files": {path: content for path, content in files.items() if path.parts[0] != "checkpoint"},
    }


@pytest.fixture(scope="module")
def of_six(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run of six rounds leaves."""
    return left(run_scenario(tiny({**HARD, "rounds": 6}), tmp_path_factory.mktemp("six") / "run").folder)


def test_an_interrupted_run_trains_on(of_six: dict[str, Any], tmp_path: Path) -> None:
    aside = interrupted(tiny(HARD), tmp_path / "run", 1)
    longer = resume_run(aside, edits={"rounds": 6})
    assert longer.folder == tmp_path / "run"
    assert not aside.exists()
    assert left(longer.folder) == of_six


@pytest.mark.slow
def test_a_run_that_trains_on_may_be_interrupted_too(of_six: dict[str, Any], tmp_path: Path) -> None:
    aside = interrupted(tiny(HARD), tmp_path / "run", 0)
    with pytest.raises(KeyboardInterrupt):
        resume_run(aside, Stops(4), edits={"rounds": 6})
    assert left(resume_run(aside).folder) == of_six


def test_a_complete_run_trains_on_in_a_folder_of_its_own(tmp_path: Path) -> None:
    kept = {"keep_checkpoint": True}
    first = run_scenario(tiny({**HARD, **kept}), tmp_path / "run")
    before = left(first.folder)
    longer = resume_run(first.folder, edits={"rounds": 6})
    assert longer.folder == tmp_path / "run-6rounds"
    whole = run_scenario(tiny({**HARD, **kept, "rounds": 6}), tmp_path / "whole")
    assert left(longer.folder) == left(whole.folder)
    assert left(first.folder) == before
    visible = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert visible == {"run", "run-6rounds", "whole"}


@pytest.mark.slow
def test_fewer_rounds_are_possible_too(of_six: dict[str, Any], tmp_path: Path) -> None:
    aside = interrupted(tiny({**HARD, "rounds": 9}), tmp_path / "run", 1)
    assert left(resume_run(aside, edits={"rounds": 6}).folder) == of_six


def test_without_a_kept_checkpoint_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    done = run_scenario(tiny({"rounds": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="is complete and has no checkpoint to train on from; run it with"):
        resume_run(done.folder, edits={"rounds": 2})
    with pytest.raises(ConfigError, match="is complete; there is nothing to resume, but --set rounds=N trains on"):
        resume_run(done.folder)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a step size": ({}, {"training.head_step_size": 0.2}, "--resume cannot change training.head_step_size, which"),
    "the seed": ({}, {"seed": 3, "rounds": 6}, "--resume cannot change seed, which decided the rounds that are over"),
    "rounds that are over": ({}, {"rounds": 2}, "rounds must be above 2, which are done, got 2"),
    "no rounds": ({}, {"rounds": 0}, "rounds must be at least 1, got 0"),
    "a share of the rounds": (
        {"algorithm": "averaged_and_tuned"},
        {"rounds": 6},
        "rounds of averaged_and_tuned cannot change",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_another_run_is_refused_and_nothing_is_lost(case: str, tmp_path: Path) -> None:
    base, edits, sentence = REFUSED[case]
    aside = interrupted(tiny({**HARD, **base}), tmp_path / "run", 1)
    before = {path: path.read_bytes() for path in aside.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=sentence):
        resume_run(aside, edits=edits)
    assert {path: path.read_bytes() for path in aside.rglob("*") if path.is_file()} == before


def test_a_last_round_that_was_evaluated_out_of_turn_is_refused(tmp_path: Path) -> None:
    done = run_scenario(tiny({**HARD, "rounds": 3, "keep_checkpoint": True}), tmp_path / "run")
    with pytest.raises(ConfigError, match="evaluate_every = 2 does not divide 3"):
        resume_run(done.folder, edits={"rounds": 6})
    assert not (tmp_path / "run-6rounds.partial").exists()


def test_the_command_trains_on(
    of_six: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = interrupted(tiny(HARD), tmp_path / "run", 1)
    monkeypatch.setattr("sys.argv", ["sheafedge", "run", "--resume", str(aside), "--set", "link.rate_bps=3"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.startswith("error: --resume cannot change link.rate_bps")
    monkeypatch.setattr("sys.argv", ["sheafedge", "run", "--resume", str(aside), "--set", "rounds=6"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "6 rounds on cpu" in capsys.readouterr().out
    assert left(tmp_path / "run")["summary"] == of_six["summary"]
