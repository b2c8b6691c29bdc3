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

from functools import partial
from typing import Any

import numpy as np

from ..world.scene import Scene
from .screens import box_screens
from .segments import Mask, NearBoxes, PathSegments, Views, line_views, near_boxes
from .waves import Array, wavelength_m

#: A box whose loss is certainly smaller is skipped, so that most boxes need no square roots.
SKIPPED_BELOW_DB = 0.01


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
    views = line_views(np.asarray(start_m, dtype=np.float64), np.asarray(end_m, dtype=np.float64))
    along, beside = views.place(center[..., 0], center[..., 1])
    half_width, half_height = np.asarray(width_m) / 2, np.asarray(height_m) / 2
    lower, upper = center[..., 2] - half_height, center[..., 2] + half_height
    return _loss_db(views, along, beside - half_width, beside + half_width, lower, upper, carrier_hz)


def segments_loss_db(segments: PathSegments, scene: Scene, carrier_hz: float) -> Array:
    """Loss of every box on every segment: [N, B] dB, 0 for boxes that are absent or carry the transmitter.

    Boxes whose loss is certainly below `SKIPPED_BELOW_DB` count 0.
    """
    near = near_boxes(segments, scene, partial(_may_cost, carrier_hz=carrier_hz))
    loss_db = np.zeros((len(segments.frame), scene.present.shape[1]))
    loss_db[near.segment, near.box] = _box_loss_db(near, carrier_hz)
    return loss_db


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


def _box_loss_db(near: NearBoxes, carrier_hz: float) -> Array:
    """[M] largest loss of the screens of a box, M pairs of a segment and a box."""
    boxes = near.boxes
    worst = np.zeros_like(near.along_m)
    # The line beyond the ends of the segment, an antenna or a reflection point, is only a construction.
    for screens in box_screens(*near.corners(), near.begin_m, near.finish_m):
        loss_db = _loss_db(
            near.views, screens.along_m, screens.left_m, screens.right_m, boxes.lower_m, boxes.upper_m, carrier_hz
        )
        np.maximum(worst, loss_db, out=worst, where=screens.stand)
    return worst


def _loss_db(
    views: Views, along_m: Array, left_m: Array, right_m: Array, lower_m: Array, upper_m: Array, carrier_hz: float
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
