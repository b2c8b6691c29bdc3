"""How often a coded block fails, and what repeating it brings: logistic block error curves and Chase combining.

A curve is pinned where one block in ten fails; from there to where every second fails it takes `width_db`, less for
longer blocks, because long codes have steep curves. Past the last row of the table its numbers hold on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from .tables import table
from .waves import Array

#: Odds of success against failure where one block in ten fails; curves are pinned there.
ODDS_AT_PIN = 9.0


def width_db(block_bits: Any) -> Array:
    """How far the SINR of 10 % block errors lies above that of 50 %: [...] bits -> [...] dB.

    Source: `tables/block_error.csv`, linear in the logarithm of the length.
    """
    return _by_length("width_db", block_bits)


def capacity_gap_db(block_bits: Any) -> Array:
    """How much more than Shannon's SINR a block needs for 10 % errors: [...] bits -> [...] dB.

    Source: as `width_db`.
    """
    return _by_length("gap_db", block_bits)


def block_error_rate(sinr_db: Any, ten_percent_db: Any, width_db: Any) -> Array:
    """Chance that a block fails.

    Args:
        sinr_db: [...] that it is received with; -inf fails for certain.
        ten_percent_db: [...] SINR at which one in ten fails.
        width_db: [...] above 0, from 50 % to 10 %.

    Returns:
        [...] = 1 / (1 + e^(k (sinr - s50))), with k = ln 9 / width and s50 = s10 - width.
    """
    half_db = np.asarray(ten_percent_db) - width_db
    slope = np.log(ODDS_AT_PIN) / np.asarray(width_db)
    exponent = np.clip(slope * (np.asarray(sinr_db) - half_db), -700.0, 700.0)  # beyond, exp leaves the floats
    return np.asarray(1.0 / (1.0 + np.exp(exponent)))


def sinr_for_error_rate(target: float, ten_percent_db: Any, width_db: Any) -> Array:
    """SINR at which blocks fail with this probability: the inverse of `block_error_rate`, [...] dB.

    Raises:
        ConfigError: the probability does not lie in (0, 1).
    """
    if not 0.0 < target < 1.0:
        raise ConfigError(f"a block error rate must lie in (0, 1), got {target}; 0.1 is usual")
    odds = (1.0 - target) / target
    return np.asarray(np.asarray(ten_percent_db) - width_db + np.asarray(width_db) * np.log(odds) / np.log(ODDS_AT_PIN))


def chase_combined_db(sinr_db: Array) -> Array:
    """SINR after every further copy of a block: [n_blocks, n_copies] dB -> [n_blocks, n_copies] dB.

    Maximum ratio combining of equal copies adds linear SINR.
    """
    return np.asarray(10.0 * np.log10(np.cumsum(10.0 ** (sinr_db / 10.0), axis=1)))


def transmit_blocks(
    sinr_db: Array, ten_percent_db: float, width_db: float, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Send blocks, each again until it is decoded or has had all its copies.

    Args:
        sinr_db: [n_blocks, n_copies] that each copy would be received with.
        ten_percent_db, width_db: of their code, see `block_error_rate`.
        draws: advances by n_blocks * n_copies numbers, whatever happens.

    Returns:
        [n_blocks] copies sent, and [n_blocks] True where all of them together were not enough. The share of the latter
        is the product over m of the block error rates after m copies.
    """
    failed = draws.random(sinr_db.shape) < block_error_rate(chase_combined_db(sinr_db), ten_percent_db, width_db)
    lost: NDArray[np.bool_] = np.asarray(failed.all(axis=1))
    copies = np.where(lost, sinr_db.shape[1], failed.argmin(axis=1) + 1)
    return copies.astype(np.int64), lost


def _by_length(column: str, block_bits: Any) -> Array:
    rows = table("block_error")
    return np.asarray(np.interp(np.log2(block_bits), np.log2(rows["block_bits"]), rows[column]))
