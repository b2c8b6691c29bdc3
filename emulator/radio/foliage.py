"""Loss of paths through leaves."""

from __future__ import annotations

import numpy as np

from ..world.scene import Kind, Scene
from ..world.trees import Trees
from .segments import PathSegments
from .waves import Array


def foliage_db(depth_m: Array, trees: Trees) -> Array:
    """Loss behind so much foliage: [...] m -> [...] dB, A (1 - e^(-d g / A)), g per metre and A at most.

    Source: Recommendation ITU-R P.833-9, equation (1).
    """
    if trees.most_db == 0.0:
        return np.zeros_like(depth_m)
    return np.asarray(trees.most_db * -np.expm1(-depth_m * trees.db_per_m / trees.most_db))


def depth_in_crowns_m(scene: Scene, segments: PathSegments) -> Array:
    """[N] metres that segments run through crowns, which stand where they stand in the first instant."""
    crowns = np.flatnonzero(scene.present[0] & (scene.kind[0] == Kind.CROWN))
    line_m = segments.end_m - segments.start_m
    begin_m = segments.start_m + line_m * segments.first[:, None]
    way_m = line_m * (segments.last - segments.first)[:, None]
    slab_m = np.where(way_m == 0.0, 1e-12, way_m)[:, None]  # a line along a face would divide 0 by 0
    one = (scene.lower_m[0, crowns] - begin_m[:, None]) / slab_m
    other = (scene.upper_m[0, crowns] - begin_m[:, None]) / slab_m
    enters = np.maximum(np.minimum(one, other).max(axis=-1), 0.0)
    leaves = np.minimum(np.maximum(one, other).min(axis=-1), 1.0)
    inside = np.maximum(leaves - enters, 0.0).sum(axis=-1)
    return np.asarray(inside * np.sqrt((way_m**2).sum(axis=-1)))
