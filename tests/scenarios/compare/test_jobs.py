"""Jobs of a comparison: what a run raises is an outcome, and no end of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simpy
from sheafedge.emulator.contracts import DivergedError
from sheafedge.scenarios.compare import jobs
from sheafedge.scenarios.compare.jobs import Job, JobOutcome, run_job
from sheafedge.scenarios.schema.scenario import load_scenario


def outcome_of(error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch) -> JobOutcome:
    def raising(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(jobs, "run_scenario", raising)
    return run_job(Job(load_scenario("digits"), folder, ""))


def test_an_exception_of_a_plugin_fails_its_run_alone_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = outcome_of(KeyError("momentum"), tmp_path / "run", monkeypatch)
    assert outcome.error == "KeyError"
    line = raising_line()
    assert outcome.sentence == f"KeyError: 'momentum' (test_jobs.py, line {line}; its traceback was printed)"
    assert "Traceback" in capsys.readouterr().err


def test_the_place_is_that_of_the_plugin_and_not_of_the_clock_that_passes_its_exception_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process(env: simpy.Environment) -> Iterator[simpy.Event]:
        yield env.timeout(1.0)
        raise error

    def emulated(*_: Any, **__: Any) -> None:
        env = simpy.Environment()
        env.process(process(env))
        env.run()  # nobody waits for the process: SimPy raises a copy, from a line of its own

    error = KeyError("momentum")
    monkeypatch.setattr(jobs, "run_scenario", emulated)
    outcome = run_job(Job(load_scenario("digits"), tmp_path / "run", ""))
    assert outcome.sentence.startswith("KeyError: 'momentum' (test_jobs.py, line ")


def test_an_error_that_is_a_sentence_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = outcome_of(DivergedError("client 3 left the finite numbers"), tmp_path / "run", monkeypatch)
    assert (outcome.error, outcome.sentence) == ("DivergedError", "client 3 left the finite numbers")
    assert capsys.readouterr().err == ""


def test_an_interrupt_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome_of(KeyboardInterrupt(), tmp_path / "run", monkeypatch)


def raising_line() -> int:
    """Line of this file that raises."""
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(text) if line.strip() == "raise error")
