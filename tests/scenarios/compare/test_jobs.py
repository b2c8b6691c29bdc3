"""Jobs of a comparison: what a run raises is an outcome, and no end of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
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
