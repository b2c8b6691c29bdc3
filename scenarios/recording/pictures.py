"""Pictures of a scene: seen from above, by the camera, by the LiDAR, and as beam powers over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITIES, MODALITY_SPECS, ConfigError, Modality
from ...emulator.whole_file import replacing
from ...emulator.world.scene import Array, Facade, Kind, Scene, blockers
from .sensor_panels import BLOCKED, CLEAR, draw_image, draw_map, draw_powers, letter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Row = Callable[[int, "Axes"], None]

#: Fill colors, near those that the camera sees.
KIND_COLORS = {
    Kind.CAR: "#3a62c4",
    Kind.VAN: "#f2f2ea",
    Kind.BUS: "#f0a71c",
    Kind.PEDESTRIAN: "#23894a",
    Kind.TARGET: "#c8201f",
    Kind.CROWN: "#8fbf7a",
    Kind.TRUNK: "#6b5138",
}
ROAD, PAVEMENT, OPEN_GROUND, WALL = "#b9b9bd", "#efebe3", "#e9efe0", "#8a7f72"
#: A facade is drawn this thick, and so much is shown around what matters.
WALL_M, MARGIN_M = 0.8, 1.5
#: At least this much of the street is shown to either side.
HALF_LENGTH_M = 18.0
#: A box slower than this has no arrow; arrows show where it is this much later.
STANDING_M_PER_S, ARROW_S = 0.3, 0.5
#: Boxes shorter than this are drawn as a cross: a drone seen from above would be a dot.
SMALL_M = 0.6


def draw_scene(scene: Scene, frame: int, ax: Axes) -> None:
    """One instant from above: x to the right, y away from the base station, in metres, to scale.

    The line of sight is blue, or vermillion and dashed where a box stands in it; that box gets a vermillion edge.

    Args:
        scene: F instants.
        frame: index of the drawn instant.
        ax: where to draw.
    """
    instant = scene.frames(slice(frame, frame + 1))
    half_m, lower_m, upper_m = _limits(scene)
    _draw_ground(scene, ax, half_m, lower_m, upper_m)
    blocks = blockers(instant)[0]
    for slot in np.flatnonzero(instant.present[0]):
        _draw_box(instant, int(slot), ax, bool(blocks[slot]))
    _draw_link(instant, ax, bool(blocks.any()))
    ax.set_xlim(scene.base_station_m[0] - half_m, scene.base_station_m[0] + half_m)
    ax.set_ylim(lower_m, upper_m)
    ax.set_aspect("equal")
    ax.set_xlabel("x along the street [m]" if scene.surroundings.kerbs_y_m else "x [m]")
    ax.set_ylabel("y across it [m]" if scene.surroundings.kerbs_y_m else "y [m]")


def draw_moments(
    scene: Scene,
    frames: Sequence[int],
    readings: Mapping[Modality, NDArray[Any]],
    *,
    blocked: NDArray[np.bool_] | None = None,
    user_pixels: Array | None = None,
    lidar_max_m: float | None = None,
    title: str = "",
) -> Figure:
    """A few moments of a recording side by side, and its beam powers below.

    Args:
        scene: F instants.
        frames: moments to show, two to four look best.
        readings: modality -> [F, ...] as recorded; `ModalitySpec.picture` says how each is drawn.
        blocked: [F] label that shades the powers; None: by geometry.
        user_pixels: [F, 2] column and row where the user is in the image, gets a ring; None: no ring.
        lidar_max_m: ranges from here on are no echoes; None: from the largest range on.
        title: title of the figure.

    Returns:
        A figure; `save_picture` writes it.

    Raises:
        ConfigError: no moment, one outside of the scene, or an array of another length than the scene.
    """
    from matplotlib.figure import Figure

    arrays: dict[str, NDArray[Any] | None] = {"blocked": blocked, "user_pixels": user_pixels}
    arrays |= {str(modality): values for modality, values in readings.items()}
    _check(scene, frames, {name: array for name, array in arrays.items() if array is not None})
    is_blocked = _is_blocked(scene) if blocked is None else np.asarray(blocked, dtype=np.bool_)
    # every panel is a function, so that heights are known before the figure is made
    rows: list[_Row] = [lambda frame, ax: draw_scene(scene, frame, ax)]
    shares, power = [_height_share(scene)], None
    for modality in (one for one in MODALITIES if one in readings):
        values, kind = readings[modality], MODALITY_SPECS[modality].picture
        if kind == "image":
            rows.append(_image_row(values, user_pixels, is_blocked))
            shares.append(0.85)
        elif kind == "rays":
            rows.append(_rays_row(scene, values, lidar_max_m))
            shares.append(_height_share(scene))
        elif kind == "map":
            rows.append(_map_row(modality, values))
            shares.append(0.85)
        elif kind == "powers":
            power = values
    # two panels for powers: the strongest beam above all beams
    shares += [0.25, 0.5] * (power is not None)
    figure = Figure(figsize=(4.6 * max(len(frames), 2), 4.4 * sum(shares) + 1.0), layout="constrained")
    grid = figure.add_gridspec(len(shares), len(frames), height_ratios=shares)
    for column, frame in enumerate(frames):
        drawn = [figure.add_subplot(grid[index, column]) for index in range(len(rows))]
        for draw, ax in zip(rows, drawn, strict=True):
            draw(frame, ax)
        state, color = ("blocked", BLOCKED) if is_blocked[frame] else ("clear", CLEAR)
        drawn[0].set_title(f"({letter(column)})  t = {scene.time_s[frame]:.1f} s, {state}", color=color, weight="bold")
    if power is not None:
        axes = [figure.add_subplot(grid[row, :]) for row in (-2, -1)]
        draw_powers(scene.time_s, frames, power, is_blocked, *axes)
    figure.legend(
        handles=_legend(scene, bool(is_blocked.any())),
        loc="outside lower center",
        ncols=5 if len(frames) < 3 else 9,
        frameon=False,
    )
    if title:
        figure.suptitle(title)
    return figure


def _image_row(images: NDArray[Any], user_pixels: Array | None, is_blocked: NDArray[np.bool_]) -> _Row:
    return lambda frame, ax: draw_image(images[frame], user_pixels, frame, bool(is_blocked[frame]), ax)


def _rays_row(scene: Scene, scans: NDArray[Any], max_m: float | None) -> _Row:
    far_m = float(np.max(scans[..., 0])) if max_m is None else max_m
    return lambda frame, ax: _draw_lidar(scene, frame, scans[frame], far_m, ax)


def _map_row(modality: Modality, maps: NDArray[Any]) -> _Row:
    return lambda frame, ax: draw_map(modality, maps[frame], float(maps.max()), ax)


def save_picture(figure: Figure, path: Any) -> None:
    """Writes a PNG, whole or not at all; needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    # the canvas registers itself with the figure; Agg draws without a display
    FigureCanvasAgg(figure)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110, format="png")


def _is_blocked(scene: Scene) -> NDArray[np.bool_]:
    """[F] whether a box stands in the line of sight."""
    return np.asarray(blockers(scene).any(axis=1))


def _check(scene: Scene, frames: Sequence[int], arrays: Mapping[str, NDArray[Any]]) -> None:
    if not frames:
        raise ConfigError("frames is empty; name at least one moment to draw")
    for frame in frames:
        if not 0 <= frame < len(scene):
            raise ConfigError(f"frames holds {frame}; the scene has {len(scene)} instants, counted from 0")
    for name, array in arrays.items():
        if len(array) != len(scene):
            raise ConfigError(f"{name} has {len(array)} instants and the scene {len(scene)}; draw equal stretches")


def _limits(scene: Scene) -> tuple[float, float, float]:
    """Half of the width to show, and the lowest and highest y, the same for every instant."""
    station_m, user_m = scene.base_station_m, scene.user_m
    y_m = [float(station_m[1]) - 1.0, float(user_m[:, 1].max()), float(user_m[:, 1].min())]
    reach_m = float(np.abs(user_m[:, 0] - station_m[0]).max()) + 2.0
    y_m += [wall.y_m for wall in scene.surroundings.facades]
    y_m += list(scene.surroundings.kerbs_y_m)
    above_m = MARGIN_M if scene.surroundings.kerbs_y_m else 0.1 * max(y_m)  # room for the height of a drone
    return max(HALF_LENGTH_M, reach_m), min(y_m) - MARGIN_M, max(y_m) + above_m


def _height_share(scene: Scene) -> float:
    """Height over width of the view from above, with room for its labels."""
    half_m, lower_m, upper_m = _limits(scene)
    return float(np.clip((upper_m - lower_m) / (2.0 * half_m) + 0.12, 0.5, 1.4))


def _draw_ground(scene: Scene, ax: Axes, half_m: float, lower_m: float, upper_m: float) -> None:
    around = scene.surroundings
    ax.axhspan(lower_m, upper_m, color=PAVEMENT if around.kerbs_y_m else OPEN_GROUND, zorder=0, lw=0)
    if around.kerbs_y_m:
        ax.axhspan(min(around.kerbs_y_m), max(around.kerbs_y_m), color=ROAD, zorder=0.5, lw=0)
        for kerb_m in around.kerbs_y_m:
            ax.axhline(kerb_m, color="#5c5c5c", lw=1.2, zorder=1)
    lanes_m = sorted(around.lanes_y_m)
    for one_m, other_m in pairwise(lanes_m):
        ax.axhline((one_m + other_m) / 2.0, color="white", lw=1.4, dashes=(6, 5), zorder=1)
    for wall in around.facades:
        _draw_wall(scene, wall, ax, half_m)


def _draw_wall(scene: Scene, wall: Facade, ax: Axes, half_m: float) -> None:
    from matplotlib.patches import Rectangle

    # drawn away from the base station, so that the surface that reflects stays in place
    ahead = 1.0 if wall.y_m > scene.base_station_m[1] else -1.0
    corner = (wall.x_min_m, min(wall.y_m, wall.y_m + ahead * WALL_M))
    ax.add_patch(
        Rectangle(corner, wall.x_max_m - wall.x_min_m, WALL_M, fc=WALL, ec="#4d453c", hatch="////", lw=0.8, zorder=1.5)
    )
    ax.text(
        float(scene.base_station_m[0]) - 0.97 * half_m,
        wall.y_m - ahead * 0.3,
        f"{wall.material} wall, {wall.height_m:.0f} m",
        va="top" if ahead > 0 else "bottom",
        fontsize=8,
        color="#4d453c",
        zorder=6,
    )


def _draw_box(instant: Scene, slot: int, ax: Axes, blocks: bool) -> None:
    from matplotlib.patches import FancyArrowPatch, Rectangle

    kind = Kind(int(instant.kind[0, slot]))
    (x_m, y_m), (length_m, width_m) = instant.center_m[0, slot, :2], instant.size_m[0, slot, :2]
    color, edge = KIND_COLORS.get(kind, "#777777"), BLOCKED if blocks else "black"
    if kind == Kind.TARGET and length_m < SMALL_M:
        ax.plot(x_m, y_m, marker="X", ms=11, mfc=color, mec="black", zorder=5)
        height = f"{instant.center_m[0, slot, 2]:.0f} m up"
        ax.annotate(height, (x_m, y_m), xytext=(0, 10), textcoords="offset points", ha="center", va="bottom", zorder=6)
    elif kind == Kind.PEDESTRIAN:
        ax.plot(x_m, y_m, marker="o", ms=7, mfc=color, mec=edge, mew=2.0 if blocks else 0.9, zorder=4.6)
    else:
        corner = (x_m - length_m / 2.0, y_m - width_m / 2.0)
        ax.add_patch(
            Rectangle(corner, length_m, width_m, fc=color, ec=edge, lw=2.2 if blocks else 0.9, zorder=3 + blocks)
        )
    velocity = instant.velocity_m_per_s[0, slot, :2]
    if np.linalg.norm(velocity) > STANDING_M_PER_S:
        ahead_m = velocity * ARROW_S + np.sign(velocity) * (np.abs(velocity) > STANDING_M_PER_S) * (
            np.array([length_m, width_m]) / 2.0
        )
        begin, end = (float(x_m), float(y_m)), (float(x_m + ahead_m[0]), float(y_m + ahead_m[1]))
        ax.add_patch(
            FancyArrowPatch(
                begin, end, arrowstyle="-|>", mutation_scale=12, shrinkA=0, shrinkB=0, fc="black", zorder=4.5
            )
        )


def _draw_link(instant: Scene, ax: Axes, is_blocked: bool) -> None:
    station_m, user_m = instant.base_station_m, instant.user_m[0]
    ax.plot(
        *np.stack([station_m[:2], user_m[:2]], axis=1),
        color=BLOCKED if is_blocked else CLEAR,
        ls="--" if is_blocked else "-",
        lw=2.0,
        zorder=4.2,
    )
    ax.plot(*station_m[:2], marker="^", ms=11, mfc="black", mec="white", zorder=6)
    # a user in a vehicle or on a drone is drawn as that box
    if not (instant.present[0] & (instant.kind[0] == Kind.TARGET)).any():
        ax.plot(*user_m[:2], marker="*", ms=14, mfc="#ffd800", mec="black", zorder=6)


def _draw_lidar(scene: Scene, frame: int, scan: NDArray[Any], far_m: float, ax: Axes) -> None:
    """Echoes over the outlines of the boxes; rays without an echo are left out."""
    from matplotlib.patches import Circle, Rectangle

    half_m, lower_m, upper_m = _limits(scene)
    x_m, y_m = (float(value) for value in scene.base_station_m[:2])
    for wall in scene.surroundings.facades:
        ax.plot([wall.x_min_m, wall.x_max_m], [wall.y_m, wall.y_m], color=WALL, lw=2.5, zorder=1)
    for slot in np.flatnonzero(scene.present[frame]):
        corner, size_m = scene.lower_m[frame, slot], scene.size_m[frame, slot]
        ax.add_patch(Rectangle(tuple(corner[:2]), *size_m[:2], fc="#dddddd", ec="#777777", lw=1.0, zorder=2))
    echo = scan[:, 0] < far_m
    range_m, azimuth_rad = scan[echo].T
    ax.add_patch(Circle((x_m, y_m), far_m, fill=False, ec="#999999", ls=":", lw=1.2, zorder=1))
    ax.scatter(x_m + range_m * np.sin(azimuth_rad), y_m + range_m * np.cos(azimuth_rad), s=9, c="#7b1fa2", zorder=4)
    _draw_link(scene.frames(slice(frame, frame + 1)), ax, bool(blockers(scene.frames([frame])).any()))
    ax.set_xlim(x_m - half_m, x_m + half_m)
    ax.set_ylim(lower_m, upper_m)
    ax.set_aspect("equal")
    ax.set_title(f"LiDAR, {echo.sum()} of {len(scan)} rays, reach {far_m:.0f} m (dotted)", fontsize=10)
    ax.set_xlabel("x [m]")
    ax.set_ylabel("y [m]")


def _legend(scene: Scene, is_blocked: bool) -> list[Any]:
    """What occurs in the scene, and the link."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [kind for kind in KIND_COLORS if (scene.present & (scene.kind == kind)).any()]
    handles: list[Any] = [Patch(fc=KIND_COLORS[kind], ec="black", label=kind.name.lower()) for kind in kinds]
    if Kind.TARGET not in kinds:
        handles.append(Line2D([], [], ls="", marker="*", ms=13, mfc="#ffd800", mec="black", label="user"))
    elif scene.size_m[scene.present & (scene.kind == Kind.TARGET), 0].max() < SMALL_M:
        color = KIND_COLORS[Kind.TARGET]
        handles[-1] = Line2D([], [], ls="", marker="X", ms=10, mfc=color, mec="black", label="user's drone")
    else:
        handles[-1].set_label("user's vehicle")
    handles += [
        Line2D([], [], ls="", marker="^", ms=10, mfc="black", mec="white", label="base station"),
        Line2D([], [], color=CLEAR, lw=2, label="line of sight"),
    ]
    if is_blocked:
        handles += [
            Line2D([], [], color=BLOCKED, lw=2, ls="--", label="blocked"),
            Patch(fc=BLOCKED, alpha=0.28, ec=BLOCKED, label="blocked stretch"),
        ]
    return handles
