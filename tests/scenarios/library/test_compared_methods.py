from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.compare import comparing
from sheafedge.scenarios.compare.curves import curves_of
from sheafedge.scenarios.library import compared_methods
from sheafedge.scenarios.library.compared_methods import ComparisonResult, compare, load_comparison, tune
from sheafedge.scenarios.library.run_result import load_run
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario


@pytest.fixture(scope="module", autouse=True)
def _without_figures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "write_figures", lambda results, folder: None)
        yield


@pytest.fixture(scope="module")
def compared(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> ComparisonResult:
    methods = {"alone": {"algorithm": "local"}, "averaged": {"algorithm": "dsgd"}}
    rates = {"training.head_step_size": [0.01, 0.1]}
    out = tmp_path_factory.mktemp("compared") / "found"
    return compare(tiny.edited({"rounds": 1}), methods, [0, 7], vary=rates, reference="alone", out=out)


def test_an_edited_scenario_is_named_with_its_edits(compared: ComparisonResult) -> None:
    said = compared.results["comparison"]
    assert said["scenario"] == "beam_tracking"
    assert said["set"]["rounds"] == 1
    assert said["set"]["data.n_beams"] == 8
    assert {entry["n"] for entry in compared.results["entries"]} == {2}


def test_scores_are_a_row_per_method_value_seed_and_group(compared: ComparisonResult) -> None:
    pytest.importorskip("pandas")
    frame = compared.scores()
    assert not frame.duplicated(["method", "value", "seed", "group"]).any()
    assert set(frame["seed"]) == {0, 7}
    (entry,) = (one for one in compared.results["entries"] if (one["arm"], one["varied"]) == ("averaged", 0.1))
    row = frame[
        (frame["method"] == "averaged") & (frame["value"] == 0.1) & (frame["seed"] == 7) & (frame["group"] == "rf")
    ]
    assert row["top1"].tolist() == [entry["groups"]["rf"]["scores"]["top1"]["values"]["7"]]


def test_metrics_are_those_of_every_run(compared: ComparisonResult) -> None:
    pytest.importorskip("pandas")
    frame = compared.metrics()
    assert frame.groupby(["method", "value", "seed"])["client"].count().to_list() == [4] * 8
    (entry,) = (one for one in compared.results["entries"] if (one["arm"], one["varied"]) == ("alone", 0.01))
    own = load_run(compared.folder / "runs" / entry["runs"]["7"]).metrics()
    found = frame.query("method == 'alone' and value == 0.01 and seed == 7")
    assert found["top1"].to_list() == own["top1"].to_list()


def test_a_comparison_is_opened_as_it_was_returned(compared: ComparisonResult) -> None:
    again = load_comparison(str(compared.folder))
    assert again.results == compared.results
    assert repr(again) == f"ComparisonResult({compared.folder}: alone, averaged; seeds 0, 7)"
    assert "| alone" in again._repr_markdown_()


def test_what_is_no_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not the folder of a comparison \(results\.json is missing\)"):
        load_comparison(tmp_path)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(DataError, match=r"results\.json is no result of a comparison \(Input should be a valid dict"):
        load_comparison(tmp_path)


def test_what_the_report_reads_is_opened_too(compared: ComparisonResult, tmp_path: Path) -> None:
    """Results of many methods and seeds, which an earlier version wrote without differences."""
    pytest.importorskip("pandas")
    results = {key: value for key, value in compared.results.items() if key not in ("statistics", "resampling")}
    (tmp_path / "results.json").write_text(json.dumps(results) + " " * (1 << 26))
    again = load_comparison(tmp_path)
    assert again.scores().equals(compared.scores())
    assert "do not say whether seeds drew data" in again._repr_markdown_()


def test_values_of_a_varied_field_may_be_lists(tiny: Scenario, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    groups = [({"name": one, "modalities": (one,), "share": 1.0},) for one in ("gps", "rf")]
    varied = {"clients.groups": groups}
    found = compare(tiny.edited({"rounds": 1}), ["local"], 1, vary=varied, out=tmp_path / "found")
    assert [one["value"][0]["name"] for one in found.metrics().to_dict("records")] == ["gps"] * 4 + ["rf"] * 4
    (curve,) = curves_of(found.results, found.folder / "runs")
    assert set(curve.scores) == {"gps", "all clients"}
    assert load_comparison(found.folder).results == found.results


def test_a_scenario_that_a_comparison_cannot_name_is_refused(tiny: Scenario) -> None:
    with pytest.raises(ConfigError, match="scenario 'mine' is no shipped one with edits; give the path of its file"):
        compare(tiny.edited({"name": "mine"}), ["local"])


def requested(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **named: Any) -> Any:
    """Comparison that a call would run."""
    monkeypatch.setattr(compared_methods, "run_comparison", lambda comparison, *_, **__: comparison)
    return compare(*arguments, **named).results


def test_arguments_mean_what_the_options_of_the_command_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    found = requested(monkeypatch, "beam_tracking", ["local", "dsgd"], 2, edits={"rounds": 3})
    assert found.methods == {"local": {"algorithm": "local"}, "dsgd": {"algorithm": "dsgd"}}
    assert (found.seeds, found.edits) == ((0, 1), {"rounds": 3})
    everything = requested(monkeypatch, load_scenario("beam_tracking"))
    assert len(everything.methods) > 10
    assert everything.edits == {}
    assert everything.seeds == (0, 1, 2)


def test_methods_replace_those_of_a_file_and_its_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'scenario = "beam_tracking"\nreference = "a"\nseeds = [4]\n[set]\nrounds = 2\n'
        '[methods.a]\nalgorithm = "local"\n[methods.b]\nalgorithm = "dsgd"\n'
    )
    assert set(requested(monkeypatch, file).methods) == {"a", "b"}
    found = requested(monkeypatch, file, ["local"], edits={"rounds": 5})
    assert (list(found.methods), found.reference, found.seeds) == (["local"], "", (4,))
    assert found.edits == {"rounds": 5}


def test_a_search_finds_settings_that_a_comparison_takes(
    tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = {"training.head_step_size": [0.01, 0.1]}
    found = tune(tiny.edited({"rounds": 1}), ["local"], grid, out=tmp_path / "search")
    assert found.chosen["local"]["training.head_step_size"] in grid["training.head_step_size"]
    assert found.path.exists()
    asked = requested(monkeypatch, tiny.edited({"rounds": 1}), ["local"], 1, tuned=found)
    assert asked.methods["local"] == {"algorithm": "local", **found.chosen["local"]}
    assert requested(monkeypatch, tiny.edited({"rounds": 1}), None, 1, tuned=found).methods == asked.methods


def test_progress_prints_the_lines_of_the_command(
    tiny: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(tiny.edited({"rounds": 1}), ["local"], 1, out=tmp_path / "found", progress=True)
    assert "1 runs, 0 of them already stored" in capsys.readouterr().out
