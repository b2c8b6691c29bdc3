"""Differences are drawn with the whiskers of their intervals, one line per method in every group."""

from __future__ import annotations

from typing import Any

import pytest
from sheafedge.scenarios.compare.difference_figures import draw_differences
from sheafedge.scenarios.compare.differences import with_differences
from sheafedge.scenarios.report.figure_style import COLUMN_WIDTHS_IN


def test_whiskers_are_the_intervals_and_panels_share_their_axes(written_results: dict[str, Any]) -> None:
    results = with_differences(written_results)
    figure = draw_differences(results)
    assert figure.get_figwidth() == COLUMN_WIDTHS_IN[2]
    assert [panel.get_title() for panel in figure.axes] == ["young", "old", "all clients"]
    for panel in figure.axes:
        group = panel.get_title()
        drawn = [container.lines[2][0].get_segments()[0][:, 0] for container in panel.containers]
        stored = [
            entry["groups"][group]["differences"]["accuracy"]["interval"]
            for entry in results["entries"]
            if entry["arm"] != "alone"
        ]
        assert [list(one) for one in drawn] == [pytest.approx(one) for one in stored]
        assert panel.get_xlim() == figure.axes[0].get_xlim()
    assert "95% confidence intervals" in figure.get_suptitle()
    assert "accuracy above alone (better to the right)" in figure.get_supxlabel()


def test_one_seed_has_points_and_no_whiskers(written_results: dict[str, Any]) -> None:
    for entry in written_results["entries"]:
        entry["n"] = 1
        for group in entry["groups"].values():
            figure = group["scores"]["accuracy"]
            group["scores"]["accuracy"] = {**figure, "values": {"0": figure["values"]["0"]}}
    figure = draw_differences(with_differences(written_results))
    assert "no interval" in figure.get_suptitle()
