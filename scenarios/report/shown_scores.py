"""How a score is shown, in reports of runs and of comparisons: its heading, and the limits of its axis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..tasks.task_spec import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Margin around the range [0, 1] of a score.
MARGIN = 0.02


def heading(column: Column) -> str:
    """Title of a score with its unit."""
    # the form of a column is one replacement field followed by its unit, such as "{:.2f} dB"
    unit = column.form[column.form.index("}") + 1 :].strip()
    return f"{column.title} [{unit}]" if unit else column.title


def limit_scores(panel: Axes, column: Column, drawn: Iterable[ArrayLike], above: float = MARGIN) -> None:
    """Keeps the axis of scores within [0, 1], which bands and margins leave, where all scores that are drawn lie there.

    A score of a plugin may have any range, and errors have no such limits.

    Args:
        panel: whose axis it is.
        column: the score.
        drawn: scores that are drawn, in arrays of any shape; those that are not finite do not count.
        above: room above 1.
    """
    values = np.concatenate([np.empty(0), *(np.ravel(np.asarray(one, dtype=np.float64)) for one in drawn)])
    values = values[np.isfinite(values)]
    if column.better == "higher" and ((values >= 0.0) & (values <= 1.0)).all():
        low, high = panel.get_ylim()
        panel.set_ylim(max(low, -MARGIN), min(high, 1.0 + above))
