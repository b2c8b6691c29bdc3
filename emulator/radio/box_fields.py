"""Complex field of a path past upright boxes, by Fresnel integrals around their edges.

The field goes past a box on its left, on its right and over it, each time past two edges in a row: the ends of the face
along the path, and of the roof where the path crosses it. What is left of the path is
1 - (1 - F_left - F_right) (1 - F_above - F_below), whose last term only boxes off the ground have, and images of boxes
in the ground. A box is cut at both ends of the leg of the path: what stands beyond an antenna or a reflection point
does not block. A pedestrian is one thin screen, whose edges coincide. Fields of boxes multiply.

Source: Kirchhoff's approximation for a screen, of which Babinet's principle takes the product of the two openings; two
edges for the thickness. Within 1.6 dB of a quadrature of the exact diffraction by cars, vans and buses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..world.scene import Scene
from .diffraction import Complex, EdgePair, field_past_edges
from .screens import box_screens, cut_edges
from .segments import STANDING_BELOW_M, Mask, NearBoxes, PathSegments, near_boxes
from .waves import Array, wavelength_m

#: Boxes beside a path are skipped from where the ripple of an edge changes it by less.
SKIPPED_RIPPLE_DB = 0.02
#: The roof that the field passes over is measured this far inside the outline of the box: about a Fresnel zone.
ROOF_INSET_M = 0.1


def segments_field(segments: PathSegments, scene: Scene, carrier_hz: float) -> Complex:
    """Field past every box on every segment, relative to free space: [N, B] complex.

    1 for boxes that are absent or carry the transmitter, and for those so far beside the segment that none of their
    edges changes the field by `SKIPPED_RIPPLE_DB`.
    """
    near = near_boxes(segments, scene, partial(_may_matter, carrier_hz=carrier_hz))
    field = np.ones((len(segments.frame), scene.present.shape[1]), dtype=np.complex128)
    field[near.segment, near.box] = _past_boxes(near, wavelength_m(carrier_hz))
    return field


def _may_matter(beside_m: Array, half_outline_m: Array, length_m: Array, carrier_hz: float) -> Mask:
    """Whether the nearer side of a box is on the line, or ripples by `SKIPPED_RIPPLE_DB`.

    Past an edge off the line the field differs from 1 by at most 1 / (sqrt(2) pi |v|). The detour is least for an edge
    half way.
    """
    largest_v = 1.0 / (np.sqrt(2.0) * np.pi * (1.0 - 10.0 ** (-SKIPPED_RIPPLE_DB / 20.0)))
    near = beside_m - half_outline_m
    detour_m = np.sqrt(length_m**2 + 4.0 * near**2) - length_m
    return np.asarray((near <= 0.0) | (detour_m < largest_v**2 * wavelength_m(carrier_hz) / 4.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Outline:
    """What the line meets of M boxes in top view, cut to the leg.

    Attributes:
        left_m, right_m: [M, 2, 2] ends of the faces along the line: (along, beside) of the first and of the second.
        roof_m: [M, 2] where the field enters the roof and leaves it, along the line.
        stand: [M] bool, anything of the box is on the leg.
    """

    left_m: Array
    right_m: Array
    roof_m: Array
    stand: Mask


def _past_boxes(near: NearBoxes, wave_m: float) -> Complex:
    """[M] complex field past the boxes of M pairs."""
    outline = _outline(near)
    level = np.zeros_like(near.along_m)

    def past(points_m: Array, rows: Mask | slice, start_up_m: Array, end_up_m: Array) -> Complex:
        (first_along, first_up), (second_along, second_up) = np.moveaxis(points_m, 0, -1)
        length_m = near.views.length_m[rows]
        return field_past_edges(
            EdgePair(start_up_m, end_up_m, length_m, first_along, first_up, second_along, second_up), wave_m
        )

    everywhere = slice(None)
    beside = past(outline.right_m, everywhere, level, level)
    beside += past(outline.left_m * (1.0, -1.0), everywhere, level, level)
    start_up, end_up = near.views.z_start_m, near.views.z_end_m
    above = past(_at_height(outline.roof_m, near.boxes.upper_m), everywhere, start_up, end_up)
    has_gap = np.abs(near.boxes.lower_m) >= STANDING_BELOW_M  # below 0 it is the image of a roof in the ground
    floor_m = _at_height(outline.roof_m, -near.boxes.lower_m)[has_gap]
    above[has_gap] += past(floor_m, has_gap, -start_up[has_gap], -end_up[has_gap])
    return np.asarray(np.where(outline.stand, 1.0 - (1.0 - beside) * (1.0 - above), 1.0))


def _at_height(along_m: Array, up_m: Array) -> Array:
    """[M, 2, 2] the two places [M, 2] along the line at a height [M]."""
    return np.stack([along_m, np.broadcast_to(up_m[:, None], along_m.shape)], axis=-1)


def _outline(near: NearBoxes) -> _Outline:
    along_m, beside_m = near.corners()
    begin_m, finish_m = near.begin_m, near.finish_m
    edges = cut_edges(along_m, beside_m, begin_m[:, None], finish_m[:, None])
    screen = box_screens(along_m, beside_m, begin_m, finish_m)[0]
    # The faces along the line: those across y where it runs along x, and those across x otherwise.
    first = np.where(np.abs(near.views.along_x) >= np.abs(near.views.along_y), 0, 1)
    rows = np.arange(len(along_m))
    middle_m = beside_m + np.roll(beside_m, -1, axis=1)
    is_right = middle_m[rows, first] > middle_m[rows, first + 2]
    ends_m = np.stack([np.stack(edges.along_m, axis=-1), np.stack(edges.beside_m, axis=-1)], axis=-1)  # [M, 4, 2, 2]
    # Of a pedestrian, and of a box whose face lies beyond the leg, one edge is left: that of its outline.
    whole = edges.left_over & ~near.boxes.is_screen[:, None]

    def side(face: Array, side_m: Array) -> Array:
        edge_m = np.stack([screen.along_m, np.where(screen.stand, side_m, 0.0)], axis=-1)[:, None]
        found_m = np.where(whole[rows, face][:, None, None], ends_m[rows, face], edge_m)
        backwards = found_m[:, 0, 0] > found_m[:, 1, 0]
        found_m[backwards] = found_m[backwards, ::-1]
        return found_m

    right = np.where(is_right, first, first + 2)
    return _Outline(
        left_m=side(2 * first + 2 - right, screen.left_m),
        right_m=side(right, screen.right_m),
        roof_m=_roof_m(along_m, beside_m, near, screen.along_m),
        stand=screen.stand,
    )


def _roof_m(along_m: Array, beside_m: Array, near: NearBoxes, nearest_m: Array) -> Array:
    """[M, 2] where the field enters and leaves the roofs: on the line, or on its parallel just inside of the box."""
    half_m = 0.5 * (beside_m.max(axis=1) - beside_m.min(axis=1))
    inset_m = np.minimum(ROOF_INSET_M, half_m)
    parallel_m = np.clip(0.0, beside_m.min(axis=1) + inset_m, beside_m.max(axis=1) - inset_m)
    off_m = beside_m - parallel_m[:, None]
    next_off_m, next_along_m = np.roll(off_m, -1, axis=1), np.roll(along_m, -1, axis=1)
    crosses = np.signbit(off_m) != np.signbit(next_off_m)
    across_m = np.where(crosses, off_m - next_off_m, 1.0)
    begin_m, finish_m = near.begin_m[:, None], near.finish_m[:, None]
    crossing_m = np.clip(along_m + off_m / across_m * (next_along_m - along_m), begin_m, finish_m)
    enters_m = np.where(crosses, crossing_m, finish_m).min(axis=1)
    leaves_m = np.where(crosses, crossing_m, begin_m).max(axis=1)
    none = enters_m >= leaves_m  # thin, or the leg ends beside it
    return np.stack([np.where(none, nearest_m, enters_m), np.where(none, nearest_m, leaves_m)], axis=-1)
