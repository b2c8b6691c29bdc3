"""Pictures of recorded sensor frames without a scene, as of measured data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITIES, MODALITY_SPECS, Modality
from .sensor_panels import BLOCKED, CLEAR, draw_map, draw_powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Draw = Callable[[int, "Axes"], None]


def draw_recorded(
    time_s: NDArray[np.float64],
    moments: Sequence[int],
    readings: Mapping[Modality, NDArray[Any]],
    *,
    blocked: NDArray[np.bool_] | None = None,
    title: str = "",
) -> Figure:
    """A few moments side by side, and the beam powers below.

    Args:
        time_s: [F] instants.
        moments: which of them to show.
        readings: modality -> [F, ...] as recorded; `ModalitySpec.picture` says how each is drawn.
        blocked: [F] label, shaded.
        title: title of the figure.
    """
    from matplotlib.figure import Figure

    parts: list[_Draw] = []
    power = None
    for modality in (one for one in MODALITIES if one in readings):
        values, kind = readings[modality], MODALITY_SPECS[modality].picture
        if kind == "powers":
            power = values
        elif kind in _PARTS:
            parts.append(_PARTS[kind](modality, values))
    heights = [1.0] * len(parts) + [0.3, 0.5] * (power is not None)
    figure = Figure(figsize=(4.6 * max(len(moments), 2), 4.0 * sum(heights) + 1.0), layout="constrained")
    grid = figure.add_gridspec(max(len(heights), 1), len(moments), height_ratios=heights or [1.0])
    for column, frame in enumerate(moments):
        state = "" if blocked is None else ", blocked" if blocked[frame] else ", clear"
        for row, draw in enumerate(parts):
            ax = figure.add_subplot(grid[row, column])
            draw(frame, ax)
            if row == 0:
                color = BLOCKED if state == ", blocked" else CLEAR if state else "black"
                ax.set_title(f"t = {time_s[frame]:.1f} s{state}", color=color, weight="bold")
    if power is not None:
        draw_powers(time_s, moments, power, blocked, *(figure.add_subplot(grid[row, :]) for row in (-2, -1)))
    if title:
        figure.suptitle(title)
    return figure


def _draw_lidar(scan: NDArray[Any], ax: Axes) -> None:
    range_m, angle_rad = scan.T
    echo = range_m > 0
    ax.scatter(range_m[echo] * np.sin(angle_rad[echo]), range_m[echo] * np.cos(angle_rad[echo]), s=8, c="#7b1fa2")
    ax.plot(0.0, 0.0, marker="^", ms=11, c="black")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel("m across angle 0")
    ax.set_ylabel("m along angle 0")


def _image(_modality: Modality, images: NDArray[Any]) -> _Draw:
    def draw(frame: int, ax: Axes) -> None:
        ax.imshow(images[frame].squeeze(), cmap="gray", vmin=0, vmax=255)
        ax.set_axis_off()

    return draw


def _rays(_modality: Modality, scans: NDArray[Any]) -> _Draw:
    return lambda frame, ax: _draw_lidar(scans[frame], ax)


def _map(modality: Modality, maps: NDArray[Any]) -> _Draw:
    return lambda frame, ax: draw_map(modality, maps[frame], float(maps.max()), ax)


#: `ModalitySpec.picture` -> what draws a moment of it.
_PARTS: Mapping[str, Callable[[Modality, NDArray[Any]], _Draw]] = {"image": _image, "rays": _rays, "map": _map}
