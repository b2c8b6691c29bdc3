"""Files of strangers that list plugins: whatever opens them, the code beside them does not run.

A try is lost where it did, or where the answer is no sentence.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from attacks.conftest import Tally
from doubles.plugin_files import SCENARIO
from sheafedge.emulator.plugin_sources import LOADED
from sheafedge.scenarios.terminal import cli

COMPARISON = 'scenario = "own.toml"\nplugins = ["all_doors.py"]\n[methods.own]\nalgorithm = "half_steps"\n'
#: What a stranger may write where the plugin is named.
ENTRIES = ("all_doors.py", "./all_doors.py", "{folder}/all_doors.py", "all_doors.py#sha256=", "sub/../all_doors.py")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A scenario, a comparison and two run folders, with a plugin everywhere that leaves a trace when it runs."""
    for folder in (tmp_path, tmp_path / "run", tmp_path / "half.partial", tmp_path / "run" / "plugins"):
        folder.mkdir(exist_ok=True)
        (folder / "all_doors.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for name in ("sitecustomize.py", "plugins.py", "sheafedge.py"):  # names that Python or we might look for
        shutil.copy(tmp_path / "all_doors.py", tmp_path / name)
    (tmp_path / "views.toml").write_text(COMPARISON)
    for name in ("summary.json", "metrics.jsonl"):
        (tmp_path / "run" / name).write_text("{}")
    return tmp_path


def test_lists_of_strangers_run_nothing(
    package: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(package)
    commands = (
        ["run", "own.toml"],
        ["run", "run/scenario.toml"],
        ["run", "--resume", "half.partial"],
        ["compare", "own.toml"],
        ["compare", "views.toml"],
        ["tune", "own.toml"],
        ["export", "run"],
        ["replay", "run", "--to", "tcp://127.0.0.1:9"],
        ["record", "own.toml", "--out", "x.h5"],
    )
    for entry in ENTRIES:
        listed = SCENARIO.replace("all_doors.py", entry.format(folder=package))
        for place in (".", "run", "half.partial"):
            (package / place / ("own.toml" if place == "." else "scenario.toml")).write_text(listed)
        for command in commands:
            tally.tries += 1
            monkeypatch.setattr(sys, "argv", ["sheafedge", *command])
            with pytest.raises(SystemExit) as ended:
                cli.main()
            said = capsys.readouterr().err
            if ended.value.code != 2 or said.count("\n") != 1 or not said.startswith("error: "):
                tally.lose(f"{command} with {entry!r} ended with {ended.value.code}: {said}")
            if (package / "ran").exists() or LOADED:
                (package / "ran").unlink(missing_ok=True)
                tally.lose(f"{command} ran the plugin {entry!r}")
