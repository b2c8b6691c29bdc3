"""Timetables of outages: what they answer depends on the stream and the instant, never on what was asked before."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sheafedge.emulator.faults.outages import NEVER, Outage, RandomOutages, ScheduledOutages, Timetable
from sheafedge.emulator.random_streams import named_stream

MEAN_UP_S, MEAN_DOWN_S = 8.0, 2.0
STANDARD_ERRORS = 4.0  # one test in 16,000 would fail by chance
N_OUTAGES = 4000


def random_outages(seed: int = 0) -> RandomOutages:
    return RandomOutages(named_stream(seed, "fault", 0), MEAN_UP_S, MEAN_DOWN_S)


def first_outages(outages: RandomOutages, n: int) -> list[Outage]:
    found, now_s = [], 0.0
    for _ in range(n):
        found.append(outages.next(now_s))
        now_s = found[-1].end_s
    return found


def test_an_outage_takes_its_first_instant_and_leaves_its_last_one_out() -> None:
    table = Timetable([ScheduledOutages([Outage(2.0, 5.0)])])
    assert [table.is_out(now_s) for now_s in (0.0, 1.999, 2.0, 4.999, 5.0, 9.0)] == [False, False, True, True] + [
        False
    ] * 2
    assert [table.goes_out_s(now_s) for now_s in (0.0, 2.0, 3.0)] == [2.0, 2.0, 2.0]
    assert table.goes_out_s(5.0) == math.inf
    assert [table.back_s(now_s) for now_s in (1.0, 2.0, 4.0, 5.0)] == [1.0, 5.0, 5.0, 5.0]


def test_outages_one_after_the_other_are_told_one_after_the_other() -> None:
    outages = ScheduledOutages([Outage(1.0, 2.0), Outage(2.0, 3.0), Outage(6.0, math.inf)])
    assert outages.next(2.0) == Outage(2.0, 3.0)
    assert Timetable([outages]).back_s(1.5) == 3.0
    assert Timetable([outages]).back_s(7.0) == math.inf
    assert ScheduledOutages([]).next(0.0) == NEVER


def test_what_fails_in_two_ways_is_back_when_both_are_over() -> None:
    table = Timetable([ScheduledOutages([Outage(1.0, 3.0), Outage(4.0, 6.0)]), ScheduledOutages([Outage(2.0, 4.5)])])
    assert table.back_s(1.0) == 6.0
    assert table.goes_out_s(0.5) == 1.0
    assert not table.is_out(6.0)


@pytest.mark.parametrize(
    ("stretch", "met"),
    [((0.0, 1.9), False), ((0.0, 2.0), True), ((3.0, 3.5), True), ((4.9, 9.0), True), ((5.0, 9.0), False)],
)
def test_a_stretch_meets_an_outage_that_any_of_its_instants_is_in(stretch: tuple[float, float], met: bool) -> None:
    assert Timetable([ScheduledOutages([Outage(2.0, 5.0)])]).touches(*stretch) == met


def test_nothing_fails_without_a_timetable() -> None:
    table = Timetable()
    assert (table.is_out(0.0), table.goes_out_s(0.0), table.back_s(3.0)) == (False, math.inf, 3.0)


def test_random_outages_have_the_mean_times_that_were_asked_for() -> None:
    outages = first_outages(random_outages(), N_OUTAGES)
    ends_s = [0.0, *(outage.end_s for outage in outages)]
    ups_s = [outage.start_s - end_s for outage, end_s in zip(outages, ends_s, strict=False)]
    downs_s = [outage.end_s - outage.start_s for outage in outages]
    for times_s, mean_s in ((ups_s, MEAN_UP_S), (downs_s, MEAN_DOWN_S)):
        error_s = mean_s / math.sqrt(N_OUTAGES)  # an exponential time deviates by its mean
        assert abs(np.mean(times_s) - mean_s) < STANDARD_ERRORS * error_s
        assert abs(np.mean(times_s) - 1.3 * mean_s) > STANDARD_ERRORS * error_s  # so the test can tell
        assert np.std(times_s) == pytest.approx(mean_s, rel=0.1)


def test_random_outages_answer_alike_in_whatever_order_they_are_asked() -> None:
    instants = np.random.default_rng(1).uniform(0.0, 5000.0, size=200).tolist()
    forwards, backwards, once = random_outages(), random_outages(), [random_outages().next(at_s) for at_s in instants]
    assert [forwards.next(at_s) for at_s in sorted(instants)] == [
        one for _, one in sorted(zip(instants, once, strict=True))
    ]
    assert [backwards.next(at_s) for at_s in sorted(instants, reverse=True)][::-1] == [
        one for _, one in sorted(zip(instants, once, strict=True))
    ]
    assert all(one.end_s > at_s for at_s, one in zip(instants, once, strict=True))


def test_another_seed_gives_other_outages() -> None:
    assert first_outages(random_outages(0), 5) == first_outages(random_outages(0), 5)
    assert first_outages(random_outages(0), 5) != first_outages(random_outages(1), 5)
