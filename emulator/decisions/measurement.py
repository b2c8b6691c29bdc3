"""What a network knows of its user's cells: readings at a period, with noise and delay, through the layer-3 filter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contracts import ConfigError
from ..radio.waves import Array
from ..ranges import check_ranges

#: Filter coefficients k that a cell can set. Source: FilterCoefficient, 3GPP TS 38.331, clause 6.3.2.
FILTER_COEFFICIENTS = (*range(10), 11, 13, 15, 17, 19)
#: Times to trigger in s that a cell can set. Source: TimeToTrigger, 3GPP TS 38.331, clause 6.3.2.
TIMES_TO_TRIGGER_S = (
    0.0, 0.04, 0.064, 0.08, 0.1, 0.128, 0.16, 0.256, 0.32, 0.48, 0.512, 0.64, 1.024, 1.28, 2.56, 5.12,
)  # fmt: skip
_RANGES = {"period_s": (0.001, 1.0), "noise_db": (0.0, 20.0), "delay_s": (0.0, 1.0), "filter_sample_s": (0.01, 10.0)}
#: Instants closer than this are one.
_SAME_S = 1e-9


@dataclass(frozen=True, slots=True)
class MeasurementChain:
    """Chain from the powers of two cells at a user to the readings on which a handover is decided.

    Attributes:
        period_s: from a reading to the next, of both cells.
        noise_db: standard deviation of a reading before the filter.
        delay_s: from the instant of a reading until the rule knows it.
        filter_coefficient: coefficient k of the layer-3 filter; 0: no filter.
        filter_sample_s: sample rate X that the coefficient assumes: 0.2 below 6 GHz (FR1), 0.4 in millimeter waves
            (FR2). The filter is adapted to `period_s`, so that it takes as long at any period.

    Raises:
        ConfigError: a value is impossible, or the standard has no such coefficient.

    Source: filter, 3GPP TS 38.331, clause 5.5.3.2; X is one layer-1 measurement period, TS 38.133, clause 9.2.5.2.
        Without a filter the chain is that of layer-1 readings (L1/L2-triggered mobility, TS 38.300, clause 9.2.3.5).
        Noise and delay are our choice.
    """

    period_s: float = 0.02
    noise_db: float = 1.0
    delay_s: float = 0.005
    filter_coefficient: int = 0
    filter_sample_s: float = 0.4

    def __post_init__(self) -> None:
        check_ranges("decision.measurement", self, _RANGES)
        if self.filter_coefficient not in FILTER_COEFFICIENTS:
            raise ConfigError(
                f"decision.measurement.filter_coefficient must be one of {', '.join(map(str, FILTER_COEFFICIENTS))}, "
                f"got {self.filter_coefficient}"
            )

    @property
    def newest_weight(self) -> float:
        """Weight of the newest reading in the filtered value: a, adapted from the rate X to the period of readings.

        With a = 2^(-k/4) of X, what is left of an old value after the time t is (1 - a)^(t / X) at any period.
        """
        return float(1.0 - (1.0 - 2.0 ** (-self.filter_coefficient / 4.0)) ** (self.period_s / self.filter_sample_s))

    def instants_s(self, end_s: float) -> Array:
        """[m] instants of the readings from 0 until an end, not included."""
        n = int(np.ceil((end_s - _SAME_S) / self.period_s))
        return np.asarray(self.period_s * np.arange(max(n, 0)), dtype=np.float64)

    def readings_db(self, snr_db: Array, frame_s: float, draws: np.random.Generator) -> Array:
        """Readings of cells whose powers are constant from each frame until the next.

        Args:
            snr_db: [n_cells, n] of every frame.
            frame_s: time from a frame to the next.
            draws: for the noise.

        Returns:
            [n_cells, m] filtered, dB, at `instants_s` of the whole time.
        """
        instants_s = self.instants_s(snr_db.shape[1] * frame_s)
        frame = np.minimum(((instants_s + _SAME_S) / frame_s).astype(np.int64), snr_db.shape[1] - 1)
        measured = snr_db[:, frame] + self.noise_db * draws.standard_normal((len(snr_db), len(frame)))
        return filtered_db(measured, self.newest_weight)


def filtered_db(measured_db: Array, newest_weight: float) -> Array:
    """Layer-3 filter: F_1 = M_1, F_n = (1 - a) F_(n-1) + a M_n, in dB.

    Args:
        measured_db: [..., m] readings M.
        newest_weight: a; 1: no filter.

    Returns:
        [..., m] F.

    Source: 3GPP TS 38.331, clause 5.5.3.2.
    """
    filtered = np.array(measured_db, dtype=np.float64)
    for index in range(1, filtered.shape[-1] if newest_weight < 1.0 else 0):
        filtered[..., index] = (1.0 - newest_weight) * filtered[..., index - 1] + newest_weight * filtered[..., index]
    return filtered
