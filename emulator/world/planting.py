"""Trees of a street as boxes that stand still, which all sensors see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .scene import Array, Kind, Scene
from .trees import NO_TREES, Trees


def planted(scene: Scene, trees: Trees, kerb_y_m: float, middle_x_m: float, reach_m: float) -> Scene:
    """The scene with trees along a kerb, in slots behind those that it has.

    Args:
        scene: F instants.
        trees: what is planted.
        kerb_y_m: edge of the roadway that they stand behind.
        middle_x_m: two trees stand half a step to either side of it.
        reach_m: trees stand where |x| is below this.
    """
    if trees.spacing_m == 0.0:
        return scene
    steps = np.arange(np.ceil(-(reach_m + middle_x_m) / trees.spacing_m) - 1, (reach_m - middle_x_m) / trees.spacing_m)
    x_m = middle_x_m + (steps + 0.5) * trees.spacing_m
    x_m = x_m[np.abs(x_m) < reach_m]
    y_m, bottom_m, top_m = kerb_y_m + trees.setback_m, trees.crown_bottom_m, trees.crown_top_m
    boxes = [_column(x_m, y_m, (bottom_m, top_m), trees.crown_width_m, Kind.CROWN)]
    if trees.trunk_width_m and bottom_m:
        boxes.append(_column(x_m, y_m, (0.0, bottom_m), trees.trunk_width_m, Kind.TRUNK))
    center_m, size_m, kind = (np.concatenate(parts) for parts in zip(*boxes, strict=True))
    frames = len(scene)
    return replace(
        scene,
        center_m=np.concatenate([scene.center_m, np.tile(center_m, (frames, 1, 1))], axis=1),
        size_m=np.concatenate([scene.size_m, np.tile(size_m, (frames, 1, 1))], axis=1),
        surroundings=replace(scene.surroundings, trees=trees),
        velocity_m_per_s=np.concatenate([scene.velocity_m_per_s, np.zeros((frames, *center_m.shape))], axis=1),
        kind=np.concatenate([scene.kind, np.tile(kind, (frames, 1))], axis=1),
        present=np.concatenate([scene.present, np.ones((frames, len(kind)), dtype=np.bool_)], axis=1),
    )


def without_trees(scene: Scene) -> Scene:
    """The scene as it was before `planted`; what stays keeps its slots."""
    if scene.surroundings.trees == NO_TREES:
        return scene
    kept = slice(0, int((~np.isin(scene.kind[0], (Kind.CROWN, Kind.TRUNK))).sum()))  # trees stand in the last slots
    return replace(
        scene,
        surroundings=replace(scene.surroundings, trees=NO_TREES),
        center_m=scene.center_m[:, kept],
        size_m=scene.size_m[:, kept],
        velocity_m_per_s=scene.velocity_m_per_s[:, kept],
        kind=scene.kind[:, kept],
        present=scene.present[:, kept],
    )


def _column(
    x_m: Array, y_m: float, heights_m: tuple[float, float], width_m: float, kind: Kind
) -> tuple[Array, Array, Array]:
    """[n, 3] centers, [n, 3] sizes and [n] kind of one box per tree."""
    low_m, high_m = heights_m
    middle_m = np.full_like(x_m, (low_m + high_m) / 2.0)
    center_m = np.stack([x_m, np.full_like(x_m, y_m), middle_m], axis=-1)
    return center_m, np.tile([width_m, width_m, high_m - low_m], (len(x_m), 1)), np.full(len(x_m), kind, dtype=np.uint8)
