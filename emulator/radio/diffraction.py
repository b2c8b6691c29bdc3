"""Complex field past the edges of obstacles, by Fresnel integrals: one edge, and two in a row.

An edge is described by v, with |v| = 2 sqrt(detour / wavelength): the detour is how much longer the way over the edge
is than the straight one, and v is above 0 where the edge stands in the straight way. Fields are relative to that of
free space, with phases as in e^(-j k r). Detours, not heights, carry the phases, so wide angles keep theirs.

Source: ITU-R P.526-15, 4.1, v and the field past one edge. Two edges in a row: the double Fresnel integral of G.
Millington, R. Hewitt and F. S. Immirzi, Double knife-edge diffraction in field-strength predictions, Proc. IEE 109C,
1962, here as two integrals over an angle like those of Owen's T function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import fresnel

from .waves import Array

Complex = NDArray[np.complex128]

#: Grid of the table of the wedge integral: nodes per axis, the largest v, and where nodes begin to spread.
_N_NODES, _LARGEST_V, _SPREADS_FROM = 72, 120.0, 0.2
#: Ends and number of the logarithmic steps of its quadrature.
_SHORTEST, _LONGEST, _N_STEPS = 1e-9, 4.5, 180
#: Edges stand so much higher, because two of them exactly on the line have no angle.
_OFF_LINE_M = 1e-9
#: Keeps what is divided by above 0, and the angle of two edges in one place at a quarter turn.
_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class EdgePair:
    """Two edges in a row seen in one plane, [...] m each: coordinates along the plane, and up across the obstacle.

    Attributes:
        start_up_m, end_up_m: antennas; the first is at 0 along.
        length_m: where the second antenna is along; above 0.
        first_along_m, first_up_m, second_along_m, second_up_m: edges, in their order; one edge is a pair of equal ones.
    """

    start_up_m: Array
    end_up_m: Array
    length_m: Array
    first_along_m: Array
    first_up_m: Array
    second_along_m: Array
    second_up_m: Array


def field_past_edge(v: Array) -> Complex:
    """Field past one edge: [...] v -> [...] complex; 1/2 where the edge touches the line.

    Source: ITU-R P.526-15, 4.1, (1 + j) / 2 times the integral of e^(-j pi t^2 / 2) from v to infinity.
    """
    sine, cosine = fresnel(v)
    return np.asarray((0.5 + 0.5j) * ((0.5 - cosine) - 1j * (0.5 - sine)))


def field_past_edges(edges: EdgePair, wavelength_m: float) -> Complex:
    """[...] complex field past two edges in a row.

    With h and k the v of each edge alone, a that of the first on the way to the second, and b that of the second on the
    way from the first, the double Fresnel integral is [h < 0 and k < 0] + sign(h) K(|h|, b) + sign(k) K(|k|, a), with
    K(p, q) = p / (2 pi) times the integral of e^(-j pi (p^2 + y^2) / 2) / (p^2 + y^2) over y from q to infinity.
    """
    start_m, end_m = (0.0, edges.start_up_m), (edges.length_m, edges.end_up_m)
    first_m = (edges.first_along_m, edges.first_up_m + _OFF_LINE_M)
    second_m = (edges.second_along_m, edges.second_up_m + _OFF_LINE_M)
    h, k = _edge_v(first_m, start_m, end_m, wavelength_m), _edge_v(second_m, start_m, end_m, wavelength_m)
    a, b = _edge_v(first_m, start_m, second_m, wavelength_m), _edge_v(second_m, first_m, end_m, wavelength_m)
    both_below = (h < 0.0) & (k < 0.0)
    field = both_below + np.copysign(1.0, h) * _wedge(h, b) + np.copysign(1.0, k) * _wedge(k, a)
    single = (edges.first_along_m == edges.second_along_m) & (edges.first_up_m == edges.second_up_m)
    field[single] = field_past_edge(h[single])  # without what the table rounds
    return np.asarray(field)


Point = tuple[Array | float, Array]


def _edge_v(point_m: Point, start_m: Point, end_m: Point, wavelength_m: float) -> Array:
    """[...] v of an edge at a point between two others, above 0 where it lies above their line.

    The detour s + t - r of a triangle is 2 c^2 / ((s t - d) (s + t + r)), with c and d the cross and dot product of its
    sides s and t, so that small detours keep their digits.
    """
    from_start, from_end = _way_m(start_m, point_m), _way_m(end_m, point_m)
    cross = from_end[0] * from_start[1] - from_end[1] * from_start[0]
    dot = from_start[0] * from_end[0] + from_start[1] * from_end[1]
    one, other = _size_m(from_start), _size_m(from_end)
    rest = (one * other - dot) * (one + other + _size_m(_way_m(start_m, end_m)))
    return np.asarray(-2.0 * cross * np.sqrt(2.0 / np.maximum(rest, _TINY) / wavelength_m))


def _way_m(start_m: Point, end_m: Point) -> tuple[Array, Array]:
    return np.asarray(end_m[0] - start_m[0]), end_m[1] - start_m[1]


def _size_m(way_m: tuple[Array, Array]) -> Array:
    return np.asarray(np.sqrt(way_m[0] ** 2 + way_m[1] ** 2))


def _wedge(p: Array, q: Array) -> Complex:
    """[...] K(|p|, q) of `field_past_edges`, interpolated to 4e-3 of its value."""
    size_p, size_q = np.maximum(np.abs(p), _TINY), np.abs(q)
    column, row = _node(size_p), _node(size_q)
    i, j = np.minimum(column.astype(np.int64), _N_NODES - 2), np.minimum(row.astype(np.int64), _N_NODES - 2)
    column, row = np.minimum(column - i, 1.0), np.minimum(row - j, 1.0)
    ratio = _wedge_ratios()
    near = ratio[i, j] + row * (ratio[i, j + 1] - ratio[i, j])
    far = ratio[i + 1, j] + row * (ratio[i + 1, j + 1] - ratio[i + 1, j])
    wedge = (near + column * (far - near)) * _leading(size_p, size_q)
    # Both sides of the line make up all of what one edge lets pass.
    behind = np.signbit(q)
    wedge[behind] = field_past_edge(size_p[behind]) - wedge[behind]
    return np.asarray(wedge)


def _node(size: Array) -> Array:
    """[...] place of |v| on the grid, evenly spaced near 0 and then in its logarithm."""
    return np.asarray(np.log1p(size / _SPREADS_FROM) * ((_N_NODES - 1) / np.log1p(_LARGEST_V / _SPREADS_FROM)))


def _leading(p: Array, q: Array) -> Complex:
    """[...] K without a factor that varies slowly and lies between 0.9 and 1.8."""
    turn = np.exp(-0.5j * np.pi * p**2)
    return np.asarray(np.arctan2(p, q) / (np.pi * (1.0 + 2.0 * np.sqrt(p**2 + q**2))) * field_past_edge(q) * turn)


@cache
def _wedge_ratios() -> Complex:
    """[_N_NODES, _N_NODES] K over its leading factor at the nodes.

    The path of integration is turned by an eighth, where the integrand decays instead of oscillating.
    """
    nodes = _SPREADS_FROM * np.expm1(np.linspace(0.0, np.log1p(_LARGEST_V / _SPREADS_FROM), _N_NODES))
    nodes[0] = 1e-6  # the ratio has a limit at 0, but not the formula
    p, q = nodes[:, None], nodes[None, :]
    steps = np.linspace(np.log(_SHORTEST), np.log(_LONGEST), _N_STEPS)
    total = np.zeros((_N_NODES, _N_NODES), dtype=np.complex128)
    for step in np.exp(steps):
        s = np.exp(-0.25j * np.pi) * step
        total += np.exp(-1j * np.pi * (q * s + s**2 / 2.0)) / (p**2 + (q + s) ** 2) * s
    wedge = p / (2.0 * np.pi) * np.exp(-0.5j * np.pi * (p**2 + q**2)) * total * (steps[1] - steps[0])
    return np.asarray(wedge / _leading(p, q))
