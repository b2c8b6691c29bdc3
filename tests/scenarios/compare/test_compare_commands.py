"""`sheafedge compare` and `sheafedge tune` on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.terminal import cli

#: Whoever starts these tests in the background has the keyboard's signal ignored, and children inherit that.
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from sheafedge.scenarios.entry import main; main()"
)


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code: int | None = ended.value.code  # type: ignore[assignment]
    return code


@pytest.fixture(scope="module")
def tiny_arguments(tiny_edits: dict[str, Any]) -> list[str]:
    edits = {**tiny_edits, "compute.executor": "serial"}
    return ["beam_tracking", *(part for k, v in edits.items() for part in ("--set", f"{k}={json.dumps(v)}"))]


@pytest.mark.usefixtures("without_pictures")
def test_a_comparison_prints_a_line_per_run_and_whole_tables(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    methods = [
        "--algorithms",
        "local",
        "--arm",
        "without maps: sheaf.coupling=0",
        "--reference",
        "local",
        "--seeds",
        "1",
    ]
    assert not command(monkeypatch, "compare", *tiny_arguments, *methods)
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "2 runs, 0 of them already stored"
    ended = [line for line in lines if ", seed 0: top-1 gps ." in line]
    assert [line.split(",")[0] for line in ended] == ["local", "without maps"]
    results = json.loads((tmp_path / "runs" / "compare-beam_tracking" / "results.json").read_text())
    mean = results["entries"][0]["groups"]["all clients"]["scores"]["top1"]["mean"]
    assert any("local" in line and f"{mean:.3f}"[1:] in line for line in lines)
    assert all(len(line) <= 80 for line in lines if line.startswith(" "))  # of tables; others are folded by terminals
    assert lines[-1] == "folder   runs/compare-beam_tracking"


@pytest.mark.usefixtures("without_pictures")
def test_a_search_prints_its_grid_and_where_the_settings_are(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not command(monkeypatch, "tune", *tiny_arguments, "--algorithms", "local", "--out", "t")
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  0.")] == ["0.001", "0.003", "0.01"]
    assert lines[-1] == "tuned    t/tuned.toml"
    # without --algorithms: the methods of the file, not all that there are
    tuned = ["--tuned", "t/tuned.toml", "--seeds", "1", "--out", "c"]
    assert not command(monkeypatch, "compare", *tiny_arguments, *tuned)
    assert list(json.loads(Path("c/results.json").read_text())["comparison"]["arms"]) == ["local"]


BAD_COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "unknown algorithm": (["compare", "--algorithms", "sheaf,local"], "unknown algorithm 'sheaf'"),
    "unknown key": (["compare", "--set", "link.los=1"], "link.los is not a known field"),
    "unknown method": (["compare", "--reference", "x"], "reference must be one of the methods"),
    "no method": (["compare", "--method", "x"], "--method takes 'NAME: key=value"),
    "no seed": (["compare", "--seeds", "0"], "--seeds must be at least 1, got 0"),
    "no job": (["compare", "--jobs", "0"], "--jobs must be at least 1, got 0"),
    "seed edited": (["compare", "--set", "seed=3"], "seed cannot be edited"),
    "out is a file": (["compare", "--out", "a file"], "a file cannot be written"),
    "tuned file missing": (["compare", "--tuned", "no.toml"], "no.toml"),
    "grid twice": (["tune", "--grid", "rounds=1", "--grid", "rounds=2"], "--grid rounds is given twice"),
    "grid of nothing": (["tune", "--grid", "rounds="], "--grid takes key=value,value,..."),
    "grid of commas": (["tune", "--grid", "rounds=,"], "--grid takes key=value,value,..., got 'rounds=,'"),
    "grid of samples": (
        ["tune", "--algorithms", "local", "--grid", "data.scored=validation,held_out"],
        "data.scored must be 'validation' in a search, got 'held_out' for the method 'local [data.scored = held_out]'",
    ),
    "method of samples": (
        ["tune", "--method", "a: data.scored=held_out"],
        "data.scored must be 'validation' in a search, got 'held_out' for the method 'a [",
    ),
    "method twice": (["compare", "--method", "a: rounds=1", "--method", "a: rounds=2"], "name 'a' twice"),
    "grid unknown": (["tune", "--grid", "link.los=1"], "link.los is not a known field"),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_a_mistake_is_one_sentence_with_exit_code_2_and_nothing_is_run(
    case: str,
    tiny_arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("mine")
    (name, *options), words = BAD_COMMANDS[case]
    assert command(monkeypatch, name, *tiny_arguments, *options) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert list(tmp_path.rglob("summary.json")) == []


def test_if_no_run_is_possible_the_exit_code_says_so(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    impossible = ["--algorithms", "local", "--set", "clients.n_clients=100", "--seeds=1", "--out", str(tmp_path / "c")]
    assert command(monkeypatch, "compare", *tiny_arguments, *impossible) == 2
    assert "all runs failed; recording 0 has" in capfd.readouterr().err
    assert "sequences" in (tmp_path / "c" / "table.md").read_text()


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_the_same_command_continues(tiny_arguments: list[str], tmp_path: Path) -> None:
    asked = ["compare", *tiny_arguments, "--algorithms", "local,dsgd", "--jobs", "2", "--out", "c"]
    slow = ["--set", "rounds=10", "--set", "training.local_steps=10", "--seeds", "10"]
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *asked, *slow],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    try:
        next(line for line in running.stdout if ", seed 0: top-1" in line)
        running.send_signal(signal.SIGINT)
        _, complaints = running.communicate(timeout=60)  # ends only when all processes that hold the pipes have ended
    finally:
        running.kill()
    assert running.returncode == 130
    assert len(complaints.splitlines()) == 1, complaints
    line = complaints.strip()
    n_done = len(list((tmp_path / "c" / "runs").glob("*/summary.json")))
    assert line.endswith("of 20 runs are done, and the same command continues")
    assert 1 <= int(line.split()[1]) <= n_done
    assert not list((tmp_path / "c" / "runs").glob("*.partial*"))
