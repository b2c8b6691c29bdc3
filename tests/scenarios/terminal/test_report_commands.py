"""`sheafedge report`, and the report at the end of a run: a path, or one sentence."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare import comparison_report
from sheafedge.scenarios.report import run_report
from sheafedge.scenarios.terminal.report_commands import report, report_ended_run


def test_a_folder_that_is_not_there_is_refused_before_any_report(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run folder at"):
        report([tmp_path, tmp_path / "nothing"])
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_gets_its_own_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(comparison_report, "write_comparison_report", lambda folder: folder / "of a comparison")
    report([tmp_path])
    assert capsys.readouterr().out == f"{tmp_path}/of a comparison\n"


def test_a_report_that_fails_does_not_fail_the_run(tmp_path: Path) -> None:
    printed = io.StringIO()
    report_ended_run(Console(file=printed), tmp_path)
    (line,) = printed.getvalue().splitlines()
    assert line.startswith("warning: no report (ConfigError: ")
    assert line.endswith(f"sheafedge report {tmp_path} writes it")


def test_a_run_ends_with_the_path_of_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, bool]] = []

    def write(folder: Path, *, figures: bool) -> Path:
        asked.append((folder, figures))
        return folder / "report.html"

    monkeypatch.setattr(run_report, "write_run_report", write)
    printed = io.StringIO()
    report_ended_run(Console(file=printed), tmp_path)
    assert printed.getvalue() == f"report    {tmp_path}/report.html\n"
    assert asked == [(tmp_path, False)]
