"""The checked reader of saved states, parts by name, and what happens to half a state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sheafedge.emulator.contracts import ConfigError, State
from sheafedge.emulator.saved_state import Parts, SavedState, restore_whole

# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [10**400, -(2**63), True, "1", None, [1.0]])
def test_what_is_no_number_is_refused(number: Any) -> None:
    with pytest.raises(ConfigError, match="the whole must be a number, got"):
        SavedState(number).number()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -0.0, 3, 1e-300])
def test_any_other_number_is_taken(number: float) -> None:
    assert repr(SavedState(number).number()) == repr(float(number))


def test_parts_that_are_missing_or_too_many_are_named() -> None:
    saved = SavedState({"head": {"a": 1, "b": 2}}).parts("head")["head"]
    with pytest.raises(ConfigError, match=r"head must have a part 'c', got none"):
        saved.parts("a", "b", "c")
    with pytest.raises(ConfigError, match=r"head must have no part 'b', got one"):
        saved.parts("a")


def test_one_part_is_read_whatever_stands_beside_it() -> None:
    saved = SavedState({"clock": {"now_s": 1.5}, "later": 0}, owner="a run")
    assert saved.part("clock").part("now_s").number() == 1.5
    with pytest.raises(ConfigError, match=r"^state of a run: clock must have a part 'streams', got none"):
        saved.part("clock").part("streams")


def test_a_list_of_any_length_is_read_and_its_entries_are_numbered() -> None:
    saved = SavedState({"jobs": [1, "two"]}).part("jobs")
    assert saved.listed()[0].count() == 1
    with pytest.raises(ConfigError, match=r"jobs\[1\] must be a whole number from 0 to .*, got a value of type str"):
        saved.listed()[1].count()
    with pytest.raises(ConfigError, match="jobs must be a list of 3, got 2"):
        saved.listed(3)


def test_a_flat_tree_is_read_by_prefix() -> None:
    saved = SavedState({"encoder.rf.unsent": 1, "encoder.gps.unsent": 2}).prefixed("encoder.gps")
    assert saved.parts("unsent")["unsent"].count() == 2
    with pytest.raises(ConfigError, match=r"encoder\.gps\.unsent must be text"):
        saved.parts("unsent")["unsent"].text()


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 8, 2**63])
def test_what_is_no_count_within_the_limit_is_refused(value: Any) -> None:
    assert [SavedState(most).count(7) for most in (0, 7)] == [0, 7]
    with pytest.raises(ConfigError, match="the whole must be a whole number from 0 to 7, got"):
        SavedState(value).count(7)


@pytest.mark.parametrize("value", [0, 1, None, "true"])
def test_a_number_is_no_truth_value(value: Any) -> None:
    assert (SavedState(True).flag(), SavedState(False).flag()) == (True, False)
    with pytest.raises(ConfigError, match="the whole must be true or false, got"):
        SavedState(value).flag()


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 4)), np.zeros((3, 3)), np.zeros(2), np.zeros((2, 3, 1)), np.zeros((2, 3), dtype=np.float32), [0.0]],
    ids=str,
)
def test_an_array_of_another_type_or_shape_is_refused(array: Any) -> None:
    with pytest.raises(ConfigError, match=r"the whole must be float64 of shape \[2, 3\], got"):
        SavedState(array).array(np.dtype(np.float64), 2, 3)


def test_an_array_is_copied_out_of_a_state_and_may_be_of_any_length() -> None:
    kept = np.arange(6.0).reshape(2, 3)
    read = SavedState(kept).array(np.dtype(np.float64), None, 3)
    read += 1.0
    assert kept.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_a_prefix_ends_at_its_dot() -> None:
    saved = SavedState({"encoder.rf.unsent": 1, "encoder.rf2.unsent": 2}).prefixed("encoder.rf")
    assert list(saved.named()) == ["unsent"]


# --- half a state ---------------------------------------------------------------------------------------------------


class Two:
    """Remembers two numbers, and falls over the second one if it is negative."""

    def __init__(self) -> None:
        self.first, self.second = 1.0, 2.0

    def state(self) -> State:
        return {"first": self.first, "second": self.second}

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("first", "second")
        self.first = parts["first"].number()
        if parts["second"].number() < 0.0:
            raise MemoryError("no room")
        self.second = parts["second"].number()


@pytest.mark.parametrize(("second", "error"), [("x", ConfigError), (-1.0, MemoryError)])
def test_half_a_state_is_taken_back(second: Any, error: type[Exception]) -> None:
    """Whatever went wrong with the other half."""
    two = Two()
    with pytest.raises(error):
        restore_whole(two, {"first": 5.0, "second": second})
    assert (two.first, two.second) == (1.0, 2.0)
    restore_whole(two, {"first": 5.0, "second": 6.0})
    assert (two.first, two.second) == (5.0, 6.0)


def test_parts_by_name_are_one_part() -> None:
    one, other = Two(), Two()
    both = Parts(one=one, other=other)
    assert both.state() == {"one": one.state(), "other": other.state()}
    assert list(both) == ["one", "other"]
    assert both["other"] is other
    both.restore(SavedState({"other": {"first": 3.0, "second": 4.0}, "one": one.state()}))
    assert (one.first, other.first, other.second) == (1.0, 3.0, 4.0)
    with pytest.raises(ConfigError, match="have a part 'other'"):
        both.restore(SavedState({"one": one.state()}))
    with pytest.raises(ConfigError, match=r"other\.second must be a number"):
        restore_whole(both, {"one": {"first": 9.0, "second": 9.0}, "other": {"first": 9.0, "second": "x"}})
    assert one.first == 1.0
