"""Surfaces: what comes back from a wall follows Fresnel, and only where the wall's material is specified."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.images import complex_permittivity, reflection_te, reflection_tm, roughness_factor

CARRIER_HZ = 60e9
AT_60_GHZ = ("concrete", "glass", "metal", "wood", "plasterboard", "marble")
EXACT = 1e-12
cosines = st.floats(1e-6, 1.0)


def test_concrete_at_60_ghz_follows_the_power_law() -> None:
    permittivity = complex_permittivity("concrete", CARRIER_HZ)
    conductivity = 0.0462 * 60**0.7822
    assert permittivity.real == pytest.approx(5.24)
    assert -permittivity.imag == pytest.approx(conductivity / (2 * np.pi * CARRIER_HZ * 8.8541878128e-12))
    assert -permittivity.imag == pytest.approx(17.98 * conductivity / 60, rel=1e-3)  # the usual rounded constant


@given(cosine=cosines, material=st.sampled_from(AT_60_GHZ))
def test_a_surface_never_sends_back_more_than_it_got(cosine: float, material: str) -> None:
    permittivity = complex_permittivity(material, CARRIER_HZ)
    assert abs(reflection_te(permittivity, cosine)) <= 1.0 + EXACT
    assert abs(reflection_tm(permittivity, cosine)) <= 1.0 + EXACT
    if material != "metal":  # a lossless wave along the surface aside, TE is always the stronger one
        assert abs(reflection_te(permittivity, cosine)) >= abs(reflection_tm(permittivity, cosine)) - EXACT


@pytest.mark.parametrize("material", AT_60_GHZ)
def test_polarizations_agree_head_on_and_at_grazing(material: str) -> None:
    permittivity = complex_permittivity(material, CARRIER_HZ)
    assert_allclose(reflection_te(permittivity, 1.0), -reflection_tm(permittivity, 1.0), atol=EXACT)
    assert_allclose(reflection_te(permittivity, 0.0), -1.0, atol=EXACT)
    assert_allclose(reflection_tm(permittivity, 0.0), -1.0, atol=EXACT)


def test_glass_swallows_tm_near_brewsters_angle_and_not_te() -> None:
    permittivity = complex_permittivity("glass", CARRIER_HZ)
    brewster = np.cos(np.arctan(np.sqrt(permittivity.real)))
    assert abs(reflection_tm(permittivity, brewster)) < 0.02
    assert abs(reflection_te(permittivity, brewster)) > 0.7


def test_metal_turns_the_field_around() -> None:
    assert_allclose(reflection_te(complex_permittivity("metal", CARRIER_HZ), 0.7), -1.0, atol=2e-3)


def test_a_rough_surface_keeps_less_head_on_than_at_grazing() -> None:
    assert roughness_factor(0.0, 1.0, CARRIER_HZ) == 1.0
    assert roughness_factor(0.5e-3, 1.0, CARRIER_HZ) == pytest.approx(np.exp(-8 * (np.pi * 0.1) ** 2), rel=2e-3)
    assert roughness_factor(0.5e-3, 0.1, CARRIER_HZ) > 0.99


@pytest.mark.parametrize("material", ["brick", "very_dry_ground", "medium_dry_ground", "wet_ground"])
def test_materials_that_are_not_specified_at_60_ghz_are_refused(material: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{material}' is specified from 1 to \d+ GHz, got .* 60 GHz; .*concrete"):
        complex_permittivity(material, CARRIER_HZ)
    assert complex_permittivity(material, 5e9).real > 1.0


def test_the_range_ends_where_the_table_says() -> None:
    complex_permittivity("brick", 40e9)
    with pytest.raises(ConfigError, match="brick"):
        complex_permittivity("brick", 40.001e9)


def test_an_unknown_material_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown material 'cheese'; known: .*concrete.*glass"):
        complex_permittivity("cheese", CARRIER_HZ)
