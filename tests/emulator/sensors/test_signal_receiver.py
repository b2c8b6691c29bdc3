"""Readings of the user's own power: which instants they are of, and what pieces change."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.signal_receiver import SignalReceiver, SignalSettings

EXACT = SignalSettings(noise_db=0.0)


def receiver(settings: SignalSettings = EXACT, n_readings: int = 5) -> SignalReceiver:
    return SignalReceiver(settings, n_readings, np.random.default_rng(3))


def ramp(n_frames: int) -> np.ndarray:
    """[F, 10] power that tells its instant in hundredths of a second."""
    return np.arange(10.0 * n_frames, dtype=np.float32).reshape(n_frames, 10)


def test_readings_are_of_the_time_since_the_frame_before_and_know_nothing_after_it() -> None:
    read = receiver().sense(ramp(4))
    assert read[1:].tolist() == [[10 * k + step for step in (-8, -6, -4, -2, 0)] for k in (1, 2, 3)]
    assert read[0].tolist() == [0.0] * 5


def test_pieces_of_any_size_give_the_same_readings() -> None:
    whole, parts = receiver(SignalSettings()), receiver(SignalSettings())
    assert_array_equal(whole.sense(ramp(7)), np.concatenate([parts.sense(ramp(7)[:3]), parts.sense(ramp(7)[3:])]))


def test_noise_is_as_large_as_it_is_set() -> None:
    read = receiver(SignalSettings(noise_db=2.0)).sense(np.zeros((4000, 10), dtype=np.float32))
    assert read.std() == pytest.approx(2.0, rel=0.05)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"world\.signal"):
        SignalSettings(noise_db=-1.0)
