"""Every method is compared with the reference seed by seed, with what that number of seeds can show."""

from __future__ import annotations

from typing import Any

import pytest
from sheafedge.scenarios.compare.differences import notes, shown_by, with_differences
from sheafedge.scenarios.compare.statistics import holm, paired_estimate

Results = dict[str, Any]
SPECIAL = "50 % & more_#1"


def of(results: Results, method: str, group: str) -> dict[str, Any]:
    entry = next(entry for entry in results["entries"] if entry["arm"] == method)
    found: dict[str, Any] = entry["groups"][group]["differences"]["accuracy"]
    return found


def test_without_a_reference_it_is_the_first_method_and_the_notes_say_so(written_results: Results) -> None:
    found = with_differences(written_results)
    assert found["reference"] == "alone"
    assert found["statistics"]["reference_by_default"]
    assert notes(found)[0].startswith("Differences are to alone, the first method (--reference names another), seed by")
    named = {**written_results, "comparison": {**written_results["comparison"], "reference": "together"}}
    chosen = with_differences(named)
    assert chosen["reference"] == "together"
    assert notes(chosen)[0].startswith("Differences are to together, seed by seed, with 95% confidence")


def test_a_first_method_that_never_ran_is_no_reference(written_results: Results) -> None:
    first, *others = written_results["entries"]
    found = with_differences({**written_results, "entries": [{**first, "n": 0, "groups": {}}, *others]})
    assert found["reference"] == SPECIAL
    assert found["statistics"]["tests"] == 1
    assert "tests" not in notes(found)[0]


def test_differences_have_the_interval_of_their_pairs(written_results: Results) -> None:
    found = with_differences(written_results)
    difference = of(found, SPECIAL, "young")
    assert list(difference["values"].values()) == pytest.approx([0.04, 0.03, 0.04, 0.05, 0.04])
    expected = paired_estimate([0.04, 0.03, 0.04, 0.05, 0.04], 0.25)
    assert difference["interval"] == pytest.approx(list(expected.interval or ()))
    assert difference["effect"] == pytest.approx(expected.effect)
    assert difference["p"] == pytest.approx(expected.p)
    assert of(found, "alone", "young")["interval"] == [0.0, 0.0]


def test_a_family_is_one_score_of_one_group_without_the_reference(written_results: Results) -> None:
    found = with_differences(written_results)
    for group in ("young", "old", "all clients"):
        others = [of(found, method, group) for method in (SPECIAL, "together")]
        assert [one["p_holm"] for one in others] == holm([one["p"] for one in others])
        assert "p_holm" not in of(found, "alone", group)
    assert "for 2 tests" in notes(found)[0]


def test_only_seeds_that_both_completed_make_a_pair(written_results: Results) -> None:
    first, *others = written_results["entries"]
    figure = first["groups"]["young"]["scores"]["accuracy"]
    figure["values"] = {seed: value for seed, value in figure["values"].items() if seed in "34"}
    found = with_differences({**written_results, "entries": [first, *others]})
    assert list(of(found, "together", "young")["values"]) == ["3", "4"]
    assert of(found, "together", "old")["n"] == 5


def test_results_of_before_are_compared_as_if_seeds_were_independent_and_say_so(written_results: Results) -> None:
    before = {key: value for key, value in written_results.items() if key != "resampling"}
    found = with_differences(before)
    assert of(found, "together", "old")["interval"] == pytest.approx(
        list(paired_estimate([0.10, 0.08, 0.11, 0.09, 0.10]).interval or ())
    )
    assert "do not say" in notes(found)[1]
    assert with_differences(found) == found


def test_one_method_has_nothing_to_be_compared_with(written_results: Results) -> None:
    alone = {**written_results["comparison"], "arms": {"alone": {}}}
    found = with_differences({**written_results, "entries": written_results["entries"][:1], "comparison": alone})
    assert found["reference"] is None
    assert notes(found) == []


def test_one_seed_is_said_to_show_no_spread(written_results: Results) -> None:
    for entry in written_results["entries"]:
        entry["n"] = 1
    assert "One seed shows no spread" in notes(with_differences(written_results))[0]


def test_five_seeds_say_what_they_miss() -> None:
    assert shown_by(5, 0.0) == (
        "5 seeds: an interval reaches 1.2 standard deviations of the differences to either side, and only an effect of"
        " 1.7 is found with probability 0.8; smaller ones are mostly missed, so an interval with 0 does not show that"
        " methods are equal. That differences are normal is assumed, not tested (a test of signs or ranks cannot fall"
        " below p = 0.062)."
    )
    assert "ranks" not in shown_by(20, 0.0)
    assert "reaches 2 standard" in shown_by(5, 1 / 3)
