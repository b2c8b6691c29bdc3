"""Runs through all four doors of one plugin: alone, with workers, interrupted, compared, exported, and with Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from doubles.plugin_files import ALL_DOORS, write_own
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.plugin_sources import LOADED
from sheafedge.scenarios.compare import comparing, comparison_report
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import validated_comparison
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.report.run_report import write_run_report
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.workers.worker_options import Workers
from sheafedge.scenarios.workers.worker_run import build_learners

#: A program that starts processes, on a busy machine.
PATIENCE_S = 240.0


class StoppedInTheSecondRound(NoRunProgress):
    """Presses Ctrl-C there, so that there is a checkpoint of the first one."""

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if round_index == 1:
            raise KeyboardInterrupt


def forget() -> None:
    """A process that has just started: no plugin is loaded."""
    for name in list(LOADED):
        unload(name)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a plugin, its scenario, a run that is complete, and one that was interrupted."""
    folder = tmp_path_factory.mktemp("own")
    plugin, path = write_own(folder)
    load_plugin(plugin)
    scenario = load_scenario(str(path))
    run_scenario(scenario, folder / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_scenario(scenario, folder / "half", StoppedInTheSecondRound())
    forget()
    return folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """A command line -> its exit code, and what it prints as an error."""

    def called(*arguments: object) -> tuple[int, str]:
        forget()
        monkeypatch.setattr(sys, "argv", ["sheafedge", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return called


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def test_a_run_goes_through_every_door_and_keeps_the_plugin(own: Path) -> None:
    found = summary(own / "whole")
    assert (found["task"], found["algorithm"]) == ("absolute_errors", "half_steps")
    assert found["groups"]["all"]["mae"] > 0.0
    assert found["virtual_time_s"] > 2 * 0.25  # the delay of its link model, twice
    (digest,) = found["environment"]["plugins"].values()
    assert len(digest) == 16
    assert (own / "whole" / "plugins" / "all_doors.py").read_text() == ALL_DOORS
    assert f"plugins/all_doors.py#sha256={digest}" in (own / "whole" / "scenario.toml").read_text()


def test_figures_of_theory_do_without_a_bound_where_the_loss_is_a_plugin_s(tmp_path: Path) -> None:
    plugin, path = write_own(tmp_path)
    load_plugin(plugin)
    edits = {"algorithm": "sheaf_dmfl", "export.theory": True}
    found = run_scenario(load_scenario(str(path)).edited(edits), tmp_path / "run").summary["theory"]
    assert [row["smoothness"] for row in found["rows"]] == [None] * 3
    assert found["bound"]["reason"] == "the smoothness of objective 'absolute' is not known"
    assert found["bound"]["mean_square"] > 0.0
    page = write_run_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "No bound: the smoothness of objective" in page


@pytest.mark.parametrize(
    ("instead", "sentence"),
    [
        ("return x", "data set 'lines': its reader returned ndarray, not FederatedRows"),
        ('return FederatedRows("lines", x, x[:9, 0])', "data set 'lines': y has 9 rows, but x has 60"),
        ('open("gone.csv")', r"data set 'lines' cannot be read \(No such file or directory\); check data\.root"),
    ],
)
def test_a_reader_that_returns_no_rows_is_refused(instead: str, sentence: str, tmp_path: Path) -> None:
    plugin, path = write_own(tmp_path)
    plugin.write_text(ALL_DOORS.replace('return FederatedRows("lines"', f'{instead}\n    return FederatedRows("lines"'))
    load_plugin(plugin)
    with pytest.raises(DataError, match=sentence):
        load_data(load_scenario(str(path)))


@pytest.mark.slow
def test_workers_have_it_too(own: Path, tmp_path: Path) -> None:
    load_plugin(own / "all_doors.py")
    scenario = load_scenario(str(own / "own.toml"))
    result = run_scenario(scenario, tmp_path / "run", workers=Workers(1))
    assert result.summary["trace_hash"] == summary(own / "whole")["trace_hash"]


def test_a_worker_on_another_host_needs_a_plugin_of_its_own(own: Path) -> None:
    """What the engine sends names it, with its source's hash; the code does not come along."""
    load_plugin(own / "all_doors.py")
    text = tomli_w.dumps(load_scenario(str(own / "own.toml")).pinned_tables())
    assert "HalfSteps" not in text
    forget()
    with pytest.raises(ConfigError, match=r"the plugin all_doors\.py, .*; start the worker with --plugin all_doors"):
        build_learners(text, [0])
    (own / "other").mkdir()
    (own / "other" / "all_doors.py").write_text(ALL_DOORS.replace("SHARE = 0.5", "SHARE = 0.75"))
    load_plugin(own / "other" / "all_doors.py")
    with pytest.raises(ConfigError, match="is not the one that the scenario was run with"):
        build_learners(text, [0])


def test_an_interrupted_run_goes_on_with_its_copy_and_with_no_other(
    own: Path, tmp_path: Path, command: Callable[..., tuple[int, str]]
) -> None:
    half, edited = own / "half.interrupted", tmp_path / "all_doors.py"
    copy = half / "plugins" / "all_doors.py"
    code, said = command("run", "--resume", half)
    assert code == 2
    assert f"the scenario needs the plugin {copy}, whose code would run here; read it" in said
    edited.write_text(ALL_DOORS.replace("SHARE = 0.5", "SHARE = 0.75"))
    code, said = command("run", "--resume", half, "--plugin", edited)
    assert code == 2
    assert f"plugin all_doors.py of {edited} is not the one that the scenario was run with" in said
    assert half.is_dir()
    assert command("run", "--resume", half, "--trust-plugins") == (0, "")
    assert summary(own / "half")["trace_hash"] == summary(own / "whole")["trace_hash"]


def test_commands_refuse_in_one_line(own: Path, tmp_path: Path, command: Callable[..., tuple[int, str]]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("PLUGIN = 1 / 0\n")
    for arguments in (
        ["run", "digits"],
        ["compare", "digits"],
        ["tune", "digits"],
        ["worker", "--hub", "tcp://[::1]:1"],
    ):
        assert command(*arguments, "--plugin", broken) == (
            2,
            f"error: plugin {broken}, line 1: ZeroDivisionError: division by zero\n",
        )
    code, said = command("replay", own / "whole", "--to", "tcp://[::1]:1")
    assert (code, said.count("\n")) == (2, 1)
    assert "the scenario needs the plugin" in said
    code, said = command("replay", own / "whole", "--to", "tcp://[::1]:1", "--trust-plugins")
    assert "which hold no frames" in said


def test_a_comparison_repeats_the_runs_whose_plugin_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")  # the data set of the method without a plugin
    monkeypatch.setattr(comparing, "write_figures", lambda results, folder: None)  # ten times as long as these runs
    plugin, _ = write_own(tmp_path)
    load_plugin(plugin)
    tables = {
        "name": "own",
        "scenario": str(tmp_path / "own.toml"),
        "seeds": [0],
        "set": {"rounds": 1, "task": "classification", "links.model": "constant", "data.dataset": "digits"},
        "methods": {"own": {"algorithm": "half_steps"}, "theirs": {"algorithm": "local"}},
    }
    comparison = validated_comparison(tables)
    first = run_comparison(comparison, tmp_path / "out")
    made = when_made(tmp_path / "out")
    assert made.keys() == {"half_steps", "local"}
    assert first["environment"]["plugins"].keys() == {"all_doors.py"}
    plugin.write_text(ALL_DOORS.replace("SHARE = 0.5", "SHARE = 0.75"))
    load_plugin(plugin)
    run_comparison(comparison, tmp_path / "out", keep_stale=True)
    assert when_made(tmp_path / "out") == made
    second = run_comparison(comparison, tmp_path / "out")
    assert {name for name, when in when_made(tmp_path / "out").items() if when != made[name]} == {"half_steps"}
    assert accuracies(first)["theirs"] == accuracies(second)["theirs"]
    assert accuracies(first)["own"] != accuracies(second)["own"]


def test_a_report_of_a_comparison_needs_the_plugin_of_its_task(
    own: Path, tmp_path: Path, command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (comparing, comparison_report):
        monkeypatch.setattr(module, "write_figures", lambda results, folder: None)
    load_plugin(own / "all_doors.py")
    tables = {"name": "own", "scenario": str(own / "own.toml"), "seeds": [0], "set": {"rounds": 1}}
    run_comparison(validated_comparison({**tables, "methods": {"own": {}}}), tmp_path / "out")
    code, said = command("report", tmp_path / "out")
    assert (code, said.count("\n")) == (2, 1)
    assert f"{tmp_path / 'out' / 'results.json'}: unknown task 'absolute_errors'; known: blockage, " in said
    assert "; add --plugin FILE, the plugin that the comparison was made with" in said
    assert command("report", tmp_path / "out", "--plugin", own / "all_doors.py") == (0, "")
    assert command("report", tmp_path / "out", "--trust-plugins") == (0, "")


def when_made(folder: Path) -> dict[str, int]:
    """Algorithm -> when its run was made."""
    return {summary(run)["algorithm"]: (run / "summary.json").stat().st_mtime_ns for run in folder.glob("runs/*")}


def accuracies(results: dict[str, Any]) -> dict[str, float]:
    """Method -> its mean accuracy."""
    return {one["arm"]: one["groups"]["all clients"]["scores"]["accuracy"]["mean"] for one in results["entries"]}


# --- other processes --------------------------------------------------------------------------------------------------

RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-ray")


def ran(*arguments: object) -> None:
    program = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()"]
    command = [*program, *map(str, arguments)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=RAY)])
def test_processes_of_a_comparison_and_workers_have_it(own: Path, tmp_path: Path, engine: str) -> None:
    scenario = [own / "own.toml", "--plugin", own / "all_doors.py", "--engine", engine]
    ran("run", *scenario, "--workers", "2", "--out", tmp_path / "run")
    assert summary(tmp_path / "run")["trace_hash"] == summary(own / "whole")["trace_hash"]
    ran(
        "compare",
        *scenario,
        "--algorithms",
        "half_steps,local",
        "--seeds",
        "1",
        "--jobs",
        "2",
        "--out",
        tmp_path / "out",
    )
    traces = {
        summary(folder)["algorithm"]: summary(folder)["trace_hash"] for folder in (tmp_path / "out/runs").iterdir()
    }
    assert traces["half_steps"] == summary(own / "whole")["trace_hash"]
