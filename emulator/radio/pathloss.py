"""Mean loss between two antennas: oxygen, and the street canyon of 3GPP."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contracts import ConfigError
from .tables import table
from .waves import Array

#: Effective environment height of a street canyon (h_E), m.
EFFECTIVE_GROUND_M = 1.0
#: The standard rounds it (note 1 of its Table 7.4.1-1); 5 GHz at 1 km would differ by 0.006 dB.
ROUNDED_SPEED_OF_LIGHT_M_PER_S = 3.0e8


def oxygen_db(distance_m: Any, carrier_hz: float) -> Array:
    """Absorption by oxygen: [...] m -> [...] dB.

    Raises:
        ConfigError: a carrier above 100 GHz, where the table ends.

    Source: 3GPP TR 38.901, Table 7.6.1-1, linear between its rows.
    """
    absorption = table("oxygen_absorption")
    carriers_ghz = absorption["carrier_ghz"]
    if not carriers_ghz[0] <= carrier_hz / 1e9 <= carriers_ghz[-1]:
        raise ConfigError(f"carrier_hz must lie in [0, {carriers_ghz[-1]:g}e9] for oxygen, got {carrier_hz:g}")
    per_km = np.interp(carrier_hz / 1e9, carriers_ghz, absorption["loss_db_per_km"])
    return np.asarray(np.asarray(distance_m, dtype=np.float64) / 1000.0 * per_km)


def umi_pathloss_db(
    distance_2d_m: Any, carrier_hz: float, *, is_los: Any, user_height_m: float = 1.5, bs_height_m: float = 10.0
) -> Array:
    """Mean loss in a street canyon, without shadowing and oxygen.

    Args:
        distance_2d_m: [...] along the ground, 10 m to 5 km.
        carrier_hz: 0.5 to 100 GHz.
        is_los: [...] or one bool.
        user_height_m: 1.5 to 22.5 m.
        bs_height_m: 10 m, the only valid height.

    Returns:
        [...] dB.

    Raises:
        ConfigError: a value outside the range of validity.

    Source: 3GPP TR 38.901 V16.1.0, Table 7.4.1-1, UMi - Street Canyon. The breakpoint belongs to the effective
    heights, 1 m below the antennas (its note 1).
    """
    distance_2d = np.asarray(distance_2d_m, dtype=np.float64)
    _check_validity("distance_2d_m", distance_2d)
    _check_validity("carrier_hz", np.asarray(carrier_hz))
    _check_validity("user_height_m", np.asarray(user_height_m))
    _check_validity("bs_height_m", np.asarray(bs_height_m))
    effective_m2 = (bs_height_m - EFFECTIVE_GROUND_M) * (user_height_m - EFFECTIVE_GROUND_M)
    breakpoint_m = 4.0 * effective_m2 * carrier_hz / ROUNDED_SPEED_OF_LIGHT_M_PER_S
    drop_m = bs_height_m - user_height_m
    distance_3d = np.hypot(distance_2d, drop_m)

    def segment(name: str) -> Array:
        row = table("umi_pathloss").row(name)
        return np.asarray(
            row["intercept_db"]
            + row["distance_db"] * np.log10(distance_3d)
            + row["carrier_db"] * np.log10(carrier_hz / 1e9)
            + row["breakpoint_db"] * np.log10(breakpoint_m**2 + drop_m**2)
            + row["user_height_db_per_m"] * (user_height_m - 1.5)
        )

    # PL1 up to the breakpoint and PL2 beyond, as in Table 7.4.1-1.
    los = np.where(distance_2d <= breakpoint_m, segment("los_near"), segment("los_far"))
    # NLOS is never less than LOS: PL = max(PL_LOS, PL'_NLOS) in the same table.
    return np.asarray(np.where(is_los, los, np.maximum(los, segment("nlos"))))


def los_probability(distance_2d_m: Any) -> Array:
    """Line-of-sight probability in a street canyon: [...] m along the ground -> [...].

    Raises:
        ConfigError: a distance that is not above 0.

    Source: 3GPP TR 38.901 V16.1.0, Table 7.4.2-1, UMi - Street Canyon, outdoor users.
    """
    distance = np.asarray(distance_2d_m, dtype=np.float64)
    _check_all("distance_2d_m", distance, "must be above 0", distance > 0.0)
    row = table("umi_los_probability").row("outdoor")
    # Cut at 1, the formula beyond 18 m gives the certain line of sight nearer than that, too.
    near = np.minimum(row["near_m"] / distance, 1.0)
    return np.asarray(near + np.exp(-distance / row["decay_m"]) * (1.0 - near))


def _check_validity(quantity: str, values: Array) -> None:
    row = table("umi_validity").row(quantity)
    low, high = row["lowest"], row["highest"]
    if quantity == "bs_height_m":
        remedy = f"must be {low:g}, the only height that the UMi fit is for"
    else:
        remedy = f"must lie in [{low:g}, {high:g}], where the UMi fit holds"
    _check_all(quantity, values, remedy, (low <= values) & (values <= high))


def _check_all(quantity: str, values: Array, rule: str, fits: Any) -> None:
    if not np.all(fits):
        wrong = values[~np.asarray(fits)] if values.ndim else values
        raise ConfigError(f"{quantity} {rule}, got {float(np.ravel(wrong)[0]):g}")
