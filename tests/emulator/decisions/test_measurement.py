"""What a network knows of its user's cells: the layer-3 filter against its closed form, readings, their noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.measurement import (
    FILTER_COEFFICIENTS,
    TIMES_TO_TRIGGER_S,
    MeasurementChain,
    filtered_db,
)


@given(
    coefficient=st.sampled_from(FILTER_COEFFICIENTS),
    period_s=st.sampled_from([0.005, 0.02, 0.04, 0.2, 0.4]),
    sample_s=st.sampled_from([0.2, 0.4]),
)
def test_a_step_is_answered_as_the_standard_s_closed_form_says_at_any_period(
    coefficient: int, period_s: float, sample_s: float
) -> None:
    """After the time t a step has come through but for (1 - a)^(t / X), a = 2^(-k / 4)."""
    chain = MeasurementChain(period_s=period_s, noise_db=0.0, filter_coefficient=coefficient, filter_sample_s=sample_s)
    step_db = np.concatenate([np.zeros(1), np.full(50, -20.0)])
    after_s = period_s * np.arange(51)
    left = (1.0 - 2.0 ** (-coefficient / 4.0)) ** (after_s / sample_s)
    assert_allclose(filtered_db(step_db, chain.newest_weight), -20.0 * (1.0 - left), atol=1e-9)


def test_the_usual_filter_takes_over_half_a_second_in_millimeter_waves() -> None:
    """k = 4: a = 1/2 of X = 400 ms, so the time constant is 400 ms / ln 2."""
    chain = MeasurementChain(filter_coefficient=4)
    assert chain.period_s / -np.log(1.0 - chain.newest_weight) == pytest.approx(0.4 / np.log(2.0))


def test_without_a_coefficient_readings_are_the_powers() -> None:
    chain = MeasurementChain(noise_db=0.0)
    snr_db = np.array([[15.0, 15.0, -10.0], [9.0, 9.0, 8.0]])
    readings = chain.readings_db(snr_db, 0.04, np.random.default_rng(0))
    assert readings.tolist() == np.repeat(snr_db, 2, axis=1).tolist()
    assert chain.instants_s(0.12) == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1])


def test_readings_have_the_noise_that_was_asked_for() -> None:
    flat = np.zeros((2, 5000))
    readings = MeasurementChain(noise_db=2.0).readings_db(flat, 0.02, np.random.default_rng(0))
    assert readings.std() == pytest.approx(2.0, rel=0.05)
    assert np.corrcoef(readings)[0, 1] == pytest.approx(0.0, abs=0.05)
    smooth = MeasurementChain(noise_db=2.0, filter_coefficient=4).readings_db(flat, 0.02, np.random.default_rng(0))
    assert smooth.std() < 0.5


def test_the_times_to_trigger_are_the_sixteen_of_the_standard() -> None:
    in_ms = [round(1e3 * seconds) for seconds in TIMES_TO_TRIGGER_S]
    assert in_ms == [0, 40, 64, 80, 100, 128, 160, 256, 320, 480, 512, 640, 1024, 1280, 2560, 5120]


def test_a_coefficient_that_the_standard_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"filter_coefficient must be one of 0, 1, .*19, got 10"):
        MeasurementChain(filter_coefficient=10)
    with pytest.raises(ConfigError, match=r"decision\.measurement\.period_s must lie in"):
        MeasurementChain(period_s=0.0)
