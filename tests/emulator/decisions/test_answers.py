"""When answers arrive: a device that keeps pace answers everything, a slow one leaves frames out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.emulator.decisions.service import arrivals_s

SENSED_S = np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def test_a_device_that_keeps_pace_answers_every_frame() -> None:
    assert_allclose(arrivals_s(SENSED_S, 0.25), SENSED_S + 0.25)


def test_a_slow_device_takes_the_newest_frame_whenever_it_is_done() -> None:
    """Busy until 2.5 with frame 0; then frame 2 until 5.0; then frame 4."""
    assert arrivals_s(SENSED_S, 2.5).tolist() == [2.5, np.inf, 5.0, np.inf, 7.5]


@given(seconds=st.floats(0.0, 10.0), n=st.integers(0, 30))
def test_no_answer_comes_before_its_work_and_none_overlaps_another(seconds: float, n: int) -> None:
    sensed_s = np.arange(n) * 0.5
    arrival_s = arrivals_s(sensed_s, seconds)
    heard = np.isfinite(arrival_s)
    assert (arrival_s >= sensed_s + seconds).all()
    assert (np.diff(arrival_s[heard]) >= seconds - 1e-9).all()
    assert heard.any() == (n > 0)
