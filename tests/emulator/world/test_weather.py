"""Weather of a world: visibility, water and extinction as the sources define them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.world.weather import CLEAR, Weather


@given(visibility_m=st.floats(10.0, 1000.0))
def test_five_percent_of_contrast_are_left_at_the_visibility(visibility_m: float) -> None:
    fog = Weather(fog_visibility_m=visibility_m)
    assert math.exp(-fog.extinction_per_m * visibility_m) == pytest.approx(0.05)


def test_fog_holds_as_much_water_as_the_recommendation_says() -> None:
    assert Weather(fog_visibility_m=300.0).liquid_water_g_per_m3 == pytest.approx(0.05)
    assert Weather(fog_visibility_m=50.0).liquid_water_g_per_m3 == pytest.approx(0.5)


def test_rain_dims_light_and_clear_air_does_nothing() -> None:
    heavy, light = (Weather(rain_mm_per_h=rate).extinction_per_m for rate in (25.0, 2.5))
    assert heavy == pytest.approx(1.076 * 25.0**0.67 / 4342.94, rel=1e-4)  # dB per km to nepers per m
    assert heavy > light > 0.0
    assert (CLEAR.extinction_per_m, CLEAR.liquid_water_g_per_m3) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rain_mm_per_h": -1.0}, r"weather.rain_mm_per_h must lie in \[0, 250\], got -1.0"),
        ({"fog_visibility_m": 5.0}, r"must be 0, for no fog, or lie in \[10, 1000\], got 5.0"),
        ({"fog_visibility_m": math.nan}, r"must be 0, for no fog, or lie in \[10, 1000\], got nan"),
    ],
)
def test_impossible_weather_is_refused(given: dict[str, float], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Weather(**given)
