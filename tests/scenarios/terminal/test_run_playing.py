"""`sheafedge run --live`: the address in one line, and one sentence for a port that is taken."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.live_page.page_server import open_port
from sheafedge.scenarios.terminal import cli


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code: int | None = ended.value.code  # type: ignore[assignment]
    return code


def test_a_port_that_is_taken_is_one_sentence_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_port(0) as taken:
        port = taken.getsockname()[1]
        assert command(monkeypatch, "run", "digits", "--live-port", str(port)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(rf"error: --live-port {port} cannot be used \(.*\); give another .*\n", said.err)
    assert list(tmp_path.iterdir()) == []


def test_the_address_is_one_line_before_all_others_and_a_resumed_run_has_one_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny_edits: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    edits = {**tiny_edits, "rounds": 1, "keep_checkpoint": True, "checkpoint_every": 1}
    set_ = [part for key, value in edits.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    assert not command(monkeypatch, "run", "beam_tracking", "--live", "--out", "r", *set_)
    first, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"live page at http://127\.0\.0\.1:\d+/ until the run ends", first)
    assert not any("live page" in line for line in lines)
    assert not command(monkeypatch, "run", "--resume", "r", "--set", "rounds=2", "--live")
    assert capsys.readouterr().out.startswith("live page at ")
    rows = [json.loads(line) for line in (tmp_path / "r-2rounds" / "metrics.jsonl").read_text().splitlines()]
    assert {row["round"] for row in rows} == {0, 1}
