"""Does a warning come before the blockage does: blockages counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sheafedge.emulator.decisions.deadline import Deadline, deadline, onsets

FRAME_S = 0.1
HORIZON = 5


def flags(text: str) -> np.ndarray:
    """A frame per letter; # and ! are true."""
    return np.array([letter in "#!" for letter in text])


def seen(blocked: str, warned: str, latency_s: float = 0.0, needed_s: float = 0.08) -> Deadline:
    arrival_s = FRAME_S * np.arange(len(blocked)) + latency_s
    return deadline(flags(blocked), flags(warned), arrival_s, FRAME_S, HORIZON, needed_s)


def test_a_blockage_begins_after_a_clear_frame() -> None:
    assert onsets(flags("##..###.#")).tolist() == [4, 8]


def test_a_warning_leads_by_the_time_until_the_blockage_less_its_latency() -> None:
    one = seen("......####", "..!.......", latency_s=0.03)
    assert (one.in_time, one.late, one.missed) == (1, 0, 0)
    assert one.lead_s == [pytest.approx(0.37)]


@pytest.mark.parametrize(("latency_s", "in_time"), [(0.02, 1), (0.021, 0)])
def test_a_warning_is_late_when_too_little_is_left_to_act(latency_s: float, in_time: int) -> None:
    """The frame before the blockage is seen 100 ms ahead; 80 ms are needed."""
    one = seen("......####", ".....!....", latency_s=latency_s)
    assert (one.in_time, one.late) == (in_time, 1 - in_time)


def test_without_a_warning_in_the_frames_before_it_a_blockage_is_missed() -> None:
    """Neither one that looks no further than the clear frames, nor one of the blockage itself foretells it."""
    assert seen("..........####", "...!......!!!!").missed == 1
    assert seen("..........####", ".....!........").missed == 0


def test_a_warning_of_the_blockage_before_does_not_count() -> None:
    two = seen("...##..##", "..!!!....")
    assert (two.in_time, two.missed) == (1, 1)


def test_answers_that_never_came_are_no_warnings() -> None:
    arrival_s = np.full(10, np.inf)
    none = deadline(flags("......####"), flags("!!!!!!!!!!"), arrival_s, FRAME_S, HORIZON, 0.0)
    assert none.missed == 1
    assert none.false_alarms == 0


def test_false_alarms_are_counted_once_for_a_run_of_them() -> None:
    assert seen("." * 30, "!!.!......" + "." * 10 + "!.........").false_alarms == 2
    assert seen("......####", ".!!!!!....").false_alarms == 0


def test_figures_add_up_over_base_stations() -> None:
    total = seen("......####", "..!.......")
    total.add(seen("......####", ".........."))
    figures = total.figures()
    assert figures["blockages"] == 2
    assert figures["in_time_share"] == 0.5
    assert figures["median_lead_ms"] == pytest.approx(400.0)
    assert Deadline().figures() == {"blockages": 0, "in_time": 0, "late": 0, "missed": 0}
