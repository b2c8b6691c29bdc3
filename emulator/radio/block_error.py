"""Block errors: logistic block error curves, and HARQ with Chase combining.

A curve is defined by the SINR of 10 % block errors and its distance `width_db` to that of 50 %. Longer blocks have
smaller widths, because long codes have steep curves. Beyond the last row of the table its values are constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from .tables import table
from .waves import Array

#: Odds of success at a block error rate of 10 %, the reference point of the curves.
ODDS_AT_PIN = 9.0


def width_db(block_bits: Any) -> Array:
    """Difference between the SINR of 10 % and of 50 % block errors: [...] bits -> [...] dB.

    Source: `tables/block_error.csv`, linear in the logarithm of the length.
    """
    return _by_length("width_db", block_bits)


def capacity_gap_db(block_bits: Any) -> Array:
    """Gap to capacity: SINR for 10 % block errors above the Shannon limit: [...] bits -> [...] dB.

    Source: as `width_db`.
    """
    return _by_length("gap_db", block_bits)


def block_error_rate(sinr_db: Any, ten_percent_db: Any, width_db: Any) -> Array:
    """Block error probability.

    Args:
        sinr_db: [...] received SINR; a block with -inf always fails.
        ten_percent_db: [...] SINR of 10 % block errors.
        width_db: [...] above 0, see `width_db`.

    Returns:
        [...] = 1 / (1 + e^(k (sinr - s50))), with k = ln 9 / width and s50 = s10 - width.
    """
    half_db = np.asarray(ten_percent_db) - width_db
    slope = np.log(ODDS_AT_PIN) / np.asarray(width_db)
    exponent = np.clip(slope * (np.asarray(sinr_db) - half_db), -700.0, 700.0)  # avoids overflow of exp
    return np.asarray(1.0 / (1.0 + np.exp(exponent)))


def sinr_for_error_rate(target: float, ten_percent_db: Any, width_db: Any) -> Array:
    """SINR for a given block error probability: the inverse of `block_error_rate`, [...] dB.

    Raises:
        ConfigError: the probability does not lie in (0, 1).
    """
    if not 0.0 < target < 1.0:
        raise ConfigError(f"a block error rate must lie in (0, 1), got {target}; 0.1 is usual")
    odds = (1.0 - target) / target
    return np.asarray(np.asarray(ten_percent_db) - width_db + np.asarray(width_db) * np.log(odds) / np.log(ODDS_AT_PIN))


def chase_combined_db(sinr_db: Array) -> Array:
    """SINR after each received copy of a block: [n_blocks, n_copies] dB -> [n_blocks, n_copies] dB.

    Maximum ratio combining of equal copies adds linear SINR.
    """
    return np.asarray(10.0 * np.log10(np.cumsum(10.0 ** (sinr_db / 10.0), axis=1)))


def transmit_blocks(
    sinr_db: Array, ten_percent_db: float, width_db: float, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Transmission of blocks, each repeated until it is decoded or all its copies are used.

    Args:
        sinr_db: [n_blocks, n_copies] received SINR of each copy.
        ten_percent_db, width_db: see `block_error_rate`.
        draws: advances by n_blocks * n_copies numbers, for any outcome.

    Returns:
        [n_blocks] copies sent, and [n_blocks] True where the block was not decoded. The probability of the latter
        is the product over m of the block error rates after m copies.
    """
    failed = draws.random(sinr_db.shape) < block_error_rate(chase_combined_db(sinr_db), ten_percent_db, width_db)
    lost: NDArray[np.bool_] = np.asarray(failed.all(axis=1))
    copies = np.where(lost, sinr_db.shape[1], failed.argmin(axis=1) + 1)
    return copies.astype(np.int64), lost


def _by_length(column: str, block_bits: Any) -> Array:
    rows = table("block_error")
    return np.asarray(np.interp(np.log2(block_bits), np.log2(rows["block_bits"]), rows[column]))
