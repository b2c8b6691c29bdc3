"""Which rate a radio chooses: printed thresholds, and an outer loop that keeps its promise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.block_error import block_error_rate
from sheafedge.emulator.radio.link_adaptation import LARGEST_OFFSET_DB, BlockRates, OuterLoop, ten_percent_sinr_db
from sheafedge.emulator.radio.tables import table

#: SINR of 10 % block errors with a gap of 1.5 dB, for indicators 1 to 15.
PRINTED_DB = [-8.0, -6.0, -3.7, -1.4, 0.7, 2.5, 4.0, 5.9, 7.8, 9.0, 11.0, 12.9, 14.9, 16.8, 18.1]
ROUNDED_DB = 0.051  # printed with one digit
SYMBOLS = 41_000.0  # 400 MHz for 125 us, a fifth of it overhead
N_BLOCKS = 20_000
STANDARD_ERRORS = 3.0


def test_thresholds_equal_all_fifteen_printed_values() -> None:
    found = ten_percent_sinr_db(table("cqi")["efficiency"], 1.5)
    assert len(found) == len(PRINTED_DB) == 15
    assert_allclose(found, PRINTED_DB, atol=ROUNDED_DB)


def test_long_blocks_need_the_printed_sinr_and_receivers_a_little_more() -> None:
    assert_allclose(BlockRates.of(SYMBOLS).needed_db, PRINTED_DB, atol=ROUNDED_DB)
    lossy = BlockRates.of(SYMBOLS, implementation_loss_db=2.0)
    assert_allclose(lossy.needed_db - BlockRates.of(SYMBOLS).needed_db, 2.0, rtol=1e-12)


def test_short_blocks_need_more() -> None:
    assert (BlockRates.of(400.0).needed_db > BlockRates.of(SYMBOLS).needed_db)[:5].all()


def test_the_highest_rate_that_meets_the_target_is_chosen() -> None:
    rates = BlockRates.of(SYMBOLS)
    for rate, needed_db in enumerate(rates.needed_db):
        assert rates.choose(float(needed_db) + 1e-6) == rate
        assert rates.choose(float(needed_db) - 1e-6) == max(0, rate - 1)
    assert rates.choose(-np.inf) == 0
    assert rates.choose(100.0) == 14


def test_blocks_too_short_for_a_curve_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"links\.radio\.bandwidth_hz"):
        BlockRates.of(100.0)


@pytest.mark.parametrize("report_error_db", [3.0, -3.0])
def test_the_outer_loop_meets_its_target_in_spite_of_wrong_reports(report_error_db: float) -> None:
    failed = _failed_share(report_error_db, step_db=0.1)
    assert abs(failed - 0.1) < STANDARD_ERRORS * np.sqrt(0.1 * 0.9 / N_BLOCKS)
    assert abs(_failed_share(report_error_db, step_db=0.0) - 0.1) > 0.05  # without it, reports are believed


def test_the_outer_loop_stops_where_the_highest_rate_is_too_easy() -> None:
    loop = OuterLoop(0.1, 0.1)
    loop.update(1_000_000, 0)
    assert loop.offset_db == LARGEST_OFFSET_DB
    loop.update(0, 1_000_000)
    assert loop.offset_db == -LARGEST_OFFSET_DB


def _failed_share(report_error_db: float, step_db: float) -> float:
    """Of blocks over a link whose SINR wanders, reported with an error."""
    draws = np.random.default_rng(11)
    rates, loop = BlockRates.of(SYMBOLS), OuterLoop(0.1, step_db)
    sinr_db = 8.0 + 4.0 * np.sin(np.arange(N_BLOCKS) / 300.0)
    n_failed = 0
    for now_db, chance in zip(sinr_db.tolist(), draws.random(N_BLOCKS).tolist(), strict=True):
        rate = rates.choose(now_db + report_error_db + loop.offset_db)
        failed = chance < block_error_rate(now_db, rates.ten_percent_db[rate], rates.width_db[rate])
        loop.update(int(not failed), int(failed))
        n_failed += int(failed)
    return n_failed / N_BLOCKS
