"""Fields past edges: against scipy's Fresnel integral, a double quadrature, and the limits that theory gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import modfresnelp
from sheafedge.emulator.radio.diffraction import EdgePair, field_past_edge, field_past_edges

WAVE_M = 299_792_458.0 / 60e9
LENGTH_M = 12.0
EXACT = 1e-12
#: The table is interpolated to so much of either of two terms.
TABLE = 4e-3
#: Detours and the parabolas of the double integral differ by so much within half a metre of a 12 m path.
PARABOLA = 0.03


def pair(first: tuple[float, float], second: tuple[float, float], ends: tuple[float, float] = (0.0, 0.0)) -> EdgePair:
    values = (*ends, LENGTH_M, *first, *second)
    return EdgePair(*(np.array([value]) for value in values))


def past(first: tuple[float, float], second: tuple[float, float]) -> complex:
    return complex(field_past_edges(pair(first, second), WAVE_M)[0])


def v_of(along_m: float, up_m: float) -> float:
    detour_m = np.hypot(along_m, up_m) + np.hypot(LENGTH_M - along_m, up_m) - LENGTH_M
    return float(np.copysign(2.0 * np.sqrt(detour_m / WAVE_M), up_m))


def exact_knife_edge(v: NDArray[np.float64]) -> NDArray[np.complex128]:
    """scipy's modified Fresnel integral, which is e^(-j x^2) over x from its argument on, conjugated here."""
    turned = np.conj(modfresnelp(np.abs(v) * np.sqrt(np.pi / 2.0))[0])
    shadow = (0.5 + 0.5j) * np.sqrt(2.0 / np.pi) * turned
    return np.where(v >= 0.0, shadow, 1.0 - shadow)


def test_the_field_past_an_edge_is_the_exact_fresnel_integral() -> None:
    v = np.linspace(-40.0, 40.0, 2001)
    assert_allclose(field_past_edge(v), exact_knife_edge(v), atol=1e-12)


def test_the_loss_past_an_edge_is_that_of_itu_r_p_526() -> None:
    """J(v) of its 4.1, an approximation for v above -0.78; and the first maximum beside the shadow."""
    v = np.linspace(-0.7, 10.0, 100)
    approximation_db = 6.9 + 20.0 * np.log10(np.sqrt((v - 0.1) ** 2 + 1.0) + v - 0.1)
    assert_allclose(-20.0 * np.log10(np.abs(field_past_edge(v))), approximation_db, atol=0.5)
    assert 20.0 * np.log10(np.abs(field_past_edge(np.array(-1.217)))) == pytest.approx(1.37, abs=0.01)


def test_the_field_ripples_before_an_edge_arrives() -> None:
    """That is what arctangents lack: levels above and below free space, and a phase that turns."""
    size = np.abs(field_past_edge(np.linspace(-6.0, -0.5, 500)))
    assert size.max() > 1.15
    assert size[np.argmax(size) - 120 :].min() < 0.95
    assert np.abs(np.angle(field_past_edge(np.linspace(-3.0, 0.0, 200)))).max() > 0.1


@given(along_m=st.floats(0.5, 11.5), up_m=st.floats(-2.0, 2.0))
def test_two_edges_in_one_place_are_one_edge(along_m: float, up_m: float) -> None:
    expected = complex(field_past_edge(np.array(v_of(along_m, up_m))))
    assert past((along_m, up_m), (along_m, up_m)) == pytest.approx(expected, abs=TABLE)


@given(along_m=st.floats(3.0, 6.0), up_m=st.floats(-0.5, 2.0))
def test_an_edge_far_below_the_way_counts_for_nothing(along_m: float, up_m: float) -> None:
    # 30 m below, the way past the edge alone is 60 m longer, and the rest of the field that it takes away is small.
    expected = complex(field_past_edge(np.array(v_of(along_m, up_m))))
    for low_m in ((along_m + 2.0, -30.0), (along_m - 2.0, -30.0)):
        first, second = sorted([(along_m, up_m), low_m])
        assert past(first, second) == pytest.approx(expected, abs=0.01)


def double_integral(first: tuple[float, float], second: tuple[float, float]) -> complex:
    """Huygens' principle in two steps, written with parabolas for spheres: a quadrature over the two openings.

    Contours are turned by an eighth from each edge on, where the integrand decays.
    """
    k = 2.0 * np.pi / WAVE_M
    near, between, far = first[0], second[0] - first[0], LENGTH_M - second[0]
    turn = np.exp(-0.25j * np.pi)
    t = np.linspace(0.0, 1.6, 1600)
    x, y = first[1] + turn * t[:, None], second[1] + turn * t[None, :]
    phase = x**2 / near + (y - x) ** 2 / between + y**2 / far
    weight = np.ones_like(t)
    weight[0] = weight[-1] = 0.5
    total = (weight[:, None] * weight * np.exp(-0.5j * k * phase)).sum() * (t[1] - t[0]) ** 2 * turn**2
    return complex(total * 1j * k / (2.0 * np.pi) * np.sqrt(LENGTH_M / (near * between * far)))


def grazing(first_m: float, second_m: float) -> float:
    """Field past two edges that both touch the line: the share of an orthant, as of two correlated normals."""
    correlation = np.sqrt(first_m * (LENGTH_M - second_m) / (second_m * (LENGTH_M - first_m)))
    return float(0.25 + np.arcsin(correlation) / (2.0 * np.pi))


@pytest.mark.parametrize(
    ("first_m", "second_m"),
    [(0.0, 0.0), (0.1, 0.1), (0.3, 0.3), (0.3, 0.1), (0.1, 0.3), (0.25, 0.0)],
)
def test_two_edges_are_the_double_integral_over_their_openings(first_m: float, second_m: float) -> None:
    """A car's thickness, with edges that stand in the way by up to the height of its roof over the antennas."""
    first, second = (5.0, first_m), (6.8, second_m)
    assert double_integral((5.0, 0.0), second=(6.8, 0.0)) == pytest.approx(grazing(5.0, 6.8), abs=1e-3)
    expected = double_integral(first, second)
    assert past(first, second) == pytest.approx(expected, abs=PARABOLA * abs(expected))


def test_a_thick_obstacle_costs_more_than_either_of_its_edges() -> None:
    both = abs(past((5.0, 0.3), (6.8, 0.3)))
    for along_m in (5.0, 6.8):
        assert both < 0.5 * abs(field_past_edge(np.array(v_of(along_m, 0.3))))


@given(
    first=st.tuples(st.floats(0.5, 5.0), st.floats(-1.0, 2.0)),
    second=st.tuples(st.floats(5.5, 11.5), st.floats(-1.0, 2.0)),
)
def test_the_way_back_past_two_edges_is_the_way_there(first: tuple[float, float], second: tuple[float, float]) -> None:
    back = past((LENGTH_M - second[0], second[1]), (LENGTH_M - first[0], first[1]))
    assert past(first, second) == pytest.approx(back, abs=1e-6)


@given(up_m=st.floats(-0.6, 0.6), along_m=st.floats(2.0, 9.0), step_m=st.floats(1e-4, 1e-3))
def test_the_field_never_jumps_as_a_thick_obstacle_moves(up_m: float, along_m: float, step_m: float) -> None:
    """A millimetre changes v by 0.02 here, and the field by less than that."""
    here, there = (past((along_m, up), (along_m + 1.8, up)) for up in (up_m, up_m + step_m))
    assert abs(there - here) < 0.03
