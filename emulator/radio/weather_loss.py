"""Loss of radio waves in rain and fog."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..world.weather import Weather
from .tables import table
from .waves import Array

#: Temperature of the water in fog.
FOG_KELVIN = 283.0


def weather_db(distance_m: Any, carrier_hz: float, weather: Weather) -> Array:
    """Loss of near-horizontal, vertically polarized waves in rain and fog: [...] m -> [...] dB."""
    per_km = rain_db_per_km(weather.rain_mm_per_h, carrier_hz)
    per_km += fog_db_per_km(weather.liquid_water_g_per_m3, carrier_hz)
    return np.asarray(np.asarray(distance_m, dtype=np.float64) / 1000.0 * per_km)


def rain_db_per_km(rate_mm_per_h: float, carrier_hz: float) -> float:
    """Specific attenuation by rain, k R^alpha.

    Args:
        rate_mm_per_h: R.
        carrier_hz: 1 to 1000 GHz.

    Source: ITU-R P.838-3, equations (1) to (3), vertical polarization, paths at low elevation.
    """
    if rate_mm_per_h == 0.0:
        return 0.0
    k = 10.0 ** _curve("rain_k_vertical", carrier_hz)
    return float(k * rate_mm_per_h ** _curve("rain_alpha_vertical", carrier_hz))


def fog_db_per_km(water_g_per_m3: float, carrier_hz: float) -> float:
    """Specific attenuation by drops that are small against the wavelength, up to 200 GHz.

    Args:
        water_g_per_m3: density of liquid water.
        carrier_hz: carrier frequency.

    Source: ITU-R P.840-7, equations (2) to (11), double Debye model of water, at `FOG_KELVIN`.
    """
    f_ghz, theta = carrier_hz / 1e9, 300.0 / FOG_KELVIN
    static = 77.66 + 103.3 * (theta - 1.0)
    middle, optical = 0.0671 * static, 3.52
    first_ghz = 20.20 - 146.0 * (theta - 1.0) + 316.0 * (theta - 1.0) ** 2
    second_ghz = 39.8 * first_ghz
    steps = ((static - middle, first_ghz), (middle - optical, second_ghz))
    permittivity = optical + sum(step / (1.0 - 1j * f_ghz / relaxation) for step, relaxation in steps)
    eta = (2.0 + permittivity.real) / permittivity.imag
    return float(0.819 * f_ghz / (permittivity.imag * (1.0 + eta**2)) * water_g_per_m3)


def _curve(name: str, carrier_hz: float) -> float:
    """Sum of bells over the logarithm of the frequency in GHz, and a straight line."""
    rows, at = table(name), np.log10(carrier_hz / 1e9)
    line = rows.row("line")
    bells = np.array([label != "line" for label in rows.labels])
    height, center, width = (rows[column][bells] for column in ("height", "center", "width"))
    return float((height * np.exp(-(((at - center) / width) ** 2))).sum() + line["height"] * at + line["center"])
