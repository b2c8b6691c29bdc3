"""Boxes near straight segments of paths, in top view: what both models of blockage start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Kind, Scene
from .waves import Array

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Models of blockage by boxes: complex Fresnel integrals, or the arctangents of TR 38.901.
BlockageModel = Literal["fresnel", "3gpp_b"]
#: Whether boxes may matter, from [...] distances beside the line, half outlines and lengths of the line.
MayMatter = Callable[[Array, Array, Array], Mask]

#: A box whose lower side is closer to the ground than this leaves no gap below.
STANDING_BELOW_M = 0.3
#: Sides of the corners of a box, in turn.
_X_SIDES, _Y_SIDES = np.array([-1.0, 1.0, 1.0, -1.0]), np.array([-1.0, -1.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True, eq=False)
class PathSegments:
    """Straight segments of N paths, each on the unfolded line of its path, with reflections undone.

    Attributes:
        frame, path: [N] frame and path index; a pair occurs once.
        start_m, end_m: [N, 3] ends of the unfolded line.
        first, last: [N] shares of that line between which the segment lies, 0 to 1.
        mirror_box: [N] box slot that reflects this path and so does not block it; -1: none.
        over_ground: [N] bool, the path that the ground reflects.
    """

    frame: Index
    path: Index
    start_m: Array
    end_m: Array
    first: Array
    last: Array
    mirror_box: Index
    over_ground: Mask

    @classmethod
    def joined(cls, parts: Sequence[PathSegments]) -> PathSegments:
        """The segments of several groups of paths as one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Lines in top view and side view: start, direction and length.

    Attributes:
        x_m, y_m: [...] first end; along_x, along_y: [...] unit vector seen from above; length_m: [...] seen from above.
        z_start_m, z_end_m: [...] heights of the ends.
    """

    x_m: Array
    y_m: Array
    along_x: Array
    along_y: Array
    length_m: Array
    z_start_m: Array
    z_end_m: Array

    def picked(self, index: Any) -> Views:
        return Views(*(getattr(self, name)[index] for name in self.__slots__))

    def place(self, x_m: Array, y_m: Array) -> tuple[Array, Array]:
        """[...] coordinates of a point in top view: along the line, and across it."""
        from_x, from_y = x_m - self.x_m, y_m - self.y_m
        return from_x * self.along_x + from_y * self.along_y, from_x * self.along_y - from_y * self.along_x


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Boxes of the frame of each segment, [N, B] each: centers and sizes in top view, lower and upper side, roles."""

    x_m: Array
    y_m: Array
    x_size_m: Array
    y_size_m: Array
    lower_m: Array
    upper_m: Array
    blocks: Mask
    is_screen: Mask

    @classmethod
    def of(cls, scene: Scene, segments: PathSegments) -> Boxes:
        """The boxes of each segment's frame; absent ones, whose values are undefined, become points at the origin."""
        blocks = scene.present & ~np.isin(scene.kind, (Kind.NONE, Kind.TARGET, Kind.CROWN))
        center = np.where(blocks[..., None], scene.center_m, 0.0)
        size = np.where(blocks[..., None], scene.size_m, 0.0)
        lower, upper = center[..., 2] - size[..., 2] / 2, center[..., 2] + size[..., 2] / 2
        lower, upper = lower[segments.frame], upper[segments.frame]
        # on the unfolded line of the ground reflection, a box that stands on the ground and its image form one box
        with_image = segments.over_ground[:, None] & (lower < STANDING_BELOW_M)
        return cls(
            x_m=center[..., 0][segments.frame],
            y_m=center[..., 1][segments.frame],
            x_size_m=size[..., 0][segments.frame],
            y_size_m=size[..., 1][segments.frame],
            lower_m=np.where(with_image, -upper, lower),
            upper_m=upper,
            blocks=blocks[segments.frame] & (segments.mirror_box[:, None] != np.arange(blocks.shape[1])),
            is_screen=np.isin(scene.kind, (Kind.PEDESTRIAN, Kind.TRUNK))[segments.frame],
        )

    def picked(self, index: Any) -> Boxes:
        return Boxes(*(getattr(self, name)[index] for name in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class NearBoxes:
    """M pairs of a segment and a box that may matter to it; distances along the line begin at its start.

    Attributes:
        segment, box: [M] indices of the pair.
        views, boxes: line and box of each pair, [M] each.
        along_m, beside_m: [M] centers of the boxes, along the line and beside it.
        begin_m, finish_m: [M] ends of the segment along the line.
    """

    segment: Index
    box: Index
    views: Views
    boxes: Boxes
    along_m: Array
    beside_m: Array
    begin_m: Array
    finish_m: Array

    def corners(self) -> tuple[Array, Array]:
        """[M, 4] corners in turn, along the line and beside it; a pedestrian is flat, and faces along the line."""
        views, boxes = self.views, self.boxes
        x_m, y_m = 0.5 * boxes.x_size_m[:, None] * _X_SIDES, 0.5 * boxes.y_size_m[:, None] * _Y_SIDES
        along_x, along_y = views.along_x[:, None], views.along_y[:, None]
        flat = boxes.is_screen[:, None]
        to_corner_along = np.where(flat, 0.0, x_m * along_x + y_m * along_y)
        to_corner_beside = np.where(flat, 0.5 * (np.abs(x_m) + np.abs(y_m)) * _X_SIDES, x_m * along_y - y_m * along_x)
        return self.along_m[:, None] + to_corner_along, self.beside_m[:, None] + to_corner_beside


def near_boxes(segments: PathSegments, scene: Scene, may_matter: MayMatter) -> NearBoxes:
    """Boxes beside the segments that are neither absent nor the carrier of the transmitter, and that may matter."""
    boxes = Boxes.of(scene, segments)
    views = line_views(segments.start_m[:, None], segments.end_m[:, None])
    along, beside = views.place(boxes.x_m, boxes.y_m)
    half_outline = _half_outline_m(views, boxes)
    half_depth = 0.5 * (boxes.x_size_m * np.abs(views.along_x) + boxes.y_size_m * np.abs(views.along_y))
    matters = boxes.blocks & (along + half_depth > segments.first[:, None] * views.length_m)
    matters &= along - half_depth < segments.last[:, None] * views.length_m
    matters &= may_matter(np.abs(beside), half_outline, views.length_m)
    segment, box = np.nonzero(matters)
    picked = views.picked((segment, 0))
    return NearBoxes(
        segment=segment,
        box=box,
        views=picked,
        boxes=boxes.picked((segment, box)),
        along_m=along[segment, box],
        beside_m=beside[segment, box],
        begin_m=segments.first[segment] * picked.length_m,
        finish_m=segments.last[segment] * picked.length_m,
    )


def line_views(start_m: Array, end_m: Array) -> Views:
    """Lines between points [..., 3]."""
    across_x, across_y = end_m[..., 0] - start_m[..., 0], end_m[..., 1] - start_m[..., 1]
    length = np.hypot(across_x, across_y)
    safe = np.maximum(length, 1e-9)  # a vertical line has no direction in top view and crosses no screen
    return Views(
        x_m=start_m[..., 0],
        y_m=start_m[..., 1],
        along_x=across_x / safe,
        along_y=across_y / safe,
        length_m=length,
        z_start_m=start_m[..., 2],
        z_end_m=end_m[..., 2],
    )


def _half_outline_m(views: Views, boxes: Boxes) -> Array:
    """[...] half width of the widest screen of a box."""
    # Projection of a rectangle with sides along the axes onto the direction across the path.
    outline = 0.5 * (boxes.x_size_m * np.abs(views.along_y) + boxes.y_size_m * np.abs(views.along_x))
    return np.asarray(np.where(boxes.is_screen, 0.25 * (boxes.x_size_m + boxes.y_size_m), outline))
