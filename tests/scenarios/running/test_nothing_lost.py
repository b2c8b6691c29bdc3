"""A full disk, a folder that takes nothing and a clock that jumps: a sentence, and what was there before is intact."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.ownership import owned
from sheafedge.emulator.whole_file import replacing, write_whole
from sheafedge.scenarios.compare.comparison_report import writing
from sheafedge.scenarios.compare.stored_runs import replacing_run, stored_rounds, stored_summary
from sheafedge.scenarios.recording.recording_cache import cached_recording
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario

YEARS_S = 10 * 365 * 86_400.0
FAILURES = {"full disk": errno.ENOSPC, "unwritable folder": errno.EACCES, "read-only disk": errno.EROFS}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("moment", ["opening", "syncing", "renaming"])
def test_a_file_that_cannot_be_replaced_is_as_it_was(
    code: int, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "results.json"
    write_whole(target, "earlier")
    where = {"opening": (Path, "write_text"), "syncing": (os, "fsync"), "renaming": (Path, "replace")}[moment]
    with monkeypatch.context() as patch:
        patch.setattr(*where, failing(code))
        with pytest.raises(ConfigError, match=r"folder .* cannot be written \(.+\); choose another"), writing(tmp_path):
            write_whole(target, "later")
    assert target.read_text() == "earlier"
    assert names(tmp_path) == {"results.json"}


def test_a_file_whose_disk_fills_half_way_is_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "curves.png"
    target.write_bytes(b"earlier")

    def draw() -> None:
        with replacing(target) as partial:
            partial.write_bytes(b"half of a pict")
            failing(errno.ENOSPC)()

    with pytest.raises(OSError, match="No space"):
        draw()
    assert target.read_bytes() == b"earlier"
    assert names(tmp_path) == {"curves.png"}


@pytest.mark.parametrize("what", ["scenario.toml", "summary.json"])
def test_a_run_whose_disk_is_full_is_a_sentence_and_earlier_runs_are_intact(
    what: str, tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = run_scenario(tiny, tmp_path / "earlier")
    before = {path: path.read_bytes() for path in earlier.folder.rglob("*") if path.is_file()}
    write_text = Path.write_text

    def full(path: Path, *arguments: Any, **more: Any) -> int:
        if path.name.endswith(what):
            failing(errno.ENOSPC)()
        return write_text(path, *arguments, **more)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ConfigError, match=r"output folder .*later cannot be written \(No space left on device\)"):
        run_scenario(tiny, tmp_path / "later")
    assert names(tmp_path) == {"earlier", "later.failed"}
    assert {path: path.read_bytes() for path in before} == before


def test_a_recording_whose_disk_is_full_is_a_sentence_and_the_one_before_is_intact(
    tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = tiny.recorded_world
    first = cached_recording(world, 1, tmp_path)
    content = first.read_bytes()
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(DataError, match=r"cannot write recording .*No space left.*check the folder and the free space"):
        cached_recording(world, 2, tmp_path)
    assert names(tmp_path) == {first.name}
    assert first.read_bytes() == content


def test_a_cache_in_the_place_of_a_file_is_a_sentence(tiny: Scenario, tmp_path: Path) -> None:
    """Holds for root too, who may write everywhere else."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written \(.+\); .*set SHEAFEDGE_CACHE to another folder"):
        cached_recording(tiny.recorded_world, 1, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("jump_s", [YEARS_S, -YEARS_S])
def test_a_clock_that_jumps_changes_neither_trace_nor_scores(
    jump_s: float, tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmq = tiny.edited({"network.transport": "zmq"})
    steady = run_scenario(zmq, tmp_path / "steady").summary
    right, n_asked = time.time, 0

    def jumping() -> float:
        nonlocal n_asked
        n_asked += 1
        return right() + jump_s * (n_asked % 2)

    monkeypatch.setattr(time, "time", jumping)
    summary = run_scenario(zmq, tmp_path / "jumping").summary
    assert summary["trace_hash"] == steady["trace_hash"]
    assert summary["groups"] == steady["groups"]
    assert 0 <= summary["wall_time_s"] < 3600


def test_what_killed_recordings_left_is_removed_and_what_is_being_written_is_not(
    tiny: Scenario, tmp_path: Path
) -> None:
    for name in ("street-1", "street-2"):
        (tmp_path / f".{name}.h5.whole.partial.0.partial").write_bytes(b"half")
    with owned(tmp_path / "street-2"):
        path = cached_recording(tiny.recorded_world, 1, tmp_path)
        assert names(tmp_path) == {path.name, ".street-2.h5.whole.partial.0.partial", ".street-2.lock"}


# Stored runs.


def test_an_earlier_run_goes_only_when_the_new_one_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "summary.json").write_text("earlier")
    (tmp_path / "run.failed-2").mkdir()

    def replace(error: type[BaseException] | None) -> None:
        with replacing_run(folder):
            assert names(tmp_path) == {"run.earlier"}
            if error is not None:
                raise error
            folder.mkdir()

    for error in (ConfigError, KeyboardInterrupt):
        with pytest.raises(error):
            replace(error)
        assert names(tmp_path) == {"run"}
        assert (folder / "summary.json").read_text() == "earlier"
    replace(None)
    assert names(tmp_path) == {"run"}
    assert names(folder) == set()


DAMAGED = {
    "nothing": b"",
    "half": b'{"task": "beam_track',
    "a list": b"[]",
    "no text": b"\xff\xfe\x00",
    "without a bottom": b"[" * 100_000,
    "a number without end": b'{"clients": ' + b"9" * 5000 + b"}",
    "wrong types": b'{"task": 1, "clients": "many", "groups": [], "environment": 3}',
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_summary_and_damaged_metrics_are_one_sentence(case: str, tmp_path: Path) -> None:
    for name, read in (("summary.json", stored_summary), ("metrics.jsonl", lambda folder: list(stored_rounds(folder)))):
        (tmp_path / name).write_bytes(DAMAGED[case])
        if name == "metrics.jsonl" and case == "nothing":
            assert list(stored_rounds(tmp_path)) == []  # which is not as many as the summary promises
            continue
        with pytest.raises(DataError, match=f"{name} is damaged or not written by a run") as refused:
            read(tmp_path)
        assert "\n" not in str(refused.value)
