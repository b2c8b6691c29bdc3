"""What a user's link carries: the standard's rates, less what fails, and nothing below the lowest."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.radio.block_error import block_error_rate
from sheafedge.emulator.radio.link_adaptation import BlockRates
from sheafedge.emulator.radio.tables import table

WHOLE_BYTES = 1e-2  # of a block at the lowest rate


def test_a_perfect_link_carries_the_highest_efficiency_of_the_standard_less_overhead() -> None:
    link = AccessLink(bandwidth_hz=100e6, overhead_share=0.18)
    assert_allclose(link.rate_bps(60.0), 82e6 * table("cqi")["efficiency"][-1], rtol=WHOLE_BYTES)


def test_below_the_lowest_indicator_nothing_arrives() -> None:
    link = AccessLink()
    lowest_db = BlockRates.of(100e6 * 125e-6 * 0.82, implementation_loss_db=2.0).needed_db[0]
    assert link.rate_bps(lowest_db - 1e-6) == 0.0
    assert link.rate_bps(lowest_db + 1e-6) > 0.0


def test_more_signal_never_carries_less_although_rates_are_steps() -> None:
    """At the step to the highest rate one block in ten fails, and the rate below it brings more."""
    snr_db = np.arange(-15.0, 30.0, 0.001)
    rate_bps = AccessLink().rate_bps(snr_db)
    assert (np.diff(rate_bps) >= 0.0).all()
    rates = BlockRates.of(100e6 * 125e-6 * 0.82, implementation_loss_db=2.0)
    at_step = float(rates.needed_db[14]) + 1e-9
    ninety_percent = (1 - block_error_rate(at_step, rates.ten_percent_db[14], rates.width_db[14])) * rates.block_bytes[
        14
    ]
    assert AccessLink().rate_bps(at_step) > 8 * ninety_percent / 125e-6


def test_outage_is_less_than_is_needed_and_always_nothing() -> None:
    assert AccessLink(needed_bps=45e6).in_outage([0.0, 44e6, 45e6]).tolist() == [True, True, False]
    assert AccessLink(needed_bps=0.0).in_outage([0.0, 1.0]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"bandwidth_hz": 1e5}, ["decision.link.bandwidth_hz", "got 100000"]),
        ({"overhead_share": 0.95}, ["decision.link.overhead_share"]),
        ({"bandwidth_hz": 1e6, "slot_s": 1e-6}, ["decision.link.bandwidth_hz", "too few"]),
    ],
)
def test_what_no_radio_can_do_is_refused(setting: dict[str, float], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        AccessLink(**setting)
    assert [word for word in words if word not in str(caught.value)] == []
