"""Rain and fog against values of another implementation of the recommendations (ITU-Rpy 0.4, to seven digits)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.radio_scenes import WALLS, street
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.emulator.radio.link_budget import station_loss_db
from sheafedge.emulator.radio.weather_loss import fog_db_per_km, rain_db_per_km, weather_db
from sheafedge.emulator.world.weather import CLEAR, Weather


@pytest.mark.parametrize(
    ("carrier_ghz", "at_5", "at_25", "at_50"),
    [
        (28, 0.8742926, 3.8910757, 7.4016051),
        (60, 2.8406599, 9.4764046, 15.9215028),
        (73, 3.3854205, 10.7005442, 17.5652807),
        (100, 4.0642709, 12.0743615, 19.2984827),
    ],
)
def test_rain_attenuates_as_the_recommendation_says(
    carrier_ghz: float, at_5: float, at_25: float, at_50: float
) -> None:
    found = [rain_db_per_km(rate, carrier_ghz * 1e9) for rate in (5.0, 25.0, 50.0)]
    np.testing.assert_allclose(found, [at_5, at_25, at_50], rtol=1e-6)


@pytest.mark.parametrize(
    ("carrier_ghz", "per_gram"), [(28, 0.5210534), (60, 2.1016586), (73, 2.9003706), (100, 4.6270395)]
)
def test_fog_attenuates_as_it_should(carrier_ghz: float, per_gram: float) -> None:
    assert fog_db_per_km(1.0, carrier_ghz * 1e9) == pytest.approx(per_gram, rel=1e-6)
    assert fog_db_per_km(0.05, carrier_ghz * 1e9) == pytest.approx(0.05 * per_gram, rel=1e-6)


def test_losses_add_along_the_way_and_clear_air_adds_nothing() -> None:
    both = Weather(25.0, 50.0)
    assert weather_db(2000.0, 60e9, both) == pytest.approx(2.0 * (9.4764046 + 0.5 * 2.1016586), rel=1e-6)
    assert weather_db(2000.0, 60e9, CLEAR) == 0.0


def test_paths_lose_by_their_length_and_keep_their_phases() -> None:
    scene = street(facades=WALLS)
    rainy = replace(scene, surroundings=replace(scene.surroundings, weather=Weather(rain_mm_per_h=50.0)))
    clear, wet = trace_paths(scene), trace_paths(rainy)
    there = clear.valid[0]
    length_m = clear.delay_s[0, there] * 299_792_458.0
    ratio = wet.gain[0, there] / clear.gain[0, there]
    np.testing.assert_allclose(-20.0 * np.log10(np.abs(ratio)), length_m / 1000.0 * 15.9215028, rtol=1e-5)
    np.testing.assert_allclose(np.angle(ratio), 0.0, atol=1e-9)


def test_links_between_stations_lose_too() -> None:
    apart_m, everybody = np.array([[0.0, 200.0], [200.0, 0.0]]), np.ones((2, 2), dtype=bool)
    clear, wet = (
        station_loss_db(apart_m, 60e9, everybody, np.random.default_rng(0), weather=weather)
        for weather in (CLEAR, Weather(rain_mm_per_h=25.0))
    )
    assert wet[0, 1] - clear[0, 1] == pytest.approx(0.2 * 9.4764046, rel=1e-6)
