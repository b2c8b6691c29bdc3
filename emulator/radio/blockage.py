"""Blockage model B of TR 38.901: loss of a path to boxes between two antennas, from their geometry.

A screen blocks a path by its four edges: seen from above, by the left and right one; from the side, by the upper and
lower one. Every edge contributes F = atan(+-(pi/2) sqrt(pi/wavelength * detour)) / pi, where the detour is how much
longer the way over the edge is, and the loss is -20 log10(1 - (F_h1 + F_h2) (F_w1 + F_w2)).

A vehicle is a box, cut at both ends of the leg of the path: what stands beyond an antenna or a reflection point does
not block. Its loss is the largest of three screens (`screens.py`): its outline across the path, and the two parallel
faces whose normals are closer to the path. A pedestrian is one screen, as wide as the mean of its two extents. All
screens are upright and turned around the vertical to face along the path. Losses of boxes add in dB.

Source: 3GPP TR 38.901 clause 7.6.4.2, equations (7.6-28) and (7.6-29). One difference: reflected paths end at
infinity there, because a stochastic channel has no geometry; ours end at the image of the antenna.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Kind, Scene
from .screens import box_screens
from .waves import Array, wavelength_m

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: A box whose loss is certainly smaller is skipped, so that most boxes need no square roots.
SKIPPED_BELOW_DB = 0.01
#: A box whose lower side is closer to the ground than this leaves no gap for the ground reflection.
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


@dataclass(frozen=True, slots=True, eq=False)
class _Views:
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

    def picked(self, index: Any) -> _Views:
        return _Views(*(getattr(self, name)[index] for name in self.__slots__))

    def place(self, x_m: Array, y_m: Array) -> tuple[Array, Array]:
        """[...] coordinates of a point in top view: along the line, and across it."""
        from_x, from_y = x_m - self.x_m, y_m - self.y_m
        return from_x * self.along_x + from_y * self.along_y, from_x * self.along_y - from_y * self.along_x


def screen_loss_db(start_m: Any, end_m: Any, center_m: Any, width_m: Any, height_m: Any, carrier_hz: float) -> Array:
    """Loss of one upright screen, turned to face along the path.

    Args:
        start_m, end_m: [..., 3] antennas, not one above the other.
        center_m: [..., 3] of the screen, between them.
        width_m, height_m: [...] of the screen.
        carrier_hz: sets the wavelength.

    Returns:
        [...] dB, at least 0; the same with the ends exchanged.
    """
    center = np.asarray(center_m, dtype=np.float64)
    views = _views(np.asarray(start_m, dtype=np.float64), np.asarray(end_m, dtype=np.float64))
    along, beside = views.place(center[..., 0], center[..., 1])
    half_width, half_height = np.asarray(width_m) / 2, np.asarray(height_m) / 2
    lower, upper = center[..., 2] - half_height, center[..., 2] + half_height
    return _loss_db(views, along, beside - half_width, beside + half_width, lower, upper, carrier_hz)


def segments_loss_db(segments: PathSegments, scene: Scene, carrier_hz: float) -> Array:
    """Loss of every box on every segment: [N, B] dB, 0 for boxes that are absent or carry the transmitter.

    Boxes whose loss is certainly below `SKIPPED_BELOW_DB` count 0.
    """
    boxes = _Boxes.of(scene, segments)
    views = _views(segments.start_m[:, None], segments.end_m[:, None])
    along, beside = views.place(boxes.x_m, boxes.y_m)
    half_outline = _half_outline_m(views, boxes)
    half_depth = 0.5 * (boxes.x_size_m * np.abs(views.along_x) + boxes.y_size_m * np.abs(views.along_y))
    matters = boxes.blocks & (along + half_depth > segments.first[:, None] * views.length_m)
    matters &= along - half_depth < segments.last[:, None] * views.length_m
    matters &= _may_cost(np.abs(beside), half_outline, views.length_m, carrier_hz)
    segment, box = np.nonzero(matters)
    loss_db = np.zeros(matters.shape)
    loss_db[segment, box] = _box_loss_db(
        views.picked((segment, 0)),
        boxes.picked((segment, box)),
        along[segment, box],
        beside[segment, box],
        segments.first[segment],
        segments.last[segment],
        carrier_hz,
    )
    return loss_db


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
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
    def of(cls, scene: Scene, segments: PathSegments) -> _Boxes:
        """The boxes of each segment's frame; absent ones, whose values are undefined, become points at the origin."""
        blocks = scene.present & (scene.kind != Kind.NONE) & (scene.kind != Kind.TARGET)
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
            is_screen=(scene.kind == Kind.PEDESTRIAN)[segments.frame],
        )

    def picked(self, index: Any) -> _Boxes:
        return _Boxes(*(getattr(self, name)[index] for name in self.__slots__))


def _views(start_m: Array, end_m: Array) -> _Views:
    across_x, across_y = end_m[..., 0] - start_m[..., 0], end_m[..., 1] - start_m[..., 1]
    length = np.hypot(across_x, across_y)
    safe = np.maximum(length, 1e-9)  # a vertical line has no direction in top view and crosses no screen
    return _Views(
        x_m=start_m[..., 0],
        y_m=start_m[..., 1],
        along_x=across_x / safe,
        along_y=across_y / safe,
        length_m=length,
        z_start_m=start_m[..., 2],
        z_end_m=end_m[..., 2],
    )


def _half_outline_m(views: _Views, boxes: _Boxes) -> Array:
    """[...] half width of the widest screen of a box."""
    # Projection of a rectangle with sides along the axes onto the direction across the path.
    outline = 0.5 * (boxes.x_size_m * np.abs(views.along_y) + boxes.y_size_m * np.abs(views.along_x))
    return np.asarray(np.where(boxes.is_screen, 0.25 * (boxes.x_size_m + boxes.y_size_m), outline))


def _may_cost(beside_m: Array, half_outline_m: Array, length_m: Array, carrier_hz: float) -> Mask:
    """Whether the loss of a box may reach `SKIPPED_BELOW_DB`; where False it certainly does not.

    With t the distance beside the line and z = (pi/2) sqrt(pi/wavelength * detour(t)), the share of the two sides is
    the integral of F' = z' / (pi (1 + z^2)) < z' / (pi z^2) over the box's outline. Since detour' / detour <= 2 / t and
    detour / t^2 falls with t, and is least for an edge half way, that is at most
    sqrt(wavelength / pi^5 * (sqrt(length^2 + 4 far^2) + length)) * (1 / near - 1 / far); the height's share is below 1.
    """
    largest_share = 1.0 - 10.0 ** (-SKIPPED_BELOW_DB / 20.0)
    near, far = beside_m - half_outline_m, beside_m + half_outline_m
    bound = wavelength_m(carrier_hz) / np.pi**5 * (np.sqrt(length_m**2 + 4.0 * far**2) + length_m)
    return np.asarray((near <= 0.0) | (bound * (far - near) ** 2 > (largest_share * near * far) ** 2))


def _box_loss_db(
    views: _Views, boxes: _Boxes, along_m: Array, beside_m: Array, first: Array, last: Array, carrier_hz: float
) -> Array:
    """[M] largest loss of the screens of a box, M pairs of a segment and a box."""
    corners = _corners(views, boxes, along_m, beside_m)
    worst = np.zeros_like(along_m)
    # The line beyond the ends of the segment, an antenna or a reflection point, is only a construction.
    for screens in box_screens(*corners, first * views.length_m, last * views.length_m):
        loss_db = _loss_db(
            views, screens.along_m, screens.left_m, screens.right_m, boxes.lower_m, boxes.upper_m, carrier_hz
        )
        np.maximum(worst, loss_db, out=worst, where=screens.stand)
    return worst


def _corners(views: _Views, boxes: _Boxes, along_m: Array, beside_m: Array) -> tuple[Array, Array]:
    """[M, 4] corners of boxes in turn, along the line and beside it; a pedestrian is flat, and faces along the line."""
    x_m, y_m = 0.5 * boxes.x_size_m[:, None] * _X_SIDES, 0.5 * boxes.y_size_m[:, None] * _Y_SIDES
    along_x, along_y = views.along_x[:, None], views.along_y[:, None]
    flat = boxes.is_screen[:, None]
    to_corner_along = np.where(flat, 0.0, x_m * along_x + y_m * along_y)
    to_corner_beside = np.where(flat, 0.5 * (np.abs(x_m) + np.abs(y_m)) * _X_SIDES, x_m * along_y - y_m * along_x)
    return along_m[:, None] + to_corner_along, beside_m[:, None] + to_corner_beside


def _loss_db(
    views: _Views, along_m: Array, left_m: Array, right_m: Array, lower_m: Array, upper_m: Array, carrier_hz: float
) -> Array:
    """[...] loss of screens at `along_m` whose sides lie at these distances beside the line and at these heights."""
    scale = np.pi / wavelength_m(carrier_hz)
    rest_m = views.length_m - along_m
    along_2, rest_2 = along_m**2, rest_m**2

    def beside(offset_m: Array) -> Array:
        detour = np.sqrt(along_2 + offset_m**2) + np.sqrt(rest_2 + offset_m**2) - views.length_m
        return _edge_share(detour, offset_m, scale)

    rise_m = views.z_end_m - views.z_start_m
    slant_m = np.sqrt(views.length_m**2 + rise_m**2)
    height_m = views.z_start_m + rise_m * along_m / np.maximum(views.length_m, 1e-9)

    def above(edge_m: Array) -> Array:
        detour = np.sqrt(along_2 + (edge_m - views.z_start_m) ** 2) - slant_m
        detour += np.sqrt(rest_2 + (edge_m - views.z_end_m) ** 2)
        return _edge_share(detour, edge_m - height_m, scale)

    share = (beside(right_m) - beside(left_m)) * (above(upper_m) - above(lower_m))
    return np.asarray(
        -20.0 * np.log10(1.0 - np.maximum(share, 0.0))
    )  # rounding can make the difference of two edges negative


def _edge_share(detour_m: Array, signed_side_m: Array, scale: float) -> Array:
    """F of an edge, signed by its side of the line, so that far minus near is correct in and beside a screen."""
    share = np.arctan(np.pi / 2 * np.sqrt(scale * np.maximum(detour_m, 0.0))) / np.pi
    return np.copysign(share, signed_side_m)
