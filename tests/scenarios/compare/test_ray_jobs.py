"""Jobs that Ray carries to other hosts: what comes back is put into its place whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare.jobs import Job, JobOutcome, run_job
from sheafedge.scenarios.compare.ray_jobs import make_recording, make_run, store_run
from sheafedge.scenarios.compare.stored_runs import run_software
from sheafedge.scenarios.recording.recording_cache import found_recording
from sheafedge.scenarios.schema.scenario import Scenario


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_was_made_elsewhere_is_that_of_this_host(tiny: Scenario, tmp_path: Path) -> None:
    text = tomli_w.dumps(tiny.pinned_tables())
    assert run_job(Job(tiny, tmp_path / "here", "")).error == ""
    told, files = make_run(text, "there", run_software(), [], [])
    assert JobOutcome(*told).error == ""
    store_run(tmp_path / "there", files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]
    here, there = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert here.keys() == there.keys()
    assert here["metrics.jsonl"] == there["metrics.jsonl"]


def test_a_recording_is_sent_only_where_it_is_wanted(tiny: Scenario) -> None:
    text = tomli_w.dumps(tiny.pinned_tables())
    told, kept = make_recording(text, run_software(), [], is_wanted=False)
    assert (JobOutcome(*told).error, kept) == ("", None)
    _, sent = make_recording(text, run_software(), [], is_wanted=True)
    path = found_recording(tiny.recorded_world, tiny.seed)
    assert path is not None
    assert sent == (path.name, path.read_bytes())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [({"torch": "1.0"}, r"has another torch \(.*, not 1.0\) than"), ({"code": "0"}, "has another code than the host")],
)
def test_a_host_with_other_software_makes_nothing(changed: dict[str, str], sentence: str, tiny: Scenario) -> None:
    text, software = tomli_w.dumps(tiny.pinned_tables()), {**run_software(), **changed}
    for told, made in (make_run(text, "run", software, [], []), make_recording(text, software, [], is_wanted=True)):
        assert not made
        assert told[1] == "ConfigError"
        with pytest.raises(ConfigError, match=sentence):
            raise ConfigError(told[2])


COMPLETE = [("run/metrics.jsonl", b"new"), ("run/pictures/bs00.png", b"street")]


def test_a_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (tmp_path / "run.failed-2").mkdir()
    store_run(folder, [("run/metrics.jsonl", b"old"), ("run/links.jsonl", b"old")])
    store_run(folder, COMPLETE)
    assert contents(tmp_path) == dict(COMPLETE)


def test_a_failed_run_is_kept_beside_an_earlier_one(tmp_path: Path) -> None:
    store_run(tmp_path / "run", COMPLETE)
    store_run(tmp_path / "run", [("run.failed/metrics.jsonl", b"diverged")])
    assert contents(tmp_path) == {**dict(COMPLETE), "run.failed/metrics.jsonl": b"diverged"}
    store_run(tmp_path / "run", [])  # refused before it began
    assert contents(tmp_path) == dict(COMPLETE)


def test_a_run_that_cannot_be_written_costs_no_earlier_one(tmp_path: Path) -> None:
    store_run(tmp_path / "run", COMPLETE)
    with pytest.raises(ConfigError, match="cannot be written"):
        store_run(tmp_path / "run", [("run/a", b"file"), ("run/a/b", b"below a file")])
    assert contents(tmp_path / "run") == {path.removeprefix("run/"): content for path, content in COMPLETE}
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
