"""Blockage model A: regions of the sky that are dark, for links whose surroundings are not modelled.

Angles are those of the user: azimuth counter-clockwise and zenith from straight up, both in degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .correlation import correlated_normal
from .tables import table
from .waves import Array, wavelength_m


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Where blockers stand around a user, K of them at each of T points.

    Attributes:
        azimuth_deg, zenith_deg: [T, K] centers.
        azimuth_width_deg, zenith_width_deg: [T, K] full widths.
        distance_m: from the user to every blocker.
    """

    azimuth_deg: Array
    azimuth_width_deg: Array
    zenith_deg: Array
    zenith_width_deg: Array
    distance_m: float


def draw_regions(
    step_m: Array, draws: np.random.Generator, environment: Literal["outdoor", "indoor"] = "outdoor"
) -> Regions:
    """Regions along the track of a user; they turn and stretch slowly as the user moves.

    Centers are uniform around the user, widths uniform between the bounds of the table. Each is drawn as a normal
    number with the correlation e^(-d / d_cor) and put through its own distribution function, which leaves the uniform
    number with the correlation (6/pi) asin(e^(-d / d_cor) / 2), at most 0.02 below. A center never crosses 0 degrees.

    Args:
        step_m: [T] way from the point before; [0.0] for a user at rest.
        draws: of this link.
        environment: picks the row of `tables/blockage_a_regions.csv`.

    Source: 3GPP TR 38.901 clause 7.6.4.1, Tables 7.6.4.1-2 and 7.6.4.1-4.
    """
    row = table("blockage_a_regions").row(environment)
    n_regions = int(row["n_regions"])
    normal = correlated_normal(step_m, row["correlation_m"], 3 * n_regions, draws).T  # [T, 3 K]
    uniform = 0.5 * (1.0 + _error_function(normal / math.sqrt(2.0)))
    center, azimuth, zenith = np.split(uniform, 3, axis=1)
    narrow, flat = row["azimuth_width_min_deg"], row["zenith_width_min_deg"]
    return Regions(
        azimuth_deg=360.0 * center,
        azimuth_width_deg=narrow + (row["azimuth_width_max_deg"] - narrow) * azimuth,
        zenith_deg=np.full_like(center, row["zenith_deg"]),
        zenith_width_deg=flat + (row["zenith_width_max_deg"] - flat) * zenith,
        distance_m=row["distance_m"],
    )


def regions_loss_db(regions: Regions, azimuth_deg: Any, zenith_deg: Any, carrier_hz: float) -> Array:
    """Loss of a ray that arrives from this direction, all regions of its point added.

    Args:
        regions: T points.
        azimuth_deg, zenith_deg: [T] or one angle.
        carrier_hz: sets the wavelength.

    Returns:
        [T] dB.

    Source: 3GPP TR 38.901 clause 7.6.4.1, equations (7.6-22) and (7.6-23). A region acts out to its full width on
    either side of its center, twice its extent.
    """
    azimuth_off = _wrapped_deg(np.asarray(azimuth_deg, dtype=np.float64)[..., None] - regions.azimuth_deg)
    zenith_off = np.asarray(zenith_deg, dtype=np.float64)[..., None] - regions.zenith_deg
    scale = np.pi / wavelength_m(carrier_hz) * regions.distance_m
    share = _shadow(azimuth_off, regions.azimuth_width_deg, scale)
    share = share * _shadow(zenith_off, regions.zenith_width_deg, scale)
    acts = (np.abs(azimuth_off) < regions.azimuth_width_deg) & (np.abs(zenith_off) < regions.zenith_width_deg)
    return np.asarray(-20.0 * np.log10(1.0 - np.where(acts, share, 0.0)).sum(axis=-1))


def self_blocking_loss_db(
    azimuth_deg: Any, zenith_deg: Any, mode: Literal["portrait", "landscape"] = "portrait"
) -> Array:
    """Loss to the hand and body that hold a device: [...] directions in the frame of the device -> [...] dB.

    Source: 3GPP TR 38.901 clause 7.6.4.1, Table 7.6.4.1-1.
    """
    row = table("blockage_a_self").row(mode)
    azimuth_off = np.abs(_wrapped_deg(np.asarray(azimuth_deg, dtype=np.float64) - row["azimuth_deg"]))
    zenith_off = np.abs(np.asarray(zenith_deg, dtype=np.float64) - row["zenith_deg"])
    inside = (azimuth_off < row["azimuth_width_deg"] / 2) & (zenith_off < row["zenith_width_deg"] / 2)
    return np.asarray(np.where(inside, row["loss_db"], 0.0))


def _shadow(off_deg: Array, width_deg: Array, scale: float) -> Array:
    """F of both edges of a region together, 0 to 1; an edge counts negative where the ray passes on its far side."""

    def edge(angle_deg: Array) -> Array:
        excess = 1.0 / np.cos(np.radians(np.minimum(np.abs(angle_deg), 89.0))) - 1.0
        return np.asarray(np.sign(angle_deg) * np.arctan(np.pi / 2 * np.sqrt(scale * excess)) / np.pi)

    return edge(off_deg + width_deg / 2) - edge(off_deg - width_deg / 2)


def _wrapped_deg(angle_deg: Array) -> Array:
    return np.asarray((angle_deg + 180.0) % 360.0 - 180.0)


def _error_function(values: Array) -> Array:
    return np.array([math.erf(value) for value in values.ravel()]).reshape(values.shape)
