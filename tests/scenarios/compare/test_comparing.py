"""Runs are made once, compared seed by seed, and continued after an interruption."""

from __future__ import annotations

import json
import os
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from sheafedge.emulator.ownership import OwnedError, owned
from sheafedge.scenarios.compare import jobs, stored_runs, tuning
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.comparison_tables import failure_lines, markdown, result_tables
from sheafedge.scenarios.compare.curves import curves_of
from sheafedge.scenarios.compare.figures import draw_costs, draw_curves, draw_varied
from sheafedge.scenarios.compare.jobs import JobOutcome
from sheafedge.scenarios.compare.plan import PlannedRun
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.running.run_environment import run_code

from .conftest import spread_of

#: A step that leaves the finite numbers at once.
DIVERGING = {"training.encoder_optimizer": "sgd", "training.encoder_step_size": 1e12}
GROUPS = ["gps", "rf", "both", "all clients"]


class RecordedProgress:
    """Callbacks that remember what they were called with."""

    def __init__(self) -> None:
        self.stored = self.recordings = 0
        self.made: list[str] = []

    def begun(self, n_runs: int, n_stored: int, stale: Mapping[str, int]) -> None:
        self.stored, self.stale = n_stored, dict(stale)

    def recorded(self, seed: int, outcome: JobOutcome) -> None:
        self.recordings += 1

    def ended(self, run: PlannedRun, folder: Path, outcome: JobOutcome) -> None:
        self.made.append(f"{run.method} {run.seed}")


def followed(comparison: Comparison, folder: Path, n_jobs: int = 1) -> RecordedProgress:
    progress = RecordedProgress()
    run_comparison(comparison, folder, n_jobs, progress)
    return progress


def only(comparison: Comparison, method: str, **changes: Any) -> Comparison:
    return comparison.edited(
        {"methods": {method: comparison.methods[method]}, "seeds": [0], "reference": "", **changes}
    )


def scores(results: dict[str, Any], method: str, kind: str = "scores") -> dict[str, Any]:
    entry = next(entry for entry in results["entries"] if entry["arm"] == method)
    return {group: facts[kind]["top1"] for group, facts in entry["groups"].items()}


def test_a_comparison_leaves_what_was_promised(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    figures = ("curves-rounds", "curves-bytes", "curves-time", "differences")
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    pictures = {f"{figure}.{kind}" for figure in figures for kind in begins}
    assert {path.name for path in folder.iterdir()} == {
        "comparison.toml",
        "results.json",
        "results.csv",
        "report.html",
        "table.md",
        "table.tex",
        "runs",
        *pictures,
    }
    assert json.loads((folder / "results.json").read_text()) == results
    assert len(list((folder / "runs").iterdir())) == 4
    for picture in pictures:
        assert (folder / picture).read_bytes().startswith(begins[picture[-3:]])


def test_means_and_spreads_are_those_of_the_run_folders(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    for entry in results["entries"]:
        summaries = {
            s: json.loads((folder / "runs" / name / "summary.json").read_text()) for s, name in entry["runs"].items()
        }
        for group in GROUPS[:-1]:
            found = entry["groups"][group]["scores"]["top1"]
            values = [summary["groups"][group]["top1"] for summary in summaries.values()]
            assert list(found["values"].values()) == values
            assert found["mean"] == pytest.approx(statistics.mean(values))
            assert found["sd"] == pytest.approx(statistics.stdev(values))
        assert entry["facts"]["bytes"]["values"] == {s: one["traffic"]["bytes"] for s, one in summaries.items()}
        for seed, most in entry["facts"]["busiest_bytes"]["values"].items():
            *_, (_, last) = stored_runs.stored_rounds(folder / "runs" / entry["runs"][seed])
            assert most == max(row["bytes_sent"] for row in last)
            assert sum(row["bytes_sent"] for row in last) == summaries[seed]["traffic"]["bytes"]


def test_the_mean_over_all_clients_is_over_clients_and_not_over_groups(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    for entry in results["entries"]:
        for seed, name in entry["runs"].items():
            rows = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
            last = [row["models"]["fused"]["top1"] for row in rows if row["round"] == 1]
            found = entry["groups"]["all clients"]["scores"]["top1"]["values"][seed]
            assert found == pytest.approx(statistics.mean(last))


def test_differences_are_taken_seed_by_seed(finished: tuple[Path, dict[str, Any]]) -> None:
    """Their spread is not that of the methods, whose easy and hard seeds are the same."""
    _, results = finished
    ours, reference = scores(results, "together"), scores(results, "alone")
    for group, found in scores(results, "together", "differences").items():
        by_seed = [ours[group]["values"][s] - reference[group]["values"][s] for s in ("0", "1")]
        assert list(found["values"].values()) == by_seed
        assert found["sd"] == pytest.approx(statistics.stdev(by_seed))
    assert {found["mean"] for found in scores(results, "alone", "differences").values()} == {0.0}


def test_the_table_says_what_the_results_say(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    text = (folder / "table.md").read_text()
    assert text == markdown(results)
    assert "| method | gps | rf | both | all clients |" in text
    rf = scores(results, "together")["rf"]
    cell = f"{rf['mean']:.3f}±{rf['sd']:.3f}".replace("0.", ".")
    row = next(line for line in text.splitlines() if line.startswith("| together |"))
    assert row.split(" | ")[2] == cell
    assert "held-out samples (whole sequences)" in text
    assert "| persistence |" in text
    assert "top-1 above alone, seed by seed" in text
    assert [table.is_main for table in result_tables(results)] == [True, True, True, True, False, False, False]


def with_a_server(results: dict[str, Any]) -> dict[str, Any]:
    """The same figures, as if one of the methods had a server."""
    entries = [{**one, "algorithm": "fedavg"} if one["arm"] == "together" else one for one in results["entries"]]
    return {**results, "entries": entries}


def test_beside_a_server_bytes_are_counted_per_client_both_ways(finished: tuple[Path, dict[str, Any]]) -> None:
    """A message among neighbors has both ends at clients, one with a server only one."""
    _, results = finished
    column = "MB per client, both ways"
    assert column not in result_tables(results)[1].heads
    among, served = with_a_server(results), with_a_server(results)
    among["entries"] = [*results["entries"], {**served["entries"][0], "arm": "again", "algorithm": "fedavg"}]
    costs = result_tables(among)[1]
    of = {row[0]: dict(zip(costs.heads, row, strict=True)) for row in costs.rows}
    clients = results["entries"][0]["groups"]["all clients"]["clients"]
    sent = results["entries"][0]["facts"]["bytes"]["mean"] * 1e-6
    assert float(of["together"][column]) == pytest.approx(2 * sent / clients, rel=1e-2)
    assert float(of["again"][column]) == pytest.approx(sent / clients, rel=1e-2)
    assert float(of["again"]["J"]) == pytest.approx(results["entries"][0]["facts"]["energy_j"]["mean"], rel=1e-2)


def test_costs_are_drawn_side_by_side(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    curves = curves_of(results, folder / "runs")
    figure = draw_costs(with_a_server(results), curves)
    labels = [panel.get_xlabel() for panel in figure.axes]
    assert labels == ["simulated time [s]", "sent by all nodes [MB]", "energy of computing [J]"]
    together = curves[0]
    ends = [panel.lines[0].get_xdata()[-1] for panel in figure.axes]  # type: ignore[index]  # matplotlib's are arrays
    assert ends == pytest.approx([together.time_s[-1], together.sent_bytes[-1] * 1e-6, together.energy_j[-1]])
    assert together.energy_j[-1] == pytest.approx(results["entries"][0]["facts"]["energy_j"]["mean"])


def title_of(figure: Figure) -> str:
    """Its title, in one line."""
    return " ".join(str(figure.get_suptitle()).split())


def test_curves_and_costs_name_the_value_that_they_are_of(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    curves = curves_of(results, folder / "runs")
    varied = with_a_server(
        {
            **results,
            "vary": "training.batch_size",
            "comparison": {**results["comparison"], "vary": {"training.batch_size": [8, 16]}},
        }
    )
    for figure in (draw_curves(varied, curves, "rounds"), draw_costs(varied, curves)):
        assert title_of(figure).endswith("over 2 seeds, training.batch_size = 8")
    assert title_of(draw_costs(with_a_server(results), curves)).endswith("over 2 seeds")


def test_scores_of_any_range_are_seen(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    curves = curves_of(results, folder / "runs")
    in_mbit_s = [replace(one, scores={group: 60.0 * scores for group, scores in one.scores.items()}) for one in curves]
    for figure in (draw_curves(results, in_mbit_s, "rounds"), draw_costs(results, in_mbit_s)):
        highest = max(float(one.scores["all clients"].mean(axis=0).max()) for one in in_mbit_s)
        assert figure.axes[0].get_ylim()[1] > highest > 1.1
    for figure in (draw_curves(results, curves, "rounds"), draw_costs(results, curves)):
        low, high = figure.axes[0].get_ylim()
        assert low >= -0.02
        assert high <= 1.02


def test_scores_over_a_varied_field_may_have_any_range(written_results: dict[str, Any]) -> None:
    varied = {**written_results, "vary": "rounds"}
    varied["comparison"] = {**written_results["comparison"], "vary": {"rounds": [1]}}
    varied["entries"] = [{**entry, "varied": 1} for entry in written_results["entries"]]
    assert draw_varied(varied).axes[0].get_ylim()[1] <= 1.02
    for entry in varied["entries"]:
        for group in entry["groups"].values():
            group["scores"]["accuracy"] = spread_of([40.0, 42.0])
    low, high = draw_varied(varied).axes[0].get_ylim()
    assert low < 40.0
    assert high > 42.0


def test_curves_end_where_the_scores_are(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    for curve in curves_of(results, folder / "runs"):
        entry = next(entry for entry in results["entries"] if entry["arm"] == curve.method)
        assert curve.rounds.tolist() == [1, 2]
        assert curve.sent_bytes[-1] == pytest.approx(entry["facts"]["bytes"]["mean"])
        assert curve.time_s[-1] <= entry["facts"]["virtual_time_s"]["mean"]
        for group, found in scores(results, curve.method).items():
            assert curve.scores[group][:, -1].tolist() == pytest.approx(list(found["values"].values()))


@pytest.mark.usefixtures("without_pictures")
def test_what_is_there_is_not_run_again_and_a_changed_scenario_is(two_methods: Comparison, tmp_path: Path) -> None:
    one = only(two_methods, "alone")
    assert followed(one, tmp_path).made == ["alone 0"]
    again = followed(one, tmp_path)
    assert (again.made, again.stored, again.recordings) == ([], 1, 0)
    other_threads = one.edited({"set": {**one.edits, "compute.executor": "threads", "compute.threads": 2}})
    assert followed(other_threads, tmp_path).made == []
    changed = one.edited({"set": {**one.edits, "rounds": 1}})
    assert followed(changed, tmp_path).made == ["alone 0"]
    assert followed(one, tmp_path).made == []  # and the first is still there


@pytest.mark.usefixtures("without_pictures")
def test_a_run_of_another_version_or_of_another_scenario_is_replaced(
    two_methods: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = only(two_methods, "alone")
    run_comparison(one, tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    for name, before, after in (
        ("scenario.toml", "rounds = 2", "rounds = 7"),
        ("summary.json", '"sheafedge": "', '"sheafedge": "9'),
    ):
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after))
        assert followed(one, tmp_path).made == ["alone 0"]
        assert (folder / name).read_text().count(after) == 0
    monkeypatch.setattr(stored_runs, "__version__", "9")
    assert followed(one, tmp_path).made == ["alone 0"]


@pytest.mark.usefixtures("without_pictures")
def test_a_run_of_other_code_is_made_again_unless_it_is_to_be_kept(two_methods: Comparison, tmp_path: Path) -> None:
    one = only(two_methods, "alone")
    results = run_comparison(one, tmp_path)
    assert results["environment"]["code"] == run_code()
    (folder,) = (tmp_path / "runs").iterdir()
    for changed, reason in (({"code": "f" * 16}, "other code"), ({"torch": "2.0.0"}, "torch 2.0.0")):
        summary = json.loads((folder / "summary.json").read_text())
        summary["environment"] |= changed
        (folder / "summary.json").write_text(json.dumps(summary))

        progress = RecordedProgress()
        kept = run_comparison(one, tmp_path, 1, progress, keep_stale=True)
        assert (progress.made, progress.stored, progress.stale) == ([], 1, {reason: 1})
        assert kept["environment"] == summary["environment"]

        again = followed(one, tmp_path)
        assert (again.made, again.stored, again.stale) == (["alone 0"], 0, {reason: 1})
        # nothing is stale about a run that was just made
        assert (followed(one, tmp_path).made, followed(one, tmp_path).stale) == ([], {})


@pytest.mark.usefixtures("without_pictures")
def test_results_name_the_software_of_all_runs(two_methods: Comparison, tmp_path: Path) -> None:
    run_comparison(only(two_methods, "alone"), tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    summary["environment"]["code"] = "f" * 16
    (folder / "summary.json").write_text(json.dumps(summary))
    mixed = run_comparison(two_methods.edited({"seeds": [0], "reference": ""}), tmp_path, keep_stale=True)
    assert set(mixed["environment"]["code"]) == {"f" * 16, run_code()}
    assert isinstance(mixed["environment"]["torch"], str)


@pytest.mark.usefixtures("without_pictures")
def test_an_interrupted_comparison_continues_and_clears_what_was_left(
    two_methods: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = jobs.run_scenario, []

    def interrupted_once(scenario: Any, folder: Path, **options: Any) -> Any:
        calls.append(folder)
        if len(calls) == 2:
            for leftover in (f"{folder.name}.interrupted", f"{folder.name}.partial-2", f"{folder.name}.failed-2"):
                (folder.parent / leftover).mkdir()
            raise KeyboardInterrupt
        return real(scenario, folder, **options)

    monkeypatch.setattr(jobs, "run_scenario", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(two_methods, tmp_path)
    continued = followed(two_methods, tmp_path)
    assert continued.stored == 1
    assert continued.made == ["alone 0", "together 1", "alone 1"]
    assert all(os.path.isfile(path / "summary.json") for path in (tmp_path / "runs").iterdir())  # noqa: PTH113


@pytest.mark.usefixtures("without_pictures")
def test_methods_that_come_down_to_the_same_scenario_share_a_run(two_methods: Comparison, tmp_path: Path) -> None:
    twice = only(two_methods, "alone").edited({"methods": {"a": {"algorithm": "local"}, "b": {"algorithm": "local"}}})
    progress = RecordedProgress()
    results = run_comparison(twice, tmp_path, progress=progress)
    assert progress.made == ["a 0"]
    assert scores(results, "a") == scores(results, "b")


@pytest.mark.usefixtures("without_pictures")
def test_an_method_that_fails_is_reported_and_stops_no_other(two_methods: Comparison, tmp_path: Path) -> None:
    methods = {"wild": DIVERGING, "lonely": {"topology.kind": "regular", "topology.degree": 99}, **two_methods.methods}
    results = run_comparison(two_methods.edited({"methods": methods, "reference": "wild", "seeds": [0]}), tmp_path)
    assert [entry["n"] for entry in results["entries"]] == [0, 0, 1, 1]
    by_method = {failure["arm"]: failure for failure in results["failures"]}
    assert by_method["wild"]["error"] == "DivergedError"
    assert "left the finite numbers" in by_method["wild"]["sentence"]
    assert "topology.degree" in by_method["lonely"]["sentence"]
    text = (tmp_path / "table.md").read_text()
    assert "| wild | 0 of 1 | - | - | - | - |" in text
    assert "| together | 1 of 1 | ." in text
    for line in failure_lines(results):
        assert line in text


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_a_seed_that_failed_leaves_means_over_the_others(two_methods: Comparison, tmp_path: Path) -> None:
    """In three minutes too few cars pass for four clients with seed 3, and enough with the others."""
    short = only(two_methods, "alone", seeds=[0, 1, 3])
    results = run_comparison(short.edited({"set": {**short.edits, "world.duration_s": 180}}), tmp_path)
    (failure,) = results["failures"]
    assert failure["seed"] == 3
    found = scores(results, "alone")["rf"]
    assert list(found["values"]) == ["0", "1"]
    assert found["mean"] == pytest.approx(statistics.mean(found["values"].values()))
    assert "| alone | 2 of 3 |" in (tmp_path / "table.md").read_text()
    (curve,) = curves_of(results, tmp_path / "runs")
    assert curve.scores["rf"][:, -1].tolist() == pytest.approx(list(found["values"].values()))


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_two_jobs_find_what_one_finds(
    two_methods: Comparison, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    progress = RecordedProgress()
    results = run_comparison(two_methods, tmp_path, 2, progress)
    assert sorted(progress.made) == ["alone 0", "alone 1", "together 0", "together 1"]
    assert progress.recordings == 2
    for entry, other in zip(results["entries"], finished[1]["entries"], strict=True):
        assert entry["groups"] == other["groups"]
        assert entry["runs"] == other["runs"]
    hashes = [
        {
            path.name: json.loads((path / "summary.json").read_text())["trace_hash"]
            for path in (folder / "runs").iterdir()
        }
        for folder in (tmp_path, finished[0])
    ]
    assert hashes[0] == hashes[1]


def test_the_varied_value_stands_beside_every_method(two_methods: Comparison, tmp_path: Path) -> None:
    varied = only(two_methods, "alone", vary={"training.batch_size": [8, 16]})
    results = run_comparison(varied, tmp_path)
    assert [entry["varied"] for entry in results["entries"]] == [8, 16]
    assert "| method | batch_size |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "vary.png").read_bytes().startswith(b"\x89PNG")
    assert tomllib.loads((tmp_path / "comparison.toml").read_text())["vary"] == {"training.batch_size": [8, 16]}


def test_a_second_comparison_in_one_folder_is_refused_and_touches_nothing(
    two_methods: Comparison, tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    with owned(folder, inside=True):
        with pytest.raises(OwnedError, match=r"two is being written by process \d+"):
            run_comparison(two_methods, folder)
        with pytest.raises(OwnedError):
            tuning.tune(two_methods, tuning.DEFAULT_GRID, [0], folder)
        assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_run_that_another_process_makes_is_left_alone(
    two_methods: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "run_scenario", run_scenario)  # and not what was made before
    (tmp_path / "one.partial").mkdir()
    job = jobs.Job(two_methods.base(), tmp_path / "one", "")
    with owned(tmp_path / "one"):
        outcome = jobs.run_job(job)
    assert outcome.error == "OwnedError"
    assert [path.name for path in tmp_path.iterdir()] == ["one.partial"]
