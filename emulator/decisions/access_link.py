"""The link of a user: what its signal-to-noise ratio carries, and when that is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..contracts import ConfigError
from ..radio.block_error import block_error_rate
from ..radio.link_adaptation import BlockRates
from ..radio.waves import Array
from ..ranges import check_ranges

_RANGES = {
    "bandwidth_hz": (1e6, 10e9),
    "overhead_share": (0.0, 0.9),
    "slot_s": (1e-6, 1e-2),
    "implementation_loss_db": (0.0, 30.0),
    "target_bler": (0.001, 0.5),
    "needed_bps": (0.0, 1e12),
}
#: Where `outage_below_db` searches, and how closely.
_OUTAGE_BETWEEN_DB, _OUTAGE_STEP_DB = (-100.0, 100.0), 1e-3


@dataclass(frozen=True, slots=True)
class AccessLink:
    """Link on which a cell serves its user; rates follow the same indicators and curves as between base stations.

    The choice knows the present signal-to-noise ratio: adaptation is fast beside frames of a tenth of a second.

    Attributes:
        bandwidth_hz: bandwidth that the user gets.
        overhead_share: share of the symbols for pilots and control.
        slot_s: duration of a block.
        implementation_loss_db: power that the receiver needs beyond the block error curves.
        target_bler: block error rate that the choice aims at.
        needed_bps: rate below which a user is in outage. 0: only without any rate.

    Raises:
        ConfigError: a value is impossible.

    Source: rates, 3GPP TS 38.214, Table 5.2.2.1-2; overhead, TS 38.306, clause 4.1.2, downlink above 24 GHz.
    """

    bandwidth_hz: float = 100e6
    # TS 38.306, clause 4.1.2.
    overhead_share: float = 0.18
    slot_s: float = 125e-6
    implementation_loss_db: float = 2.0
    target_bler: float = 0.1
    needed_bps: float = 45e6

    def __post_init__(self) -> None:
        check_ranges("decision.link", self, _RANGES)
        self.rate_bps(0.0)  # refuses blocks that are too small, here and not when a user is first served

    def rate_bps(self, snr_db: Any) -> Array:
        """Bits per second that arrive without error: [...] dB -> [...], 0 below the lowest indicator; never falls.

        A block that fails is sent again, which costs its airtime: the rate of an indicator times the share of blocks
        that arrive. The highest indicator that meets the target is taken, or the one below it where that brings more.
        """
        rates, snr = self._block_rates(), np.asarray(snr_db, dtype=np.float64)
        highest = np.searchsorted(rates.needed_db, snr, side="right") - 1
        # Just above its threshold an indicator loses as many blocks as the target allows; the one below may carry more.
        tried = [np.maximum(highest, 0), np.maximum(highest - 1, 0)]
        arriving = [1.0 - block_error_rate(snr, rates.ten_percent_db[rank], rates.width_db[rank]) for rank in tried]
        full_bps = 8.0 * rates.block_bytes / self.slot_s
        best_bps = np.maximum(full_bps[tried[0]] * arriving[0], full_bps[tried[1]] * arriving[1])
        # No indicator meets the target: out of range, TS 38.214, Table 5.2.2.1-2, index 0.
        return np.where(highest < 0, 0.0, best_bps)

    def in_outage(self, rate_bps: Any) -> Any:
        """[...] bool, whether a rate is 0 or less than is needed."""
        return (np.asarray(rate_bps) <= 0.0) | (np.asarray(rate_bps) < self.needed_bps)

    @property
    def outage_below_db(self) -> float:
        """SNR below which a user is in outage, to a thousandth of a dB; rates never fall with the SNR."""
        low, high = _OUTAGE_BETWEEN_DB
        while high - low > _OUTAGE_STEP_DB:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.in_outage(self.rate_bps(middle)) else (low, middle)
        return high

    def _block_rates(self) -> BlockRates:
        n_symbols = self.bandwidth_hz * self.slot_s * (1.0 - self.overhead_share)
        return _block_rates(n_symbols, self.target_bler, self.implementation_loss_db)


@lru_cache(maxsize=32)
def _block_rates(n_symbols: float, target: float, implementation_loss_db: float) -> BlockRates:
    try:
        return BlockRates.of(n_symbols, target=target, implementation_loss_db=implementation_loss_db)
    except ConfigError:
        raise ConfigError(
            f"decision.link sends blocks of {n_symbols:.0f} symbols, too few for its lowest rate; raise"
            " decision.link.bandwidth_hz or decision.link.slot_s"
        ) from None
