"""Windows of frames: which frames make an input, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import InputWindow


@given(frames=st.integers(1, 5), lag=st.integers(0, 3), axis=st.integers(0, 2), seed=st.integers(0, 9))
def test_inputs_are_what_a_plain_loop_would_stack(frames: int, lag: int, axis: int, seed: int) -> None:
    window = InputWindow("lidar", frames, lag, axis)
    recorded = np.random.default_rng(seed).normal(size=(12, 2, 3)).astype(np.float32)
    now = np.arange(window.reach, 12)
    inputs = window.gathered(recorded, now)
    assert inputs.shape[1:] == window.input_shape((2, 3))
    assert window.frame_shape(inputs.shape[1:]) == (2, 3)
    for value, instant in zip(inputs, now, strict=True):
        rows = range(instant - lag - frames + 1, instant - lag + 1)
        assert_array_equal(value, np.stack([recorded[row] for row in rows], axis=axis))
        for index, row in enumerate(rows):
            assert_array_equal(window.frame(value, index), recorded[row])
            assert window.behind[index] == instant - row


def test_an_input_of_one_frame_may_have_no_axis_of_frames() -> None:
    window = InputWindow("gps")
    recorded = np.arange(8.0).reshape(4, 2)
    assert window.input_shape((2,)) == window.frame_shape((2,)) == (2,)
    assert_array_equal(window.gathered(recorded, np.array([3, 0])), recorded[[3, 0]])
    assert_array_equal(window.frame(recorded[1]), recorded[1])
    assert_array_equal(InputWindow("gps", lag=2).gathered(recorded, np.array([3, 2])), recorded[[1, 0]])
    assert InputWindow("rf", 16, 1, 0).single == InputWindow("rf", 1, 1, 0)


@pytest.mark.parametrize("wrong", [{"frames": 0}, {"lag": -1}, {"frames": 2}, {"axis": -1}], ids=str)
def test_a_window_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a window of camera cannot have"):
        InputWindow("camera", **wrong)


def test_an_axis_beyond_the_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for an axis 2"):
        InputWindow("rf", 3, axis=2).input_shape((8,))
