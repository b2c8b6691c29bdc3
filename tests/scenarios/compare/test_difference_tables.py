"""Tables of differences show mean, interval, effect and p value, and a dash where there is none."""

from __future__ import annotations

from typing import Any

from sheafedge.scenarios.compare.comparison_tables import markdown, result_tables
from sheafedge.scenarios.compare.difference_tables import difference_tables
from sheafedge.scenarios.compare.differences import with_differences

Results = dict[str, Any]
WIDEST = 80


def test_the_table_over_all_clients_has_interval_effect_and_p(written_results: Results) -> None:
    over_all, by_group = difference_tables(with_differences(written_results))
    assert over_all.title == "accuracy above alone, all clients"
    assert over_all.heads == ["method", "difference", "95% interval", "effect", "p (Holm)"]
    # by hand: mean .023, sd .00758; 2.776 sqrt(1 / 5 + .25) .00758 = .0141; .7979 * .023 / .00758; 2 * P(t_4 > 4.52)
    assert over_all.rows[0] == ["50 % & more_#1", "+.023", "[+.009, +.037]", "+2.42", ".021"]
    assert sum(max(map(len, column)) + 3 for column in zip(over_all.heads, *over_all.rows, strict=True)) < WIDEST
    assert by_group.heads == ["method", "young", "old", "all clients"]
    assert by_group.rows[1][2] == "+.096 [+.075, +.117]"
    assert (over_all.is_main, by_group.is_main) == (True, False)


def test_the_page_holds_what_the_differences_stand_for(written_results: Results) -> None:
    found = with_differences(written_results)
    text = markdown(found)
    assert "0.25 held-out samples per training sample" in text
    assert "5 seeds: an interval reaches" in text


def test_results_of_before_get_intervals_when_they_are_shown(written_results: Results) -> None:
    del written_results["resampling"]
    tables = {table.title: table for table in result_tables(written_results)}
    assert tables["accuracy above alone, all clients"].rows[1][2].startswith("[")


def test_what_is_not_known_is_a_dash(written_results: Results) -> None:
    for entry in written_results["entries"]:
        for group in entry["groups"].values():
            figure = group["scores"]["accuracy"]
            group["scores"]["accuracy"] = {**figure, "values": {"0": figure["values"]["0"]}}
    over_all, by_group = difference_tables(with_differences(written_results))
    assert over_all.rows[1][2:] == ["-", "-", "-"]
    assert by_group.rows[1][1] == "+.030"
