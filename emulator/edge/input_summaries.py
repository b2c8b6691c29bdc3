"""A few figures about the newest frame of every input, by which a server sees that a sensor is not as in training.

    mean            of what the sensor measures, over the frame
    spread          natural logarithm of its standard deviation
    change          natural logarithm of the mean absolute difference to the frame before
    nothing         share of readings that saw nothing, where a reading stands for that
    column 0, ...   of positions and tables, whose columns mean different things, in place of mean and spread

Numpy alone; the export and the server compute them by the same code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..contracts import MODALITY_SPECS
from .manifest import InputSpec

#: Added before logarithms, in the unit of the values: a sensor that repeats itself is far from all that move, not at
#: minus infinity.
LEAST = 1e-6
#: Wider tables are summarized like images; a manifest does not grow with them.
MOST_COLUMNS = 64


def summary_names(spec: InputSpec) -> tuple[str, ...]:
    """Names of the figures of an input, in the order of `input_summaries`."""
    columned = _has_columns(spec)
    names = [f"column {index}" for index in range(spec.frame_shape[0])] if columned else ["mean", "spread"]
    if spec.window.frames > 1:
        names.append("change")
    if spec.nothing is not None:
        names.append("nothing")
    return tuple(names)


def input_summaries(windows: NDArray[np.float32], spec: InputSpec) -> NDArray[np.float64]:
    """[n, n_figures] figures about the newest frames of windows [n, *spec.shape], see `summary_names`."""
    now = _frame(windows, spec, -1)
    n_values = now.shape[1]
    if _has_columns(spec):
        figures = list(now.T)
    else:
        mean = now.sum(axis=1) / n_values
        # around the mean: of levels far from zero the difference of two large sums would be rounding alone
        centered = now - mean[:, None]
        spread = np.sqrt(np.einsum("ij,ij->i", centered, centered) / n_values)
        figures = [mean, np.log(spread + LEAST)]
    if spec.window.frames > 1:
        moved = now - _frame(windows, spec, -2)
        figures.append(np.log(np.abs(moved, out=moved).sum(axis=1) / n_values + LEAST))
    if spec.nothing is not None:
        figures.append(np.count_nonzero(now == np.float32(spec.nothing), axis=1) / n_values)
    return np.array(figures, dtype=np.float64).T


def _has_columns(spec: InputSpec) -> bool:
    shape = spec.frame_shape
    row = MODALITY_SPECS.get(spec.modality)
    return len(shape) == 1 and shape[0] <= MOST_COLUMNS and (row is None or row.axes == ("column",))


def _frame(windows: NDArray[np.float32], spec: InputSpec, index: int) -> NDArray[np.float32]:
    """[n, n_values] readings of one frame of every window; what says where a reading is (angles) is left out."""
    axis = spec.window.axis
    place: list[slice | int] = [slice(None)] * windows.ndim
    if axis is not None:
        place[1 + axis] = index
    frames = windows[tuple(place)]
    row = MODALITY_SPECS.get(spec.modality)
    for reading in () if row is None else row.readings:
        frames = frames[:, reading]
    return frames.reshape(len(windows), -1)
