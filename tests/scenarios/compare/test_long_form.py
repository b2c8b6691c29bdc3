"""The table in long form holds every number of every seed once."""

from __future__ import annotations

import csv
import io
from typing import Any

from sheafedge.scenarios.compare.long_form import COLUMNS, long_form
from sheafedge.scenarios.compare.results import FACTS


def test_every_seed_of_every_figure_has_a_line(written_results: dict[str, Any]) -> None:
    lines = list(csv.DictReader(io.StringIO(long_form(written_results))))
    assert tuple(lines[0]) == COLUMNS
    # 3 methods and 5 seeds: 3 groups with a score and a baseline each, and the costs of the run
    assert len(lines) == 3 * 5 * (3 * 2 + len(FACTS))
    found = {line["seed"]: float(line["value"]) for line in lines if line["method"] == "together" and is_old(line)}
    figure = written_results["entries"][2]["groups"]["old"]["scores"]["accuracy"]
    assert found == figure["values"]


def is_old(line: dict[str, str]) -> bool:
    return (line["group"], line["source"], line["quantity"]) == ("old", "model", "accuracy")


def test_names_with_commas_quotes_and_line_ends_stay_one_cell(written_results: dict[str, Any]) -> None:
    written_results["entries"][0]["arm"] = 'a, "b"'
    written_results["vary"] = "link.loss_probability"
    for entry in written_results["entries"]:
        entry["varied"] = 0.2
    lines = list(csv.DictReader(io.StringIO(long_form(written_results))))
    assert lines[0]["method"] == 'a, "b"'
    assert (lines[0]["varied_field"], lines[0]["varied"]) == ("link.loss_probability", "0.2")


def test_a_method_that_never_ran_has_no_lines(written_results: dict[str, Any]) -> None:
    written_results["entries"][0].update(n=0, groups={})
    lines = list(csv.DictReader(io.StringIO(long_form(written_results))))
    assert {line["method"] for line in lines} == {"50 % & more_#1", "together"}
