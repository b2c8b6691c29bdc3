from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tomli_w
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.library.run_result import RunResult, load_run
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def copied(finished: RunResult, tmp_path: Path) -> Path:
    """A copy of the run that a test may damage."""
    return Path(shutil.copytree(finished.folder, tmp_path / "copy"))


def test_a_run_is_opened_as_it_was_returned(finished: RunResult) -> None:
    again = load_run(str(finished.folder))
    assert again.summary == finished.summary
    assert again.scenario == finished.scenario
    assert repr(again) == f"RunResult({finished.folder}: beam_tracking, sheaf_dmfl_att, seed 0, 2 rounds)"


def test_metrics_has_a_row_per_line_of_the_file(finished: RunResult) -> None:
    pytest.importorskip("pandas")
    frame, rows = finished.metrics(), lines(finished.folder / "metrics.jsonl")
    assert len(frame) == len(rows) == 8
    for at, row in enumerate(rows):
        assert {name: frame[name][at] for name in ("round", "client", "group", "loss", "bytes_sent")} == {
            name: row[name] for name in ("round", "client", "group", "loss", "bytes_sent")
        }


def test_scores_are_those_of_the_reported_model_in_rounds_that_were_scored(finished: RunResult) -> None:
    pytest.importorskip("pandas")
    frame = finished.metrics()
    assert frame["top1"].isna().tolist() == (frame["round"] == 0).tolist()
    last = frame[frame["round"] == 1]
    assert set(last["model"]) == {"fused"}
    rows = lines(finished.folder / "metrics.jsonl")[-4:]
    assert last["held_out_loss"].to_list() == [row["held_out_loss"]["fused"] for row in rows]  # type: ignore[index]
    for group, figures in finished.summary["groups"].items():
        assert last[last["group"] == group]["top1"].mean() == pytest.approx(figures["top1"])


def test_an_unknown_model_is_refused_with_those_that_there_are(finished: RunResult) -> None:
    pytest.importorskip("pandas")
    with pytest.raises(ConfigError, match=r"has a model 'personal'; its models are fused$"):
        finished.metrics("personal")


def test_links_agree_with_the_totals_of_the_run(finished: RunResult) -> None:
    pytest.importorskip("pandas")
    frame, traffic = finished.links(), finished.summary["traffic"]
    assert frame["messages"].sum() == traffic["messages"]
    assert frame["bytes"].sum() == traffic["bytes"]
    assert not frame.duplicated(["sender", "receiver"]).any()


def test_events_are_the_messages_in_order_of_time(finished: RunResult) -> None:
    pytest.importorskip("pandas")
    frame = finished.events()
    assert frame["time_s"].is_monotonic_increasing
    assert len(frame) == len(lines(finished.folder / "links.jsonl")) > 0
    # what the links counted themselves, in another file
    counted = finished.links().set_index(["sender", "receiver"])["bytes"]
    sent = frame.groupby(["sender", "receiver"])["size_bytes"].sum()
    assert sent.to_dict() == counted.to_dict()
    assert frame["size_bytes"].sum() == finished.summary["traffic"]["bytes"]


def test_what_a_run_of_before_did_not_write_is_said(copied: Path) -> None:
    pytest.importorskip("pandas")
    for name in ("diagnostics.json", "links.jsonl"):
        (copied / name).unlink()
    result = load_run(copied)
    with pytest.raises(ConfigError, match="did not count what its links carried"):
        result.links()
    with pytest.raises(ConfigError, match=r"only messages over radio links .* links\.model = 'radio'"):
        result.events()
    assert len(result.metrics()) == 8


@pytest.mark.parametrize("name", ["metrics.jsonl", "diagnostics.json", "links.jsonl"])
def test_a_damaged_file_is_one_sentence(name: str, copied: Path) -> None:
    pytest.importorskip("pandas")
    (copied / name).write_text('{"round": \n')
    result = load_run(copied)
    calls = {"metrics.jsonl": result.metrics, "diagnostics.json": result.links, "links.jsonl": result.events}
    with pytest.raises(DataError, match=rf"{name} (is damaged|cannot be read) .*; run the scenario again$"):
        calls[name]()


def test_without_pandas_it_says_what_to_install(finished: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pip install 'sheafedge\[analysis\]'$"):
        finished.metrics()


@pytest.mark.parametrize("name", ["scenario.toml", "summary.json", "metrics.jsonl"])
def test_a_folder_of_something_else_is_refused(name: str, copied: Path) -> None:
    (copied / name).unlink()
    with pytest.raises(ConfigError, match=rf"is not the folder of a complete run \({name} is missing\)"):
        load_run(copied)


def test_a_damaged_summary_is_refused(copied: Path) -> None:
    (copied / "summary.json").write_text('{"task": 1}')
    with pytest.raises(DataError, match=r"summary\.json is damaged"):
        load_run(copied)


def test_bundles_are_exported_from_python(finished: RunResult, tmp_path: Path) -> None:
    made = finished.export([1], ["fp16", "float16"], str(tmp_path / "bundles"), archives=False)
    assert [(one.client, one.precision, one.archive) for one in made] == [(1, "float16", None)]
    assert (made[0].folder / "manifest.json").exists()


@pytest.mark.slow  # ten seconds of drawing; tests/scenarios/report looks at the page
def test_the_report_is_the_one_of_the_command(finished: RunResult) -> None:
    path = finished.report(figures=False)
    assert path == finished.folder / "report.html"
    assert "beam_tracking" in path.read_text(encoding="utf-8")


def test_progress_is_shown_as_by_the_command(
    tiny: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_round = tiny.edited({"rounds": 1})
    silent = run_scenario(one_round, str(tmp_path / "silent"))
    assert capsys.readouterr().out == ""
    shown = run_scenario(one_round, tmp_path / "shown", progress=True)
    printed = capsys.readouterr().out
    assert printed.startswith("beam_tracking  sheaf_dmfl_att, seed 0: 4 base stations")
    assert "round 1/1" in printed
    assert shown.summary["trace_hash"] == silent.summary["trace_hash"]


def test_a_scenario_can_be_given_by_its_file(tiny: Scenario, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(tiny.edited({"rounds": 1}).tables()))
    assert run_scenario(tmp_path / "mine.toml", tmp_path / "run").summary["rounds"] == 1
