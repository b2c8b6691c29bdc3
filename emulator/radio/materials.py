"""Reflection coefficients of surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from .tables import table
from .waves import VACUUM_PERMITTIVITY_F_PER_M, wavelength_m

Complex = NDArray[np.complex128]


def complex_permittivity(material: str, carrier_hz: float) -> complex:
    """Relative permittivity eps_r - j sigma / (2 pi f eps_0) of a material.

    Args:
        material: a row of `tables/materials.csv`.
        carrier_hz: inside the range that the material is specified for.

    Raises:
        ConfigError: an unknown material, or a carrier outside its range.

    Source: Recommendation ITU-R P.2040-1, Table 3.
    """
    constants = table("materials")
    if material not in constants.labels:
        raise ConfigError(f"unknown material {material!r}; known: {', '.join(sorted(constants.labels))}")
    row = constants.row(material)
    f_ghz = carrier_hz / 1e9
    if not row["lowest_ghz"] <= f_ghz <= row["highest_ghz"]:
        fitting = (constants["lowest_ghz"] <= f_ghz) & (f_ghz <= constants["highest_ghz"])
        names = ", ".join(name for name, fits in zip(constants.labels, fitting, strict=True) if fits) or "none"
        raise ConfigError(
            f"material {material!r} is specified from {row['lowest_ghz']:g} to {row['highest_ghz']:g} GHz, "
            f"got a carrier of {f_ghz:g} GHz; specified there: {names}"
        )
    # ITU-R P.2040-1: eps_r = a f^b and sigma = c f^d, with f in GHz.
    conductivity_s_per_m = row["c"] * f_ghz ** row["d"]
    lossy = conductivity_s_per_m / (2 * np.pi * carrier_hz * VACUUM_PERMITTIVITY_F_PER_M)
    return complex(row["a"] * f_ghz ** row["b"], -lossy)


def reflection_te(permittivity: complex, cos_incidence: Any) -> Complex:
    """Fresnel coefficient for an electric field along the surface: [...] cosine between ray and normal -> [...].

    Source: Recommendation ITU-R P.2040-1, Fresnel coefficient R_TE for a wave that comes from air.
    """
    cosine, root = _cosine_and_root(permittivity, cos_incidence)
    return np.asarray((cosine - root) / (cosine + root))


def reflection_tm(permittivity: complex, cos_incidence: Any) -> Complex:
    """Fresnel coefficient for an electric field in the plane of ray and normal: [...] cosine -> [...].

    Source: Recommendation ITU-R P.2040-1, Fresnel coefficient R_TM for a wave that comes from air.
    """
    cosine, root = _cosine_and_root(permittivity, cos_incidence)
    return np.asarray((permittivity * cosine - root) / (permittivity * cosine + root))


def roughness_factor(roughness_m: float, cos_incidence: Any, carrier_hz: float) -> NDArray[np.float64]:
    """Amplitude factor of the reflection from a rough surface: e^(-8 (pi sigma cos / wavelength)^2).

    Args:
        roughness_m: standard deviation of the surface's height.
        cos_incidence: [...] cosine between ray and normal.
        carrier_hz: sets the wavelength.

    Returns:
        [...] in (0, 1]; scattered power is neglected.

    Source: Ament's factor, as in Rappaport, Wireless Communications, section 4.8.
    """
    phase = np.pi * roughness_m / wavelength_m(carrier_hz) * np.asarray(cos_incidence, dtype=np.float64)
    return np.asarray(np.exp(-8.0 * phase**2))


def _cosine_and_root(permittivity: complex, cos_incidence: Any) -> tuple[NDArray[np.float64], Complex]:
    cosine = np.asarray(cos_incidence, dtype=np.float64)
    return cosine, np.sqrt(permittivity - (1.0 - cosine**2))
