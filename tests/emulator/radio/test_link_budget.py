"""Noise floors and beams: printed values."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.radio.link_budget import noise_floor_dbm, off_beam_loss_db


@pytest.mark.parametrize(("bandwidth_hz", "printed_dbm"), [(100e6, -87.0), (1e9, -77.0)])
def test_noise_floors_equal_the_printed_ones(bandwidth_hz: float, printed_dbm: float) -> None:
    assert_allclose(noise_floor_dbm(bandwidth_hz, 7.0), printed_dbm, atol=1e-9)


def test_a_beam_is_three_db_down_at_half_its_width_and_never_below_its_back() -> None:
    assert_allclose(off_beam_loss_db(np.radians([0.0, 5.0, -5.0, 90.0, 180.0]), 10.0, 30.0), [0, 3, 3, 30, 30])


def test_whole_turns_do_not_matter() -> None:
    angles = np.radians([2.0, -4.0])
    assert_allclose(off_beam_loss_db(angles + 4.0 * np.pi, 10.0, 30.0), off_beam_loss_db(angles, 10.0, 30.0))
