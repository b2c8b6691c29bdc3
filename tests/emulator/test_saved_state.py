"""The checked reader of saved states, parts by name, and what happens to half a state."""

from __future__ import annotations

from typing import Any

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
