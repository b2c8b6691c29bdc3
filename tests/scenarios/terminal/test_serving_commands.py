"""`serve` and `verify` among all commands: the same options, read at the same place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from sheafedge.emulator.edge.commands import device_commands as commands
from sheafedge.scenarios import entry


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    code: int | None = caught.value.code  # type: ignore[assignment]
    return code


def test_options_arrive_where_a_device_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(commands, "run_command", lambda arguments, _version: seen.append(arguments))
    for name in commands.COMMANDS:
        if name in {"serve", "verify"}:
            assert not ended(monkeypatch, name, "folder", "--bind", "tcp://127.0.0.1:1", "--cuda", "-x")
            assert seen[-1] == [name, "folder", "--bind", "tcp://127.0.0.1:1", "--cuda", "-x"]
    assert len(seen) == 2


def test_help_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert not ended(monkeypatch, "serve", "--help")
    assert "--waiting-in-all" in capsys.readouterr().out
    assert not ended(monkeypatch, "--help")
    told = capsys.readouterr().out
    assert "serve" in told
    assert "verify" in told


def test_who_interrupts_twice_is_not_shown_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_command", interrupted)
    assert ended(monkeypatch, "serve", "folder") == 130


def test_a_bundle_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not ended(monkeypatch, "verify", str(tiny_bundle(tmp_path / "b")))
    assert "is valid" in capsys.readouterr().out


def test_mistakes_are_one_sentence_here_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "serve", "nowhere", "--batch", "x") == 2
    told = capsys.readouterr().err
    assert told == "error: argument --batch: invalid int value: 'x'; see sheafedge serve --help\n"
