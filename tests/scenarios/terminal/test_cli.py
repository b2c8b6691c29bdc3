"""The command line as its user meets it: plain answers, one sentence for every mistake, nothing left lying about."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sheafedge.scenarios import entry
from sheafedge.scenarios.running.run import RunResult
from sheafedge.scenarios.schema.scenario import load_scenario, shipped_scenarios
from sheafedge.scenarios.tasks.beam_tasks import BeamTracking
from sheafedge.scenarios.tasks.task_spec import Column
from sheafedge.scenarios.tasks.task_table import TASKS
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.terminal.run_console import print_result

ENTRY_POINT = "from sheafedge.scenarios.entry import main; main()"
#: Whoever starts these tests in the background has the keyboard's signal ignored, and children inherit that.
INTERRUPTIBLE = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {ENTRY_POINT}"
#: Asks, after the command has ended, what it imported.
PROBE = """
import sys
from sheafedge.scenarios.entry import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("imported:", [name for name in ("torch", "onnx", "onnxruntime", "zmq", "simpy") if name in sys.modules])
"""
RUN_FOLDER = {"scenario.toml", "metrics.jsonl", "diagnostics.json", "summary.json", "models", "weights", "pictures"}
RECORDING = "recording the world (once; later runs reuse the recording)"
MEASURED = ("--set", "data.source=deepsense", "--set")
ONE_GROUP = "clients.groups=[{name='both', modalities=['gps', 'rf'], share=1.0}]"


def as_arguments(edits: dict[str, Any]) -> list[str]:
    """--set key=value for every edit; nested tables become dotted keys."""
    flat = {
        f"{key}.{inner}" if inner else key: nested
        for key, value in edits.items()
        for inner, nested in (value.items() if isinstance(value, dict) else [("", value)])
    }
    return [part for key, value in flat.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def sheafedge(*arguments: str, folder: Path, code: str = ENTRY_POINT) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with other hashes of strings: no order of a set decides about anything."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    """Exit code of the command in this process; the heavy imports are paid for once."""
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code: int | None = ended.value.code  # type: ignore[assignment]
    return code


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def tiny_arguments(tiny_edits: dict[str, Any]) -> list[str]:
    return ["run", "beam_tracking", *as_arguments(tiny_edits)]


@pytest.fixture(scope="module")
def finished(
    tiny_arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A run from start to exports, over ZeroMQ, and the folder that it was started in."""
    folder = tmp_path_factory.mktemp("cli")
    changes = [ONE_GROUP, "export.onnx=true", "export.pictures=1", "export.report=true", "network.transport=zmq"]
    edits = [part for change in changes for part in ("--set", change)]
    return sheafedge(*tiny_arguments, *edits, "--device", "cpu", "--out", "out/my run", folder=folder), folder


@pytest.fixture(scope="module")
def summary(finished: tuple[subprocess.CompletedProcess[str], Path]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((finished[1] / "out" / "my run" / "summary.json").read_text())
    return loaded


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["scenarios"]])
def test_a_quick_question_is_answered_without_heavy_imports(arguments: list[str], tmp_path: Path) -> None:
    answered = sheafedge(*arguments, folder=tmp_path, code=PROBE)
    assert answered.returncode == 0, answered.stderr
    *answer, imported = answered.stdout.splitlines()
    assert answer
    assert imported == "imported: []"
    assert answered.stderr == ""


def test_a_mistake_is_found_without_importing_torch(tmp_path: Path) -> None:
    """Whatever the schema alone can tell."""
    code = PROBE.replace("assert not ended.code, ended.code", "assert ended.code == 2")
    answered = sheafedge("run", "beam_tracking", "--set", "rounds=0", folder=tmp_path, code=code)
    assert answered.stdout == "imported: []\n"
    assert answered.stderr == "error: rounds must be at least 1, got 0\n"
    assert contents(tmp_path) == set()


def test_help_names_the_commands_and_their_options(tmp_path: Path) -> None:
    first = sheafedge("--help", folder=tmp_path).stdout
    assert all(word in first for word in ("run", "scenarios", "--version"))
    second = sheafedge("run", "--help", folder=tmp_path).stdout
    assert all(word in second for word in ("--set", "--out", "--device", "KEY=VALUE"))


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    import sheafedge

    assert sheafedge_version(tmp_path, ENTRY_POINT) == f"sheafedge {sheafedge.__version__}\n"


def test_a_command_ends_without_freeing_what_the_end_of_its_process_frees(tmp_path: Path) -> None:
    """A last collection through all of torch takes longer than many a command; it skips what is frozen."""
    left = "import atexit, gc; atexit.register(lambda: print(len(gc.get_objects()) < gc.get_freeze_count()));"
    assert sheafedge_version(tmp_path, left + ENTRY_POINT).splitlines()[1:] == ["True"]


def sheafedge_version(folder: Path, code: str) -> str:
    return sheafedge("--version", folder=folder, code=code).stdout


def test_scenarios_are_listed_with_what_they_are(tmp_path: Path) -> None:
    lines = sheafedge("scenarios", folder=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(shipped_scenarios())
    assert all(load_scenario(line.split()[0]).summary == line.split(maxsplit=1)[1] for line in lines)


def test_a_run_ends_well_and_leaves_exactly_what_was_promised(
    finished: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ended, folder = finished
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(folder) == {"out"}
    assert contents(folder / "out") == {"my run"}
    assert contents(folder / "out" / "my run") == RUN_FOLDER | {"report.html"}
    assert contents(folder / "out" / "my run" / "models") == {f"client-{index:02d}.onnx" for index in range(4)}
    assert contents(folder / "out" / "my run" / "pictures") == {"bs00.png"}


def test_a_run_prints_the_scores_beside_both_baselines(
    finished: tuple[subprocess.CompletedProcess[str], Path], summary: dict[str, Any]
) -> None:
    printed = finished[0].stdout
    for word in ("group", "clients", "top-1", "top-3", "power loss", "sheaf_dmfl_att", "persistence", "majority"):
        assert word in printed
    for scores in (summary["groups"]["both"], *summary["baselines"]["both"].values()):
        assert f"{scores['top1']:.3f}" in printed
        assert f"{scores['power_loss_db']:.2f} dB" in printed


def test_without_a_terminal_output_is_plain_lines_and_every_fact_is_whole(
    finished: tuple[subprocess.CompletedProcess[str], Path], summary: dict[str, Any]
) -> None:
    printed = finished[0].stdout
    assert "\x1b" not in printed
    assert "\r" not in printed
    lines = [line for line in printed.splitlines() if line != RECORDING]  # another test may have recorded it
    assert lines[0].startswith("beam_tracking  sheaf_dmfl_att, seed 0: 4 base stations (4 both), ")
    assert [line.split("  ")[0] for line in lines[1:3]] == ["round 1/2", "round 2/2"]
    facts = dict(line.split(maxsplit=1) for line in lines[-8:])
    assert list(facts) == ["traffic", "losses", "time", "models", "pictures", "folder", "trace", "report"]
    assert facts["pictures"] == "out/my run/pictures/bs00.png"
    assert facts["folder"] == "out/my run"
    assert facts["report"] == "out/my run/report.html"
    assert facts["trace"] == summary["trace_hash"]
    assert facts["models"].startswith("4 ONNX files, ")
    assert "out/my run/models" in facts["models"]
    assert f"{summary['traffic']['messages']:,} messages" in facts["traffic"]


def test_the_summary_holds_what_the_design_promises(summary: dict[str, Any]) -> None:
    wanted = {"scenario", "task", "algorithm", "seed", "rounds", "virtual_time_s", "wall_time_s", "trace_hash"}
    assert set(summary) >= wanted | {"groups", "baselines", "traffic", "exports", "pictures"}
    assert set(summary["groups"]["both"]) >= {"clients", "top1", "top3", "power_loss_db"}
    assert set(summary["baselines"]["both"]) == {"persistence", "majority"}
    counters = {"messages", "bytes", "lost_messages", "lost_packets", "retransmissions", "by_kind"}
    assert set(summary["traffic"]) >= counters
    assert set(summary["traffic"]["by_kind"]) == {"encoder", "projection", "reprojection"}
    for row in summary["exports"]:
        assert set(row) == {"client", "path", "bytes", "max_abs_error", "provider"}
        assert not Path(row["path"]).is_absolute()
        assert row["max_abs_error"] <= 1e-4
    assert summary["virtual_time_s"] > 0.0
    assert summary["traffic"]["bytes"] == sum(kind["bytes"] for kind in summary["traffic"]["by_kind"].values())


def test_the_metrics_hold_one_line_per_round_and_client(
    finished: tuple[subprocess.CompletedProcess[str], Path], summary: dict[str, Any]
) -> None:
    text = (finished[1] / "out" / "my run" / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert sorted((row["round"], row["client"]) for row in rows) == [(r, c) for r in range(2) for c in range(4)]
    for row in rows:
        assert set(row) >= {"time_s", "bytes_sent", "energy_j", "loss", "models"}
        assert set(row["models"]["fused"]) == {"top1", "top3", "power_loss_db"}
    last = [row["models"]["fused"]["top1"] for row in rows if row["round"] == 1]
    assert np.mean(last) == pytest.approx(summary["groups"]["both"]["top1"])
    assert sum(row["bytes_sent"] for row in rows if row["round"] == 1) == summary["traffic"]["bytes"]


def test_the_written_scenario_repeats_the_run(
    finished: tuple[subprocess.CompletedProcess[str], Path],
    summary: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = finished[1] / "out" / "my run" / "scenario.toml"
    assert tomllib.loads(written.read_text())["compute"]["device"] == "cpu"
    briefly = ["--set", "export.onnx=false", "--set", "export.pictures=0", "--set", "export.report=false"]
    assert not command(monkeypatch, "run", str(written), "--out", str(tmp_path / "again"), *briefly)
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["trace_hash"] == summary["trace_hash"]


def test_a_world_is_recorded_once_and_the_next_run_finds_it(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHEAFEDGE_CACHE", str(tmp_path / "cache"))
    hashes = []
    for index in range(2):
        run = tmp_path / str(index)
        assert not command(monkeypatch, *tiny_arguments, "--set", "seed=5", "--out", str(run))
        assert (RECORDING in capfd.readouterr().out) == (index == 0)
        hashes.append(json.loads((run / "summary.json").read_text())["trace_hash"])
    assert hashes[0] == hashes[1]
    assert len(contents(tmp_path / "cache")) == 1


def test_on_a_terminal_names_are_shown_as_they_are_written(summary: dict[str, Any]) -> None:
    """Square brackets are rich's markup; folders and groups may hold them."""
    named = {**summary, "groups": {"[b]x[/i]": summary["groups"]["both"]}}
    named["baselines"] = {"[b]x[/i]": summary["baselines"]["both"]}
    screen = StringIO()
    print_result(Console(file=screen, force_terminal=True, width=120), RunResult(Path("runs/[red]a[/b]"), named))
    assert "[b]x[/i]" in screen.getvalue()
    assert "runs/[red]a[/b]" in screen.getvalue()


def test_titles_of_a_plugin_are_shown_with_their_units(
    summary: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Distances(BeamTracking):
        title = "How far [m]?"
        columns = (Column("top1", "error [m]"), Column("rms", "rms [m]", absent="there are no [m]"))

    monkeypatch.setitem(TASKS, summary["task"], Distances())
    screen = StringIO()
    print_result(Console(file=screen, width=120), RunResult(Path("runs/a"), summary))
    assert all(text in screen.getvalue() for text in ("How far [m]?", "error [m]", "there are no [m]"))


BAD_COMMANDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "unknown scenario": (["run", "beam_traking"], ["unknown scenario 'beam_traking'", "beam_tracking"]),
    "a folder as scenario": (["run", "."], ["unknown scenario '.'"]),
    "unknown key": (["--set", "link.los=1"], ["link.los is not a known field"]),
    "no assignment": (["--set", "rounds"], ["--set takes key=value, got 'rounds'"]),
    "unknown algorithm": (["--set", "algorithm=sheaf"], ["unknown algorithm 'sheaf'", "known: apfl"]),
    "unknown device profile": (["--set", "compute.profile=toaster"], ["compute.profile 'toaster'", "edge_cpu"]),
    "unknown device": (["--device", "tpu"], ["compute.device must be 'auto', 'cpu' or 'cuda', got 'tpu'"]),
    "beam count": (["--set", "data.n_beams=63"], ["data.n_beams must be 64, 32, 16 or 8, got 63"]),
    "modality": (["--set", ONE_GROUP.replace("gps", "lidar")], ["which task 'beam_tracking' cannot use"]),
    "no data folder": (["--set", "data.source=deepsense"], ["data.root is empty"]),
    "data folder missing": (
        [*MEASURED, "data.root=/no/such"],
        ["data.root", "/no/such"],
    ),
    "data folder a file": ([*MEASURED, "data.root=a file"], ["data.root", "a file"]),
    "data folder empty": (
        [*MEASURED, "data.root=a folder"],
        ["scenario1_seq_index", "check data.root and data.scenarios"],
    ),
    "sequences too short": (["--set", "data.window=5000"], ["drive-bys, the longest of", "shorten data.window"]),
    "too many clients": (["--set", "clients.n_clients=100"], ["sequences (drive-bys", "n_clients = 100,", "at most"]),
    "a task that is not there": (["--set", "task=parking"], ["unknown task 'parking'", "known: blockage"]),
    "a recording that is not there": (
        ["--set", "data.source=recording", "--set", "data.recordings=['no.h5']"],
        ["data.recordings names no.h5", "make one with the record or import command"],
    ),
    "a recording that is none": (
        ["--set", "data.source=recording", "--set", "data.recordings=['a file']"],
        ["a file", "recording"],
    ),
    "disconnected modality": (
        ["--set", "topology.kind=erdos_renyi", "--set", "topology.edge_probability=0"],
        ["modality", "raise topology.edge_probability"],
    ),
    "impossible degree": (["--set", "topology.kind=regular", "--set", "topology.degree=99"], ["topology.degree", "99"]),
    "edge list missing": (
        ["--set", "topology.kind=edge_list", "--set", "topology.edge_list=no file"],
        ["topology.edge_list 'no file'"],
    ),
    "unstable coupling": (["--set", "sheaf.coupling=1000"], ["sheaf.coupling 1000", "heads diverge", "lower"]),
    "address in vain": (
        ["--set", "network.transport=zmq", "--set", "network.address=nowhere"],
        ["network.address", "'nowhere'"],
    ),
    "output exists": (["--out", "a folder"], ["output folder a folder exists already", "--out"]),
    "output below a file": (["--out", "a file/run"], ["a file is a file", "--out"]),
    "output name too long": (["--out", "x" * 300], ["cannot be written", "--out"]),
    "unknown option": (["--sett", "rounds=3"], ["--sett", "sheafedge --help"]),
    "unknown command": (["train"], ["'train'", "sheafedge --help"]),
    "no scenario": (["run"], ["scenario", "sheafedge --help"]),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_a_mistake_is_one_sentence_with_exit_code_2_and_leaves_nothing(
    case: str,
    tiny_arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    arguments, fragments = BAD_COMMANDS[case]
    if arguments[0].startswith("--"):
        arguments = [*tiny_arguments, *arguments]
    assert command(monkeypatch, *arguments) == 2
    seen = capfd.readouterr()
    (line,) = seen.err.splitlines()
    assert line.startswith("error: ")
    assert [fragment for fragment in fragments if fragment not in line] == [], line
    assert "Traceback" not in seen.out
    assert contents(tmp_path) == {"a folder", "a file"}
    assert contents(tmp_path / "a folder") == set()


def test_a_mistake_looks_the_same_from_outside(tiny_arguments: list[str], tmp_path: Path) -> None:
    ended = sheafedge(*tiny_arguments, "--set", "data.n_beams=63", "--out", "run", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: data.n_beams must be 64, 32, 16 or 8, got 63\n"
    assert contents(tmp_path) == set()


def test_training_that_diverges_is_a_sentence_that_says_where_the_run_lies(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    edits = ["--set", "training.encoder_step_size=1e30", "--out", "run"]
    assert command(monkeypatch, *tiny_arguments, *edits) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: client ")
    assert "lower training.head_step_size" in line
    assert line.endswith("results so far are in run.failed")
    assert contents(tmp_path) == {"run.failed"}


def test_without_arguments_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch) == 2
    seen = capfd.readouterr()
    assert "Usage: sheafedge" in seen.out + seen.err
    assert "error" not in seen.err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_a_folder_that_says_so_and_nothing_else(tiny_arguments: list[str], tmp_path: Path) -> None:
    slow = ["--set", "rounds=60", "--set", "training.local_steps=20", "--out", "run"]  # a line every ten rounds
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *tiny_arguments, *slow],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    try:
        rounds = next(line for line in running.stdout if line.startswith("round "))
        running.send_signal(signal.SIGINT)
        _, complaints = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert complaints == (
        "interrupted; results so far are in run.interrupted; continue with: sheafedge run --resume run.interrupted\n"
    )
    assert contents(tmp_path) == {"run.interrupted"}
    left = {"scenario.toml", "metrics.jsonl", "INTERRUPTED.txt", "checkpoint"}
    assert contents(tmp_path / "run.interrupted") == left
    rows = (tmp_path / "run.interrupted" / "metrics.jsonl").read_text().splitlines()
    finished = int(rounds.removeprefix("round ").split("/")[0])
    assert 4 * finished <= len(rows) < 4 * 60
    assert len(rows) % 4 == 0  # the round was finished
    assert {len(json.loads(row)["models"]) for row in rows} == {1}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], "run needs a scenario"),
        (["run", "blockage", "--resume", "somewhere"], "--resume reads the scenario from the folder"),
        (["run", "--resume", "nowhere"], "nowhere is not the folder of a run that was interrupted"),
    ],
)
def test_what_cannot_be_resumed_is_one_sentence(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, *arguments) == 2
    said = capfd.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_missing_weights_are_found_before_a_world_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SHEAFEDGE_CACHE", str(tmp_path / "cache"))
    weights = ("--set", "model.camera_encoder=resnet50", "--set", f"model.weights={tmp_path / 'none.pth'}")
    assert command(monkeypatch, "run", "drone_beam", *weights, "--out", str(tmp_path / "run")) == 2
    complaint = capfd.readouterr().err
    assert "model.weights" in complaint
    assert complaint.count("\n") == 1
    assert contents(tmp_path) == set()


class NoSocketsError(Exception):
    """As ZeroMQ has it: no OSError, but its number."""

    errno = errno.EMFILE


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files", "a/b"), "error: [Errno 24] Too many open files: 'a/b'; raise"),
        (OSError(errno.ENOSPC, "No space left on device"), "make room on the disk"),
        (
            NoSocketsError("Too many open files"),
            "error: Too many open files; raise the limit on open files (ulimit -n)",
        ),
    ],
    ids=["descriptors", "room", "sockets"],
)
def test_what_a_machine_runs_out_of_is_a_sentence_wherever_it_is_noticed(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("sheafedge.scenarios.schema.scenario.shipped_scenarios", fail)
    assert command(monkeypatch, "scenarios") == 2
    assert words in capsys.readouterr().err


def test_a_mistake_of_ours_is_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EINVAL, "ours")

    monkeypatch.setattr("sheafedge.scenarios.schema.scenario.shipped_scenarios", fail)
    with pytest.raises(OSError, match="ours"):
        command(monkeypatch, "scenarios")


SWALLOWS = """
import sys, time
from sheafedge.scenarios.entry import deliver_again

class Swallows:
    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error

sys.unraisablehook = deliver_again
Swallows(ValueError("ours"))
try:
    Swallows(KeyboardInterrupt())
    time.sleep(30)
except KeyboardInterrupt:
    print("again")
"""


def test_an_interrupt_that_a_finalizer_swallows_comes_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWS], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "again\n"
    assert "ValueError: ours" in done.stderr
    assert "KeyboardInterrupt" not in done.stderr


def test_an_interrupt_before_there_is_a_command_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # set back afterwards
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            entry.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
