"""Pictures of what sensors recorded, where nobody knows the scene: measured data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLEAR, BLOCKED = "#0f9d3a", "#d81e1e"
#: Beams weaker than the strongest of all by more than this look alike, in dB.
POWER_SPAN_DB = 40.0


def draw_recorded(
    time_s: NDArray[np.float64],
    moments: Sequence[int],
    *,
    images: NDArray[np.uint8] | None = None,
    lidar: NDArray[Any] | None = None,
    power: NDArray[Any] | None = None,
    blocked: NDArray[np.bool_] | None = None,
    title: str = "",
) -> Figure:
    """A few moments side by side, and the beam powers below.

    Args:
        time_s: [F] instants.
        moments: which of them to show.
        images: [F, rows, columns, 1 or 3].
        lidar: [F, n_rays, 2] range in m and angle in rad.
        power: [F, n_beams] linear, NaN where not measured.
        blocked: [F] label, shaded.
        title: above all.
    """
    from matplotlib.figure import Figure

    parts = [part for part in (images, lidar) if part is not None]
    heights = [1.0] * len(parts) + [0.3, 0.5] * (power is not None)
    figure = Figure(figsize=(4.6 * max(len(moments), 2), 4.0 * sum(heights) + 1.0), layout="constrained")
    grid = figure.add_gridspec(max(len(heights), 1), len(moments), height_ratios=heights or [1.0])
    for column, frame in enumerate(moments):
        state = "" if blocked is None else ", blocked" if blocked[frame] else ", clear"
        for row, part in enumerate(parts):
            ax = figure.add_subplot(grid[row, column])
            if part is images:
                ax.imshow(part[frame].squeeze(), cmap="gray", vmin=0, vmax=255)
                ax.set_axis_off()
            else:
                _draw_lidar(part[frame], ax)
            if row == 0:
                color = BLOCKED if state == ", blocked" else CLEAR if state else "black"
                ax.set_title(f"t = {time_s[frame]:.1f} s{state}", color=color, weight="bold")
    if power is not None:
        _draw_powers(time_s, moments, power, blocked, [figure.add_subplot(grid[row, :]) for row in (-2, -1)])
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


def _draw_powers(
    time_s: NDArray[np.float64],
    moments: Sequence[int],
    power: NDArray[Any],
    blocked: NDArray[np.bool_] | None,
    axes: Sequence[Axes],
) -> None:
    strongest_ax, beams_ax = axes
    power_db = 10.0 * np.log10(np.maximum(np.nan_to_num(power), float(np.nanmax(power)) * 1e-12))
    power_db -= power_db.max()
    beams = np.arange(power.shape[1])
    mesh = beams_ax.pcolormesh(time_s, beams, power_db.T, vmin=-POWER_SPAN_DB, vmax=0.0, shading="nearest")
    beams_ax.figure.colorbar(mesh, ax=list(axes), label="beam power [dB below the highest]", pad=0.01)
    strongest_ax.plot(time_s, power_db.max(axis=1), color="black", lw=1.3)
    if blocked is not None:
        strongest_ax.fill_between(
            time_s,
            0.0,
            1.0,
            where=blocked,
            color=BLOCKED,
            alpha=0.28,
            lw=0,
            transform=strongest_ax.get_xaxis_transform(),
        )
    for ax, color in ((strongest_ax, "black"), (beams_ax, "white")):
        ax.set_xlim(time_s[0], time_s[-1])
        for frame in moments:
            ax.axvline(time_s[frame], color=color, lw=1.2, ls="--")
    strongest_ax.set_ylabel("strongest\nbeam [dB]")
    beams_ax.set_ylabel("beam")
    beams_ax.set_xlabel("time [s]")
