"""Axes that figures of reports have in common."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from sheafedge.scenarios.report.report_figure import whole_numbers


@pytest.mark.parametrize("shown", [(2.84, 3.16), (0.0, 4.0), (0.0, 60.0)])
def test_rounds_are_whole_also_where_one_alone_was_scored(shown: tuple[float, float]) -> None:
    panel = Figure().add_subplot()
    panel.set_xlim(*shown)
    whole_numbers(panel)
    inside = [float(tick) for tick in panel.get_xticks() if shown[0] <= tick <= shown[1]]
    assert inside
    assert all(tick.is_integer() for tick in inside)
