"""The page about plugins: its files and commands do what it says, as they are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from doubles.plugin_page import commands, examples, write_examples
from sheafedge.emulator.plugin_sources import LOADED
from sheafedge.scenarios.compare.plan import planned_runs
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.schema.scenario import load_scenario, parse_assignment
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.terminal.compare_arguments import requested_comparison

pytestmark = pytest.mark.checkout
TINY = ["rounds=2", "network.transport=memory", "export.onnx=false", "topology.kind=complete", "clients.n_clients=3"]
#: Lines of an example that can be read at one sitting.
LONGEST = 48


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path)
    yield
    for name in list(LOADED):
        unload(name)


def called(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code


def run_tiny(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Summary of the run of a printed command, made short."""
    edits = [part for edit in TINY for part in ("--set", edit)]
    called([*arguments, *edits, "--out", "run"], monkeypatch)
    found: dict[str, object] = json.loads(Path("run/summary.json").read_text())
    return found


def test_there_is_a_short_file_of_each_kind() -> None:
    assert list(examples()) == ["lookahead.py", "clipped.py", "stations.py", "robust.py", "satellite.py"]
    assert max(len(text.splitlines()) for text in examples().values()) <= LONGEST
    provided = {kind for name in examples() for kind, _ in load_plugin(name).provides}
    assert provided == {"algorithm", "data set", "task", "objective", "link model"}


@pytest.mark.parametrize(
    ("file", "algorithm"),
    [("lookahead.py", "lookahead"), ("lookahead.py", "lookahead_server"), ("clipped.py", "clipped")],
)
def test_the_algorithm_learns(file: str, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = (one for one in commands() if one[0] == "run" and file in one)
    assert command[-1] == f"algorithm={Path(file).stem}"
    summary = run_tiny([*command, "--set", f"algorithm={algorithm}", "--set", "training.local_steps=20"], monkeypatch)
    accuracy = summary["groups"]["all"]["accuracy"]  # type: ignore[index]  # JSON
    assert accuracy > summary["baselines"]["all"]["majority"]["accuracy"]  # type: ignore[index]  # JSON


def test_the_comparison_is_possible() -> None:
    (command,) = (one for one in commands() if one[0] == "compare")
    load_plugin("lookahead.py")
    names = command[command.index("--algorithms") + 1]
    runs = planned_runs(requested_comparison(command[1], algorithms=names, seeds=3))
    assert len(runs) == 12
    assert not any(run.refusal for run in runs)


def test_data_and_task_go_together_over_a_satellite(monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = (one for one in commands() if "stations.py" in one)
    draws = np.random.default_rng(4)
    Path("weather").mkdir()
    for station in range(3):
        x = draws.normal(size=(40, 3))
        np.savetxt(f"weather/{station}.csv", np.column_stack([x, x.sum(axis=1) + station]), delimiter=",")
    link = ["--plugin", "satellite.py", "--set", "links.model=satellite", "--set", "network.deadline_s=60"]
    summary = run_tiny([*command, *link], monkeypatch)
    assert summary["groups"]["all"]["median_error"] > 0.0  # type: ignore[index]  # JSON
    assert summary["virtual_time_s"] < 5.0  # type: ignore[operator]  # JSON; all in the first pass
    assert set(summary["environment"]["plugins"]) == {"stations.py", "robust.py", "satellite.py"}  # type: ignore[index]  # JSON


def test_a_message_waits_for_the_next_pass() -> None:
    (command,) = (one for one in commands() if "satellite.py" in one)
    load_plugin("satellite.py")
    edits = [command[at + 1] for at, part in enumerate(command) if part == "--set"]
    links = load_scenario(command[1]).edited(dict(map(parse_assignment, edits))).links
    settings = links.settings_of(links.model)
    assert (settings.period_s, settings.pass_s) == (30.0, 5.0)
    with pytest.raises(ValueError, match=r"links\.satellite\.pass_s must lie in \(0, period_s\], got 40"):
        load_scenario("digits").edited({"links.satellite.pass_s": 40.0})
