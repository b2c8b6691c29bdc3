"""Diffraction over one edge that is much wider than the wave is long."""

from __future__ import annotations

from typing import Any

import numpy as np

from .waves import Array, wavelength_m

#: Below it the approximation is not defined and the edge costs nothing.
LOWEST_NU = -0.78


def fresnel_parameter(height_m: Any, start_to_edge_m: Any, edge_to_end_m: Any, carrier_hz: float) -> Array:
    """How far an edge reaches into a path, in units of diffraction: h sqrt(2 (d1 + d2) / (wavelength d1 d2)).

    Args:
        height_m: [...] of the edge above the straight line, negative below it.
        start_to_edge_m, edge_to_end_m: [...] along the line, above 0.
        carrier_hz: sets the wavelength.

    Returns:
        [...] nu, without unit.

    Source: Recommendation ITU-R P.526, section 4.1.
    """
    start, end = np.asarray(start_to_edge_m, dtype=np.float64), np.asarray(edge_to_end_m, dtype=np.float64)
    return np.asarray(height_m * np.sqrt(2.0 * (start + end) / (wavelength_m(carrier_hz) * start * end)))


def knife_edge_loss_db(nu: Any) -> Array:
    """Loss behind one edge: [...] Fresnel parameter -> [...] dB, never below 0.

    Source: Recommendation ITU-R P.526, section 4.1, J(nu) = 6.9 + 20 log10(sqrt((nu - 0.1)^2 + 1) + nu - 0.1) for
    nu > -0.78; within 0.1 dB of the Fresnel integral from nu = 0 on.
    """
    shifted = np.maximum(np.asarray(nu, dtype=np.float64), LOWEST_NU) - 0.1
    return np.maximum(6.9 + 20.0 * np.log10(np.sqrt(shifted**2 + 1.0) + shifted), 0.0)
