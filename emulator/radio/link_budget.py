"""What a receiver starts from: its noise, and how much of a beam reaches those that it is not meant for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .waves import Array

#: Of a resistor at 290 K, rounded as link budgets do.
THERMAL_NOISE_DBM_PER_HZ = -174.0


def noise_floor_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Noise of a receiver: -174 + 10 log10(bandwidth) + noise figure; -87 dBm at 100 MHz and 7 dB."""
    return THERMAL_NOISE_DBM_PER_HZ + 10.0 * float(np.log10(bandwidth_hz)) + noise_figure_db


def off_beam_loss_db(angle_rad: Any, beamwidth_deg: float, front_to_back_db: float) -> Array:
    """How much weaker a beam is off its axis: [...] rad, of either sign and any number of turns -> [...] dB.

    Source: 3GPP TR 38.901, Table 7.3-1, horizontal cut, min(12 (angle / beamwidth)^2, front-to-back ratio).
    """
    off_deg = np.degrees(np.abs(np.angle(np.exp(1j * np.asarray(angle_rad, dtype=np.float64)))))
    return np.asarray(np.minimum(12.0 * (off_deg / beamwidth_deg) ** 2, front_to_back_db))
