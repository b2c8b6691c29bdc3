"""Run folders: complete under their own name, or under one that says what happened; never half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError, DivergedError
from sheafedge.emulator.ownership import OwnedError
from sheafedge.scenarios.running.run_folder import (
    RunFolder,
    default_targets,
    open_run_folder,
    owned_target,
    refuse_taken,
    refuse_unusable,
)
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def play(target: Path, run: Callable[[RunFolder], None]) -> None:
    with open_run_folder(target) as folder:
        run(folder)


def stopped_by(error: BaseException, target: Path) -> BaseException:
    """The error as it leaves a run that had written one row."""

    def run(folder: RunFolder) -> None:
        folder.add_row({"round": 0})
        raise error

    with pytest.raises(type(error)) as caught:
        play(target, run)
    return caught.value


def on_a_full_disk(n_rows: int) -> Callable[[RunFolder], None]:
    """A run whose metrics find no room."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")

    def run(folder: RunFolder) -> None:
        folder.metrics.close()
        folder.metrics = full.open("w", encoding="utf-8")
        for _ in range(n_rows):
            folder.add_row({"round": 0})

    return run


def test_a_complete_run_appears_under_its_own_name_and_nothing_else_does(tmp_path: Path, tiny: Scenario) -> None:
    target = tmp_path / "run"
    with open_run_folder(target) as folder:
        assert not target.exists()
        folder.write_scenario(tiny)
        folder.add_row({"round": 0, "client": 3})
        folder.add_row({"round": 1, "client": 3})
        folder.write_summary({"seed": 0})
    assert names(tmp_path) == {"run"}
    assert names(target) == {"scenario.toml", "metrics.jsonl", "summary.json"}
    rows = [json.loads(line) for line in (target / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["round"] for row in rows] == [0, 1]
    assert json.loads((target / "summary.json").read_text(encoding="utf-8")) == {"seed": 0}
    assert load_scenario(str(target / "scenario.toml")) == tiny


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with open_run_folder(tmp_path / "a" / "b" / "run"):
        pass
    assert names(tmp_path / "a" / "b") == {"run"}


def test_a_run_folder_can_be_read_by_others(tmp_path: Path) -> None:
    with open_run_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "run").stat().st_mode & 0o555 == 0o555


def test_a_failed_run_says_so_and_keeps_what_it_had(tmp_path: Path) -> None:
    error = stopped_by(DivergedError("client 3: the loss became nan"), tmp_path / "run")
    assert names(tmp_path) == {"run.failed"}
    assert names(tmp_path / "run.failed") == {"metrics.jsonl", "FAILED.txt"}
    assert (tmp_path / "run.failed" / "FAILED.txt").read_text() == "client 3: the loss became nan\n"
    assert (tmp_path / "run.failed" / "metrics.jsonl").read_text() == '{"round": 0}\n'
    assert error.__notes__ == [f"results so far are in {tmp_path / 'run.failed'}"]


def test_a_failure_of_our_own_making_is_noted_with_its_type(tmp_path: Path) -> None:
    stopped_by(ZeroDivisionError("oops"), tmp_path / "run")
    assert (tmp_path / "run.failed" / "FAILED.txt").read_text() == "ZeroDivisionError: oops\n"


def test_an_interrupted_run_says_so_and_keeps_its_rounds(tmp_path: Path) -> None:
    error = stopped_by(KeyboardInterrupt(), tmp_path / "run")
    assert names(tmp_path) == {"run.interrupted"}
    assert names(tmp_path / "run.interrupted") == {"metrics.jsonl", "INTERRUPTED.txt"}
    assert "keyboard" in (tmp_path / "run.interrupted" / "INTERRUPTED.txt").read_text()
    assert (tmp_path / "run.interrupted" / "metrics.jsonl").read_text() == '{"round": 0}\n'
    assert "run.interrupted" in error.__notes__[0]


def test_every_failure_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    for _ in range(3):
        stopped_by(DivergedError("again"), tmp_path / "run")
    assert names(tmp_path) == {"run.failed", "run.failed-2", "run.failed-3"}


@pytest.mark.parametrize("kind", ["folder", "file", "link to nowhere"])
def test_what_exists_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "run"
    if kind == "folder":
        target.mkdir()
        (target / "precious").write_text("mine")
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    with pytest.raises(ConfigError, match=r"output folder .*run exists already; choose another with --out"):
        open_run_folder(target).__enter__()
    assert names(tmp_path) == before
    if kind == "folder":
        assert (target / "precious").read_text() == "mine"


@pytest.mark.parametrize("below", ["run", "deeper/run"])
def test_a_file_in_place_of_a_parent_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be made because .*file is a file; choose another with --out"):
        open_run_folder(tmp_path / "file" / below).__enter__()
    assert names(tmp_path) == {"file"}


def test_a_parent_that_takes_no_folders_is_a_sentence(tmp_path: Path) -> None:
    """Holds for root too, who may write everywhere else."""
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc on this system")
    with pytest.raises(ConfigError, match=r"/proc/self/run cannot be made because /proc/self takes no .*--out"):
        open_run_folder(Path("/proc/self/run")).__enter__()


@pytest.mark.parametrize("name", ["x" * 300, "nul\0byte"])
def test_a_name_that_no_file_system_takes_is_a_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"output folder .* cannot be written .*--out"):
        open_run_folder(tmp_path / name).__enter__()
    assert names(tmp_path) == set()


@pytest.mark.parametrize("n_rows", [10_000, 1])
def test_a_full_disk_is_a_sentence_and_no_complete_run(n_rows: int, tmp_path: Path) -> None:
    """One row stays in the buffer: only closing the file finds out."""
    with pytest.raises(ConfigError, match=r"output folder .*run cannot be written \(No space left on device\)"):
        play(tmp_path / "run", on_a_full_disk(n_rows))
    assert names(tmp_path) == {"run.failed"}
    assert "No space left" in (tmp_path / "run.failed" / "FAILED.txt").read_text()


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_folder_made_by_somebody_else_in_the_meantime_is_left_alone(is_empty: bool, tmp_path: Path) -> None:
    target = tmp_path / "run"

    def run(folder: RunFolder) -> None:
        folder.write_summary({"seed": 0})
        target.mkdir()
        if not is_empty:
            (target / "precious").write_text("mine")

    with pytest.raises(ConfigError, match="exists already"):
        play(target, run)
    assert names(tmp_path) == {"run", "run.failed"}
    assert names(target) == (set() if is_empty else {"precious"})
    assert (tmp_path / "run.failed" / "summary.json").exists()


def test_asking_whether_a_folder_can_be_made_makes_none(tmp_path: Path) -> None:
    refuse_unusable(tmp_path / "a" / "run")
    assert names(tmp_path) == set()


def test_without_a_name_a_run_gets_a_new_one_under_runs(
    tmp_path: Path, tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = next(default_targets(tiny.name, tiny.algorithm, tiny.seed))
    assert first.parent == Path("runs")
    assert first.name.startswith("beam_tracking-sheaf_dmfl_att-seed0-")
    first.mkdir(parents=True)
    assert not next(default_targets(tiny.name, tiny.algorithm, tiny.seed)).exists()


def test_runs_without_a_name_that_start_in_one_second_get_different_names(tmp_path: Path) -> None:
    names_of = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    with owned_target(None, iter(names_of)) as first, owned_target(None, iter(names_of)) as second:
        assert (first, second) == (names_of[0], names_of[1])


def test_a_name_that_another_run_will_take_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with owned_target(tmp_path / "run", iter(())):
        for refuse in (refuse_taken, lambda name: owned_target(name, iter(())).__enter__()):
            with pytest.raises(OwnedError, match=r"run is being written by process \d+ on .*choose another with --out"):
                refuse(tmp_path / "run")
    assert names(tmp_path) == set()


def test_a_full_disk_before_the_first_checkpoint_gives_no_advice_to_resume(tmp_path: Path) -> None:
    def run(folder: RunFolder) -> None:
        (folder.path / "checkpoint").mkdir()
        raise ConfigError("no room")

    with pytest.raises(ConfigError) as caught:
        play(tmp_path / "run", run)
    assert caught.value.__notes__ == [f"results so far are in {tmp_path / 'run.failed'}"]
