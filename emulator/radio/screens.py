"""Screens that stand for a box on a straight leg of a path: only what lies between the ends of the leg counts.

All is in top view, in coordinates along the line and beside it. The box is cut at both ends of the leg first, because
a long vehicle that stands slantwise beyond an antenna, projected onto the line as a whole, would reach across it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .waves import Array

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Screens:
    """M upright screens that face along their line.

    Attributes:
        along_m: [M] where on the line they stand.
        left_m, right_m: [M] sides, as distances beside the line; left is the lower number.
        stand: [M] bool, there is such a screen; the rest is undefined where not.
    """

    along_m: Array
    left_m: Array
    right_m: Array
    stand: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The four edges of M boxes, cut to the leg: [M, 4] their ends along and beside the line, whether any is left."""

    along_m: tuple[Array, Array]
    beside_m: tuple[Array, Array]
    left_over: Mask


def box_screens(along_m: Array, beside_m: Array, near_m: Array, far_m: Array) -> tuple[Screens, Screens, Screens]:
    """Screens of upright boxes: the outline of the part between the ends of the leg, and its two broader faces.

    A screen stands where the line passes through the part, in the middle of that, or through the face; where it passes
    beside them, at their nearest point. So the line crosses a screen only if it crosses the box between the ends.

    Args:
        along_m, beside_m: [M, 4] corners of the boxes in turn, along the line and beside it.
        near_m, far_m: [M] ends of the leg along the line.

    Returns:
        [M] screens of the outline, and of either face of the broader pair.
    """
    edges = cut_edges(along_m, beside_m, near_m[:, None], far_m[:, None])
    sides = np.stack(edges.beside_m)
    outline = Screens(
        along_m=_passage_m(along_m, beside_m, near_m, far_m, edges),
        left_m=sides.min(axis=(0, 2), where=edges.left_over, initial=np.inf),
        right_m=sides.max(axis=(0, 2), where=edges.left_over, initial=-np.inf),
        stand=np.asarray(edges.left_over.any(axis=1)),
    )
    first_pair = np.abs(beside_m[:, 1] - beside_m[:, 0]) >= np.abs(beside_m[:, 2] - beside_m[:, 1])
    rows, number = np.arange(len(along_m)), np.where(first_pair, 0, 1)
    return outline, _face(edges, (rows, number)), _face(edges, (rows, number + 2))


def cut_edges(along_m: Array, beside_m: Array, near_m: Array, far_m: Array) -> Edges:
    """The edges of boxes with corners [M, 4], cut at the ends [M, 1] of the leg."""
    along, next_along = along_m, np.roll(along_m, -1, axis=1)
    beside, next_beside = beside_m, np.roll(beside_m, -1, axis=1)
    # an edge across the line is not cut: its ends are its ends
    span = next_along - along
    slope = (next_beside - beside) / np.where(span == 0.0, np.inf, span)
    first, second = np.clip(along, near_m, far_m), np.clip(next_along, near_m, far_m)
    # what only touches an end from outside blocks nothing
    left_over = (np.maximum(along, next_along) > near_m) & (np.minimum(along, next_along) < far_m)
    return Edges(
        (first, second), (beside + (first - along) * slope, next_beside + (second - next_along) * slope), left_over
    )


def _face(edges: Edges, index: Any) -> Screens:
    (begin_m, end_m), (one_m, other_m) = (tuple(end[index] for end in ends) for ends in (edges.along_m, edges.beside_m))
    return Screens(
        along_m=_closest_m(begin_m, end_m, one_m, other_m),
        left_m=np.minimum(one_m, other_m),
        right_m=np.maximum(one_m, other_m),
        stand=edges.left_over[index],
    )


def _closest_m(begin_m: Array, end_m: Array, one_m: Array, other_m: Array) -> Array:
    """Where along the line an edge crosses it or comes closest to it, from its ends along the line and beside it."""
    across_m = one_m - other_m
    parallel = across_m == 0.0
    share = np.clip(np.where(parallel, 0.5, one_m / np.where(parallel, 1.0, across_m)), 0.0, 1.0)
    return np.asarray(begin_m + share * (end_m - begin_m))


def _passage_m(along_m: Array, beside_m: Array, near_m: Array, far_m: Array, edges: Edges) -> Array:
    """[M] middle of the line's way through a box between the ends; where it passes by, place of the nearest corner."""
    next_along_m, next_beside_m = np.roll(along_m, -1, axis=1), np.roll(beside_m, -1, axis=1)
    crosses = np.signbit(beside_m) != np.signbit(next_beside_m)
    crossing_m = np.clip(_closest_m(along_m, next_along_m, beside_m, next_beside_m), near_m[:, None], far_m[:, None])
    enters_m = np.where(crosses, crossing_m, far_m[:, None]).min(axis=1)
    leaves_m = np.where(crosses, crossing_m, near_m[:, None]).max(axis=1)
    corners_m = np.concatenate(edges.along_m, axis=1)
    off_m = np.where(np.tile(edges.left_over, 2), np.abs(np.concatenate(edges.beside_m, axis=1)), np.inf)
    nearest_m = corners_m[np.arange(len(corners_m)), off_m.argmin(axis=1)]
    return np.asarray(np.where(enters_m < leaves_m, (enters_m + leaves_m) / 2.0, nearest_m))
