"""Block errors: the fitted curves, and what repeating a block brings."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.block_error import (
    ODDS_AT_PIN,
    block_error_rate,
    capacity_gap_db,
    chase_combined_db,
    sinr_for_error_rate,
    transmit_blocks,
    width_db,
)

#: Block bits, 50 to 10 % width, slope and gap as printed; slopes were rounded to two digits, from unrounded widths.
PRINTED = [(24, 2.35, 0.94, 3.0), (100, 1.36, 1.6, 2.35), (500, 0.74, 3.0, 1.65), (1000, 0.55, 4.0, 1.57)]
PRINTED += [(2000, 0.38, 5.7, 1.50)]
ROUNDED_SLOPE = 0.02
N_BLOCKS = 40_000
STANDARD_ERRORS = 3.0


def test_curves_equal_all_printed_rows() -> None:
    for bits, width, slope, gap in PRINTED:
        assert_allclose(width_db(bits), width, rtol=1e-12)
        assert_allclose(capacity_gap_db(bits), gap, rtol=1e-12)
        assert_allclose(np.log(ODDS_AT_PIN) / width_db(bits), slope, rtol=ROUNDED_SLOPE)
    assert len(PRINTED) == 5


def test_longer_blocks_have_steeper_curves_up_to_the_end_of_the_table() -> None:
    widths = width_db(np.array([24, 50, 100, 300, 1000, 1500, 2000]))
    assert (np.diff(widths) < 0.0).all()
    assert width_db(50_000) == width_db(2000)
    assert width_db(10) == width_db(24)


def test_a_curve_is_pinned_at_one_in_ten_and_at_one_in_two() -> None:
    assert_allclose(block_error_rate(np.array([5.0, 4.5]), 5.0, 0.5), [0.1, 0.5], rtol=1e-12)
    assert_allclose(block_error_rate(np.array([-np.inf, np.inf]), 5.0, 0.5), [1.0, 0.0], atol=1e-300)


@pytest.mark.parametrize("target", [0.01, 0.1, 0.3, 0.5])
def test_the_sinr_for_an_error_rate_gives_that_rate(target: float) -> None:
    assert_allclose(block_error_rate(sinr_for_error_rate(target, 7.0, 0.38), 7.0, 0.38), target, rtol=1e-9)


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, float("nan")])
def test_certainty_has_no_sinr(target: float) -> None:
    with pytest.raises(ConfigError, match="must lie in"):
        sinr_for_error_rate(target, 7.0, 0.38)


def test_combining_adds_linear_sinr() -> None:
    combined = chase_combined_db(np.array([[0.0, 0.0, 0.0, 0.0], [10.0, 0.0, -np.inf, 10.0]]))
    assert_allclose(combined[0], [0.0, 3.0103, 4.7712, 6.0206], atol=1e-4)
    assert_allclose(combined[1], 10.0 * np.log10([10.0, 11.0, 11.0, 21.0]), rtol=1e-12)


def test_what_is_lost_after_all_copies_is_the_product_of_the_error_rates() -> None:
    """Two copies suffice for a good measure: beyond, nothing is lost at any SINR worth measuring."""
    ten_percent_db, width, sinr_db = 8.0, 2.35, 3.5
    rates = block_error_rate(chase_combined_db(np.full((1, 2), sinr_db)), ten_percent_db, width)[0]
    copies, lost = transmit_blocks(np.full((N_BLOCKS, 2), sinr_db), ten_percent_db, width, np.random.default_rng(3))
    expected = float(rates.prod())
    error = np.sqrt(expected * (1.0 - expected) / N_BLOCKS)
    assert abs(lost.mean() - expected) < STANDARD_ERRORS * error
    assert abs(copies.mean() - (1.0 + rates[0])) < STANDARD_ERRORS * np.sqrt(rates[0] * (1.0 - rates[0]) / N_BLOCKS)
    without_combining = float(rates[0] ** 2)
    assert abs(lost.mean() - without_combining) > 10.0 * error  # a model that forgot to combine would be caught


def test_a_block_is_sent_again_only_until_it_is_decoded() -> None:
    sinr_db = np.array([[30.0, -30.0, -30.0], [-30.0, 30.0, 30.0], [-30.0, -30.0, 30.0], [-30.0, -30.0, -30.0]])
    copies, lost = transmit_blocks(sinr_db, 5.0, 0.38, np.random.default_rng(0))
    assert copies.tolist() == [1, 2, 3, 3]
    assert lost.tolist() == [False, False, False, True]
