"""Panels of single sensors: an image, a map of two axes, and beam powers over time; and pictures made of them.

`draw_recorded` needs no scene, so it also draws measured data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITIES, MODALITY_SPECS, Modality
from ...emulator.world.scene import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue and vermillion: apart for every color vision; what is blocked is dashed, shaded or named as well.
CLEAR, BLOCKED = "#0072b2", "#d55e00"
#: Beams weaker than the strongest of all by more than this look alike, in dB.
POWER_SPAN_DB = 40.0
_Draw = Callable[[int, "Axes"], None]


def draw_image(image: NDArray[np.uint8], user_pixels: Array | None, frame: int, is_blocked: bool, ax: Axes) -> None:
    """An image, with a ring where the user is: blue when in sight, else vermillion and dashed."""
    ax.imshow(image, cmap="gray" if image.ndim == 2 else None, vmin=0, vmax=255, interpolation="nearest")
    where = ""
    if user_pixels is not None:
        # The middle of the first pixel is 0 here, and 0.5 where pixels are counted from the image's edge.
        column, row = user_pixels[frame] - 0.5
        for color, width in (("white", 4.0), (BLOCKED if is_blocked else CLEAR, 2.0)):
            ax.plot(column, row, "o", ms=15, mfc="none", mec=color, mew=width)
        ax.set_xlim(-0.5, image.shape[1] - 0.5)
        ax.set_ylim(image.shape[0] - 0.5, -0.5)
        where = ", ring: the user"
    ax.set_title(f"camera, {image.shape[1]} x {image.shape[0]} pixels{where}", fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])


def draw_map(modality: Modality, values: NDArray[Any], highest: float, ax: Axes) -> None:
    """A frame with two axes as colors, from 0 to the highest value of the picture."""
    spec = MODALITY_SPECS[modality]
    rows, columns = spec.axes
    mesh = ax.pcolormesh(values, vmin=0.0, vmax=highest, cmap="magma")
    ax.figure.colorbar(mesh, ax=ax, label=spec.unit, pad=0.01)
    ax.set_title(f"{spec.title}, {values.shape[0]} x {values.shape[1]}", fontsize=10)
    ax.set_xlabel(f"{columns}, index")
    ax.set_ylabel(f"{rows}, index")


def draw_powers(
    time_s: Array,
    frames: Sequence[int],
    power: NDArray[Any],
    blocked: NDArray[np.bool_] | None,
    strongest_ax: Axes,
    beams_ax: Axes,
) -> None:
    """The strongest beam as a line over shaded blocked stretches; below, every beam as a row of colors."""
    # a floor 120 dB below the strongest beam: unmeasured beams have no logarithm
    power_db = 10.0 * np.log10(np.maximum(np.nan_to_num(power), np.nanmax(power) * 1e-12))
    power_db -= power_db.max()
    edges_s = _edges(time_s)
    best_db = power_db.max(axis=1)
    strongest_ax.plot(time_s, best_db, color="black", lw=1.3)
    strongest_ax.set_ylim(min(float(best_db.min()) - 2.0, -10.0), 2.0)
    strongest_ax.set_ylabel("strongest\nbeam [dB]")
    strongest_ax.tick_params(labelbottom=False)
    strongest_ax.grid(alpha=0.3)
    mesh = beams_ax.pcolormesh(
        edges_s, np.arange(power.shape[1] + 1) - 0.5, power_db.T, vmin=-POWER_SPAN_DB, vmax=0.0, cmap="viridis"
    )
    beams_ax.figure.colorbar(mesh, ax=[strongest_ax, beams_ax], label="beam power [dB below the highest]", pad=0.01)
    beams_ax.set_xlabel("time [s]")
    beams_ax.set_ylabel("beam")
    for begin, end in _stretches(np.zeros(len(power), dtype=np.bool_) if blocked is None else blocked):
        strongest_ax.axvspan(edges_s[begin], edges_s[end], fc=BLOCKED, alpha=0.28, lw=0)
        beams_ax.plot(
            [edges_s[begin], edges_s[end]], [power.shape[1] - 1] * 2, color=BLOCKED, lw=5, solid_capstyle="butt"
        )
    for column, frame in enumerate(frames):
        strongest_ax.axvline(time_s[frame], color="black", lw=1.2, ls="--")
        beams_ax.axvline(time_s[frame], color="white", lw=1.2, ls="--")
        strongest_ax.annotate(
            f"({letter(column)})",
            (time_s[frame], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            weight="bold",
        )
    for ax in (strongest_ax, beams_ax):
        ax.set_xlim(edges_s[0], edges_s[-1])


def _edges(time_s: Array) -> Array:
    """[F + 1] borders between instants [F]."""
    middles = (time_s[1:] + time_s[:-1]) / 2.0
    step_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.1
    return np.concatenate([[time_s[0] - step_s / 2.0], middles, [time_s[-1] + step_s / 2.0]])


def _stretches(blocked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past the last instant of every blocked stretch."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], blocked, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in changes.reshape(-1, 2)]


def letter(column: int) -> str:
    """Name of a moment: a, b, c, ..."""
    return chr(ord("a") + column % 26)


def draw_recorded(
    time_s: NDArray[np.float64],
    moments: Sequence[int],
    readings: Mapping[Modality, NDArray[Any]],
    *,
    blocked: NDArray[np.bool_] | None = None,
    lidar_max_m: float = np.inf,
    title: str = "",
) -> Figure:
    """A few moments side by side, and the beam powers below.

    Args:
        time_s: [F] instants.
        moments: which of them to show.
        readings: modality -> [F, ...] as recorded; `ModalitySpec.picture` says how each is drawn.
        blocked: [F] label, shaded.
        lidar_max_m: ranges from here on are no echoes.
        title: title of the figure.
    """
    from matplotlib.figure import Figure

    parts: list[_Draw] = []
    power = None
    for modality in (one for one in MODALITIES if one in readings):
        values, kind = readings[modality], MODALITY_SPECS[modality].picture
        if kind == "powers":
            power = values
        elif kind == "rays":
            parts.append(_rays(values, lidar_max_m))
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


def _draw_lidar(scan: NDArray[Any], far_m: float, ax: Axes) -> None:
    range_m, angle_rad = scan.T
    echo = range_m < far_m
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


def _rays(scans: NDArray[Any], far_m: float) -> _Draw:
    return lambda frame, ax: _draw_lidar(scans[frame], far_m, ax)


def _map(modality: Modality, maps: NDArray[Any]) -> _Draw:
    return lambda frame, ax: draw_map(modality, maps[frame], float(maps.max()), ax)


#: `ModalitySpec.picture` -> what draws a moment of it from the values alone.
_PARTS: Mapping[str, Callable[[Modality, NDArray[Any]], _Draw]] = {"image": _image, "map": _map}
