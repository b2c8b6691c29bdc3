"""How a score is shown: its heading with a unit, and an axis that ends where scores can."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from sheafedge.scenarios.report.shown_scores import MARGIN, heading, limit_scores
from sheafedge.scenarios.tasks.task_spec import Column

ACCURACY = Column("accuracy", "accuracy")


def limits(column: Column, *drawn: ArrayLike) -> tuple[float, float]:
    """Ends of an axis that was far wider."""
    panel = Figure().subplots()
    panel.set_ylim(-90.0, 90.0)
    limit_scores(panel, column, drawn)
    return panel.get_ylim()


def test_a_heading_has_the_unit_of_the_numbers() -> None:
    assert heading(ACCURACY) == "accuracy"
    assert heading(Column("rate", "rate", "{:.1f} Mbit/s")) == "rate [Mbit/s]"


@pytest.mark.parametrize(
    "drawn",
    [[[0.0, 1.0]], [np.array([[0.2, np.nan], [0.4, 0.9]]), [0.1]], [[]], []],
    ids=["ends", "gaps", "[]", "none"],
)
def test_an_axis_of_scores_between_0_and_1_ends_there(drawn: list[ArrayLike]) -> None:
    assert limits(ACCURACY, *drawn) == (-MARGIN, 1.0 + MARGIN)


@pytest.mark.parametrize("value", [-0.1, 1.5, 40.0])
def test_a_score_outside_of_0_and_1_leaves_the_axis_as_it_is(value: float) -> None:
    assert limits(ACCURACY, [0.5], [[0.7, value]]) == (-90.0, 90.0)


def test_errors_have_no_limits() -> None:
    assert limits(Column("mae", "mae", better="lower"), [0.5]) == (-90.0, 90.0)
