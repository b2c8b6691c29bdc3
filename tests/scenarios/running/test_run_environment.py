"""What a run says about the software and the machine that it was made with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from sheafedge.emulator.source_hash import PACKAGE
from sheafedge.scenarios.running.run_environment import (
    _SOURCES,
    processor_name,
    run_environment,
    source_commit,
)
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.executors import Executor


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_of_a_repository_is_named_with_what_was_changed_since(tmp_path: Path) -> None:
    assert source_commit(tmp_path) == ""
    git(tmp_path, "init", "-q")
    assert source_commit(tmp_path) == ""  # nothing committed
    (tmp_path / "a.py").write_text("1", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "tag", "v1")
    commit = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert source_commit(tmp_path) == commit
    (tmp_path / "a.py").write_text("2", encoding="utf-8")
    assert source_commit(tmp_path) == f"{commit}-dirty"
    (tmp_path / "below").mkdir()
    assert source_commit(tmp_path / "below") == ""


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit(tmp_path) == ""


def test_the_processor_is_named_or_at_least_its_architecture(tmp_path: Path, tiny: Scenario) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n", encoding="utf-8")
    assert processor_name(told) == "Some CPU @ 2 GHz"
    told.write_text("Features: fp\n", encoding="utf-8")
    environment = run_environment(tiny, Executor("serial", 1))
    assert processor_name(told) == environment["machine"]
    assert processor_name(tmp_path / "none")
    assert environment["processor"] == processor_name()


#: Folders of `scenarios` that start, compare, show, serve or replay runs, and change no figure of one.
WITHOUT_FIGURES = frozenset(
    {
        "animation", "calibration", "catalog", "compare", "export", "library", "live_page", "plugins", "replay",
        "report", "scenario_files", "terminal", "theory", "tracking",
    }
)  # fmt: skip


def test_every_folder_of_code_is_in_the_hash_or_known_to_change_no_figure() -> None:
    """A new folder has to be put in one of both lists, so that rows of old code do not pass for rows of the present."""
    hashed = {Path(pattern).parts[1] for pattern in _SOURCES if pattern.startswith("scenarios/")}
    folders = {init.parent.name for init in (PACKAGE / "scenarios").glob("*/__init__.py")}
    assert hashed.isdisjoint(WITHOUT_FIGURES)
    assert folders == hashed | WITHOUT_FIGURES


def test_of_models_and_the_emulator_what_exports_and_serves_alone_is_not_in_the_hash() -> None:
    """Patterns leave these folders out by their first letter, which a new folder may have."""
    hashed = {path for pattern in _SOURCES for path in PACKAGE.glob(pattern)}
    every = {path for folder in ("models", "emulator") for path in (PACKAGE / folder).rglob("*.py")}
    left_out = {path.parent.relative_to(PACKAGE).as_posix() for path in every - hashed}
    assert left_out == {"models/export", "emulator/edge/commands", "emulator/edge/serving"}
