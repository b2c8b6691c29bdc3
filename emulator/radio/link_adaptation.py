"""Link adaptation: rates by channel quality indicator (CQI), and outer-loop link adaptation (OLLA).

The inner loop selects the highest rate whose block error rate at the reported SINR meets the target. Reports are
delayed and curves are models, so an outer loop adds an offset to the report: a failed block lowers it by one step, a
decoded one raises it by a smaller step. In the long run this meets the target despite systematic errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from .block_error import capacity_gap_db, sinr_for_error_rate, width_db
from .tables import table
from .waves import Array

#: Limit of the offset: for a link better than its highest rate, or worse than its lowest, it would grow without bound
#: and take as long to return.
LARGEST_OFFSET_DB = 6.0
#: Shortest block with a block error curve, bits.
FEWEST_BITS = 24


@dataclass(frozen=True, slots=True, eq=False)
class BlockRates:
    """Rates and required SINR of a block at each of the 15 CQI values, lowest first.

    Attributes:
        efficiency: [15] bit/s/Hz.
        block_bytes: [15] payload of one block.
        ten_percent_db: [15] SINR at which one block in ten fails.
        width_db: [15] from 50 to 10 %.
        needed_db: [15] SINR at which the block error rate equals the target.
    """

    efficiency: Array
    block_bytes: NDArray[np.int64]
    ten_percent_db: Array
    width_db: Array
    needed_db: Array

    @classmethod
    def of(cls, symbols_per_block: float, *, target: float = 0.1, implementation_loss_db: float = 0.0) -> Self:
        """Rates of blocks of this size.

        Args:
            symbols_per_block: bandwidth times duration, without overhead.
            target: target block error rate.
            implementation_loss_db: additional SINR that receivers need.

        Raises:
            ConfigError: blocks of the lowest rate would have fewer than 24 bits.

        Source: 3GPP TS 38.214, Table 5.2.2.1-2, for the efficiencies; SINR by the gap to capacity.
        """
        efficiency = table("cqi")["efficiency"]
        n_bytes = np.floor(symbols_per_block * efficiency / 8.0).astype(np.int64)
        # The smallest transport block of TS 38.214, Table 5.1.3.2-1, and the first row of `tables/block_error.csv`.
        if 8 * n_bytes[0] < FEWEST_BITS:
            raise ConfigError(
                f"a radio block would carry {8 * n_bytes[0]} bits at its lowest rate and needs {FEWEST_BITS};"
                " raise links.radio.bandwidth_hz or links.radio.slot_s"
            )
        bits = 8 * n_bytes
        needed_db = ten_percent_sinr_db(efficiency, capacity_gap_db(bits)) + implementation_loss_db
        width = width_db(bits)
        return cls(efficiency, n_bytes, needed_db, width, sinr_for_error_rate(target, needed_db, width))

    def choose(self, sinr_db: float) -> int:
        """Index of the highest rate that meets the target at this SINR; 0 if none does."""
        # Below the lowest rate it still sends at that rate, and the blocks fail.
        return max(0, int(np.searchsorted(self.needed_db, sinr_db, side="right")) - 1)


def ten_percent_sinr_db(efficiency: Array, gap_db: Array | float) -> Array:
    """SINR for 10 % block errors at a spectral efficiency: [...] bit/s/Hz -> [...] dB.

    Source: Shannon, 10 log10(2^efficiency - 1), plus the gap to capacity of a real code.
    """
    return np.asarray(10.0 * np.log10(2.0**efficiency - 1.0) + gap_db)


class OuterLoop:
    """Outer loop: offset to the reported SINR that keeps the block error rate at its target.

    Args:
        target: block error rate in (0, 1).
        step_db: step down for a failed block; the step up for a decoded one is step * target / (1 - target).

    Attributes:
        offset_db: offset to the reported SINR; starts at 0 and is limited to +-`LARGEST_OFFSET_DB`.
    """

    def __init__(self, target: float, step_db: float) -> None:
        self.offset_db = 0.0
        # In equilibrium (1 - target) * up = target * down.
        self._down_db, self._up_db = step_db, step_db * target / (1.0 - target)

    def update(self, n_good: int, n_failed: int) -> None:
        """Update by the numbers of first copies that were decoded, and that failed."""
        offset_db = self.offset_db + n_good * self._up_db - n_failed * self._down_db
        self.offset_db = min(max(offset_db, -LARGEST_OFFSET_DB), LARGEST_OFFSET_DB)
