"""Sensors whose clocks run ahead: rows worked out by hand, and what a buffer shows of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sheafedge.datasets.windows.clock_drift import ClockDrift, rows_seen
from sheafedge.datasets.windows.sensed_frames import SensedFrames

TIMES_S = np.arange(8) / 2.0  # two frames a second
ONE_SEQUENCE = np.zeros(8, dtype=np.int64)


def seen(drift: ClockDrift, sequence: NDArray[np.int64] = ONE_SEQUENCE) -> list[int]:
    return rows_seen(TIMES_S, sequence, drift).tolist()


def test_a_clock_that_is_right_shows_every_frame_at_its_time() -> None:
    assert seen(ClockDrift()) == list(range(8))
    assert rows_seen(TIMES_S[:0], ONE_SEQUENCE[:0], ClockDrift(jump_s=1.0)).tolist() == []


def test_after_a_jump_a_sensor_shows_what_it_saw_that_much_before() -> None:
    assert seen(ClockDrift(jump_s=1.0, jump_at_s=2.0)) == [0, 1, 2, 3, 2, 3, 4, 5]
    assert seen(ClockDrift(jump_s=1.0)) == [0, 0, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("jump_s", "rows"), [(0.2, 0), (0.3, 1), (0.7, 1), (0.8, 2)])
def test_the_nearest_frame_is_shown(jump_s: float, rows: int) -> None:
    assert seen(ClockDrift(jump_s=jump_s))[4:] == [4 - rows, 5 - rows, 6 - rows, 7 - rows]


def test_a_clock_that_runs_too_fast_is_further_ahead_the_longer_it_runs() -> None:
    """A quarter too fast: after 2 s it is half a second ahead, after 3.5 s nearly a whole one."""
    assert seen(ClockDrift(ppm=250_000)) == [0, 1, 2, 2, 3, 4, 5, 5]
    assert seen(ClockDrift(ppm=250_000), ONE_SEQUENCE + 7) == [0, 1, 2, 2, 3, 4, 5, 5]


def test_nothing_is_shown_of_the_sequence_before_or_of_the_future() -> None:
    two = np.array([3, 3, 3, 3, 5, 5, 5, 5])
    assert seen(ClockDrift(jump_s=1.0), two) == [0, 0, 0, 1, 4, 4, 4, 5]
    assert (rows_seen(TIMES_S, two, ClockDrift(ppm=300_000, jump_s=0.4)) <= np.arange(8)).all()


def test_one_sensor_shows_other_frames_and_all_else_stays() -> None:
    gps = np.arange(16.0).reshape(8, 2)
    powers = np.arange(1.0, 25.0).reshape(8, 3)
    sensed = SensedFrames("street", ("rf", "gps"), keep_powers=True, gps_columns=("x_m", "y_m"))
    sensed.append({"time_s": TIMES_S, "sequence": ONE_SEQUENCE, "gps": gps, "rf": powers})
    rows = np.array([0, 0, 0, 1, 2, 3, 4, 5])
    late = sensed.showing("rf", rows)
    assert (late.frames("rf") == sensed.frames("rf")[rows]).all()
    assert (late.powers == powers).all()
    assert (late.frames("gps") == gps).all()
    assert late.n_frames == 8
    assert (sensed.frames("rf")[1] != late.frames("rf")[1]).all()  # the buffer itself is as it was
