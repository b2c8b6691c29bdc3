"""The report of a comparison can be made again from its folder, whatever version wrote that."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.compare import comparison_report
from sheafedge.scenarios.compare.comparison_page import ComparisonFigure, comparison_page
from sheafedge.scenarios.compare.comparison_report import FIGURES, write_comparison_report
from sheafedge.scenarios.compare.differences import with_differences
from sheafedge.scenarios.compare.stored_results import stored_results
from sheafedge.scenarios.report.figure_style import COLUMN_WIDTHS_IN

Finished = tuple[Path, dict[str, Any]]


class Page(HTMLParser):
    """Anchors, tables and figures of a page, and whatever it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.fetched: list[str] = []
        self.n_figures = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.n_figures += tag == "svg"
        if tag == "section":
            self.anchors.append(found["id"])
        self.fetched += [found[name] for name in ("src", "href") if re.match(r"https?:|//", found.get(name, ""))]


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Path:
    folder = tmp_path / "copied"
    shutil.copytree(finished[0], folder, ignore=shutil.ignore_patterns("*.png", "*.svg", "*.pdf", "*.html", "*.csv"))
    return folder


def test_the_page_is_one_file_with_tables_figures_and_every_seed(finished: Finished) -> None:
    folder, results = finished
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    sections = ["what-was-compared", "scores", "differences", "curves", "costs-and-other-scores", "per-seed"]
    assert [anchor for anchor in page.anchors if anchor != "failures-and-warnings"] == sections
    assert page.n_figures == 4
    assert page.fetched == []
    assert "Every seed records a world of its own" in text
    values = results["entries"][0]["groups"]["rf"]["scores"]["top1"]["values"]
    for value in values.values():
        assert f"{value:.3f}".replace("0.", ".", 1) in text


def test_results_of_before_open_again_and_stay_as_they_are(copied: Path) -> None:
    before = json.loads((copied / "results.json").read_text())
    del before["statistics"], before["resampling"]
    before["reference"] = None
    for entry in before["entries"]:
        for group in entry["groups"].values():
            del group["differences"]
    del before["comparison"]["reference"]
    (copied / "results.json").write_text(json.dumps(before))
    path = write_comparison_report(copied)
    assert "the first method" in path.read_text(encoding="utf-8")
    assert "do not say whether seeds drew data" in (copied / "table.md").read_text()
    assert json.loads((copied / "results.json").read_text()) == before
    assert {"differences.svg", "curves-time.pdf", "results.csv"} <= {file.name for file in copied.iterdir()}


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"name": 3}', "[" * 100_000])
def test_what_is_no_result_is_refused_in_one_sentence(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(
        DataError, match=r"is no result of a comparison \(.+\); sheafedge compare with the same"
    ) as told:
        stored_results(tmp_path)
    assert "\n" not in str(told.value)


#: Place of what is taken out of the results, and what is said then.
DAMAGE: dict[str, tuple[tuple[str | int, ...], str]] = {
    "a group": (("entries", 0, "groups", "all clients"), "an entry of 'alone' lacks the group 'all clients'"),
    "a run": (("entries", 0, "runs", "1"), "an entry of 'alone' has not the 2 runs that it counts"),
    "the clients of a group": (("entries", 0, "groups", "rf", "clients"), "entries.0.groups.rf.clients: Field req"),
    "baselines": (("entries", 0, "groups", "rf", "baselines"), "entries.0.groups.rf.baselines: Field required"),
    "values": (("entries", 0, "groups", "rf", "scores", "top1", "values"), "entries.0.groups.rf.scores.top1.values: "),
    "a cost": (("entries", 0, "facts", "virtual_time_s"), "entries.0.facts.virtual_time_s: Field required"),
    "an entry": (("entries", 0), "its entries are not those of its arms at every varied value"),
    "the methods": (("comparison", "arms"), "comparison.arms: Field required"),
    "the name of the varied field": (("vary",), "vary: Field required"),
    "what seeds draw": (("resampling", "drawn"), "resampling.drawn: Field required"),
}


@pytest.fixture
def of_one_method(finished: Finished) -> dict[str, Any]:
    """Results without differences, as of a comparison of one method."""
    results: dict[str, Any] = json.loads((finished[0] / "results.json").read_text())
    del results["statistics"]
    results["entries"] = [entry for entry in results["entries"] if entry["arm"] == "alone"]
    results["comparison"]["arms"] = {"alone": results["comparison"]["arms"]["alone"]}
    return results


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_results_are_refused_before_anything_is_written(
    case: str, of_one_method: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "results.json").write_text(json.dumps(of_one_method))
    assert "statistics" not in stored_results(tmp_path)
    (*parents, last), words = DAMAGE[case]
    part: Any = of_one_method
    for key in parents:
        part = part[key]
    del part[last]
    (tmp_path / "results.json").write_text(json.dumps(of_one_method))
    with pytest.raises(DataError) as told:
        write_comparison_report(tmp_path)
    assert f"results.json is no result of a comparison ({words}" in str(told.value)
    assert "\n" not in str(told.value)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_results_of_a_task_that_is_not_loaded_name_the_option(of_one_method: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({**of_one_method, "task": "absolute_errors"}))
    sentence = r"results\.json: unknown task 'absolute_errors'; known: blockage, .*; add --plugin FILE, the plugin that"
    with pytest.raises(ConfigError, match=sentence):
        write_comparison_report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_figures_of_before_that_the_comparison_has_no_more_are_removed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        comparison_report, "save_figure", lambda _, stem: stem.with_suffix(".png").write_text("drawn again")
    )
    others = {path.name for path in copied.iterdir()} | {"report.html", "results.csv", "vary.txt"}
    kinds = ("png", "svg", "pdf")
    for name in FIGURES:
        for kind in kinds:
            (copied / f"{name}.{kind}").write_text("of before")
    (copied / "vary.txt").write_text("mine")
    write_comparison_report(copied)
    assert {path.name for path in copied.iterdir()} == others | {
        f"{name}.{kind}" for name in FIGURES - {"vary", "costs"} for kind in kinds
    }
    assert (copied / "differences.png").read_text() == "drawn again"


def test_what_was_named_by_strangers_is_text_and_no_markup(written_results: dict[str, Any]) -> None:
    for entry in written_results["entries"]:
        if entry["arm"] == "together":
            entry["arm"] = "<script>alert(1)</script>"
            entry["warnings"] = ["<img src=x>"]
    methods = {entry["arm"]: {} for entry in written_results["entries"]}
    written_results["comparison"]["arms"] = methods
    text = comparison_page(with_differences(written_results), [])
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_figures_for_a_column_are_not_stretched_over_the_page(written_results: dict[str, Any]) -> None:
    drawn = [
        ComparisonFigure(f"curves-{width}", "", Figure(figsize=(width_in, 2.0)))
        for width, width_in in COLUMN_WIDTHS_IN.items()
    ]
    text = comparison_page(with_differences(written_results), drawn)
    assert re.findall(r'<figure class="(\w+)">', text) == ["narrow", "wide"]


def test_versions_of_several_runs_are_text(written_results: dict[str, Any]) -> None:
    written_results["environment"]["commit"] = ["6cd11be", "6cd11be-dirty"]
    assert "commit 6cd11be and 6cd11be-dirty" in comparison_page(with_differences(written_results), [])


def test_several_machines_are_text(written_results: dict[str, Any]) -> None:
    written_results["environment"] |= {"processor": ["A", "B"], "machine": "x86_64", "cpus": [2, 16]}
    text = comparison_page(with_differences(written_results), [])
    assert "A and B, x86_64, 2 and 16 processors" in text


def test_failures_are_on_the_page(written_results: dict[str, Any]) -> None:
    failure = {"arm": "alone", "varied": None, "seed": 3, "error": "DivergedError", "sentence": "it left the numbers"}
    text = comparison_page(with_differences({**written_results, "failures": [failure]}), [])
    assert "failed: alone, seed 3: it left the numbers" in text
