"""A run is followed by its trackers, and owes them nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.running.progress import NoRunProgress, RunProgress
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.tracking.tracked_progress import TrackedProgress


class Shown(NoRunProgress):
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.rounds: list[int] = []

    def noted(self, sentence: str) -> None:
        self.said.append(sentence)

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        self.rounds.append(round_index)


class Kept:
    """A tracker that fails in the round it was told."""

    def __init__(self, fails_in: int = 0) -> None:
        self._fails_in = fails_in
        self.logged: dict[int, Mapping[str, float]] = {}
        self.final: Any = "open"

    def log(self, rounds_done: int, figures: Mapping[str, float]) -> None:
        if rounds_done == self._fails_in:
            raise RuntimeError("the disk\nis full")
        self.logged[rounds_done] = figures

    def close(self, final: Mapping[str, float] | None) -> None:
        self.final = final


def broken() -> Kept:
    raise OSError("no such thing")


def test_every_round_of_a_run_is_logged_and_a_tracker_that_fails_costs_nothing(
    tiny_edits: dict[str, Any], tmp_path: Path
) -> None:
    scenario = load_scenario("beam_tracking").edited(
        {**tiny_edits, "rounds": 2, "export.onnx": False, "export.pictures": 0}
    )
    shown, kept, failing = Shown(), Kept(), Kept(fails_in=2)
    openers = {"kept": lambda: kept, "failing": lambda: failing, "broken": broken}
    with TrackedProgress(shown, openers) as progress:
        result = run_scenario(scenario, tmp_path / "run", progress)
        progress.complete(result.summary)
    assert shown.rounds == [0, 1]
    assert list(kept.logged) == [1, 2]
    assert kept.logged[2]["network/bytes_sent"] == result.summary["traffic"]["bytes"]
    top1 = result.summary["groups"]["rf"]["top1"]
    assert kept.logged[2]["rf/held_out/fused/top1"] == pytest.approx(top1)
    assert kept.final["final/rf/top1"] == pytest.approx(top1)
    assert list(failing.logged) == [1]
    assert failing.final == "open"  # nothing more is asked of it
    assert shown.said == [
        "tracker broken failed and gets no more figures of this run (OSError: no such thing)",
        "tracker failing failed and gets no more figures of this run (RuntimeError: the disk is full)",
    ]


def test_an_interrupted_run_closes_its_trackers_without_final_figures() -> None:
    kept = Kept()
    progress = TrackedProgress(NoRunProgress(), {"kept": lambda: kept})
    progress.started(object())  # type: ignore[arg-type]  # nothing here reads it
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    assert kept.final is None


def test_every_call_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback that was forgotten would silence the terminal."""
    called: list[str] = []
    names = [name for name in vars(RunProgress) if not name.startswith("_")]
    shown = NoRunProgress()
    for name in names:
        monkeypatch.setattr(shown, name, lambda *arguments, name=name: called.append(name))
    progress = TrackedProgress(shown, {})
    for name in names:
        n_arguments = RunProgress.__dict__[name].__code__.co_argcount - 1
        getattr(progress, name)(*[[{"round": 0}]] * n_arguments)
    assert called == names
