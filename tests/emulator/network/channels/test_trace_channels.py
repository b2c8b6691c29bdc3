"""Replays of recorded links, exact to the grain of the recording."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.network.channels.traces import (
    OPPORTUNITY_BYTES,
    RecordedDelay,
    RecordedLoss,
    RecordedOpportunities,
    RecordedRate,
    TraceClock,
)

ROUNDING = (
    1e-9  # seconds; a sum of float64 of a few hundred seconds; the grain of the finest trace is a million times that
)
MS = 1e-3


# --- packet opportunities (mahimahi) ----------------------------------------------------------------------------------


def departures_by_hand(trace_ms: list[int], messages: list[tuple[int, int]]) -> list[int]:
    """When each message has left, in ms: a walk over all opportunities, one after the other, in whole numbers.

    Args:
        trace_ms: instants of one replay.
        messages: when each is ready in ms, ascending, and its bytes.
    """
    opportunities = (lap * trace_ms[-1] + instant for lap in itertools.count() for instant in trace_ms)
    left, departures = [size for _, size in messages], []
    for now_ms in opportunities:
        budget = OPPORTUNITY_BYTES
        for index in range(len(departures), len(messages)):
            if messages[index][0] > now_ms or budget == 0:
                break
            sent = min(budget, left[index])
            left[index], budget = left[index] - sent, budget - sent
            if left[index] == 0:
                departures.append(now_ms)
        if len(departures) == len(messages):
            return departures
    raise AssertionError("a replay has no end")


@given(
    trace_ms=st.lists(st.integers(0, 30), min_size=1, max_size=12).map(sorted).filter(lambda trace: trace[-1] > 0),
    messages=st.lists(st.tuples(st.integers(0, 100), st.integers(1, 6000)), min_size=1, max_size=12).map(
        lambda pairs: sorted(pairs, key=lambda pair: pair[0])
    ),
)
def test_every_byte_leaves_at_the_instant_that_the_trace_says(
    trace_ms: list[int], messages: list[tuple[int, int]]
) -> None:
    pace, free_s = RecordedOpportunities(np.array(trace_ms) * MS), 0.0
    expected = departures_by_hand(trace_ms, messages)
    for (ready_ms, size_bytes), departure_ms in zip(messages, expected, strict=True):
        start_s = max(ready_ms * MS, free_s)
        free_s = start_s + pace(start_s, size_bytes)
        assert free_s == pytest.approx(departure_ms * MS, abs=ROUNDING)


def test_an_opportunity_that_nobody_used_is_gone() -> None:
    pace = RecordedOpportunities(np.array([1.0, 2.0, 3.0, 10.0]) * MS)
    assert pace(2.5 * MS, 1500) == pytest.approx(0.5 * MS, abs=ROUNDING)
    assert 3 * MS + pace(3 * MS, 1500) == pytest.approx(10 * MS, abs=ROUNDING)
    assert 10.5 * MS + pace(10.5 * MS, 1) == pytest.approx(11 * MS, abs=ROUNDING)  # of the next replay


def test_a_trace_loops_or_is_stretched_at_the_same_capacity() -> None:
    """Ten packets in the first of two seconds, none in the second but the last."""
    trace_s = np.array([*np.linspace(0.1, 1.0, 10), 2.0])
    looped, stretched = RecordedOpportunities(trace_s), RecordedOpportunities(trace_s, stretch_to_s=20.0)
    assert looped.mean_rate_bps == pytest.approx(stretched.mean_rate_bps)
    assert looped(0.0, 12 * 1500) == pytest.approx(2.1, abs=ROUNDING)
    assert stretched(0.0, 100 * 1500) == pytest.approx(10.0, abs=ROUNDING)  # the first half is still the busy one
    assert 10.0 + stretched(10.0, 1500) == pytest.approx(20.0, abs=ROUNDING)
    np.testing.assert_array_equal(
        [RecordedOpportunities(trace_s, stretch_to_s=2.0)(0.0, n * 1500) for n in range(1, 23)],
        [RecordedOpportunities(trace_s)(0.0, n * 1500) for n in range(1, 23)],
    )


def test_a_trace_can_be_stretched_to_years_and_squeezed_to_less_than_its_grain() -> None:
    trace_s = np.array([*np.linspace(0.1, 1.0, 10), 2.0])
    year_s = 3e7
    assert RecordedOpportunities(trace_s, stretch_to_s=year_s)(year_s / 2 + 10.0, 1500) == pytest.approx(
        year_s / 2 - 10.0
    )
    squeezed = RecordedOpportunities(trace_s, stretch_to_s=0.02)  # one opportunity in 20 ms
    assert [squeezed(0.0, 1500), squeezed(0.0, 1500)] == pytest.approx([0.02, 0.04], abs=ROUNDING)


def test_a_run_may_start_in_the_middle_of_a_trace() -> None:
    trace_s = np.array([0.1, 0.6, 1.0])
    assert RecordedOpportunities(trace_s, offset=0.5)(0.0, 1500) == pytest.approx(0.1, abs=ROUNDING)
    assert RecordedOpportunities(trace_s)(0.0, 1500) == pytest.approx(0.1, abs=ROUNDING)
    assert RecordedOpportunities(trace_s, offset=0.5)(0.0, 3 * 1500) == pytest.approx(0.6, abs=ROUNDING)


# --- rates (Pensieve) -------------------------------------------------------------------------------------------------

TIME_S, RATE_BPS = np.array([5.0, 6.0, 8.0, 9.0]), np.array([1e9, 8e3, 0.0, 16e3])
BYTES_PER_REPLAY = 1000 + 0 + 2000


def test_a_row_holds_for_the_time_that_ends_with_it() -> None:
    """A thousand bytes in the first second, none in the next two, two thousand in the fourth; then again."""
    for n_bytes, done_s in [(500, 0.5), (1000, 1.0), (1001, 3.0005), (3000, 4.0), (3500, 4.5), (7000, 9.0)]:
        assert RecordedRate(TIME_S, RATE_BPS)(0.0, n_bytes) == pytest.approx(done_s, abs=ROUNDING)
    assert RecordedRate(TIME_S, RATE_BPS)(1.5, 2000) == pytest.approx(2.5, abs=ROUNDING)


@given(
    sizes=st.lists(st.integers(0, 9000), min_size=1, max_size=20),
    start_s=st.floats(0.0, 50.0),
    stretch_to_s=st.none() | st.floats(0.5, 40.0),
)
def test_as_many_bits_leave_as_the_rates_add_up_to(
    sizes: list[int], start_s: float, stretch_to_s: float | None
) -> None:
    """The sum of rate times time over where the sender was busy is what was sent, message by message."""
    pace, now_s = RecordedRate(TIME_S, RATE_BPS, stretch_to_s), start_s
    scale = 1.0 if stretch_to_s is None else stretch_to_s / 4.0
    for size in sizes:
        end_s = now_s + pace(now_s, size)
        capacity = bits_by(end_s / scale) - bits_by(now_s / scale)
        assert scale * capacity == pytest.approx(8 * size, abs=16e3 * ROUNDING * (1 + scale))
        now_s = end_s


def bits_by(at_s: float) -> float:
    """That could have left by this instant, with whole replays counted and the rest added row by row."""
    laps, rest = divmod(at_s, 4.0)
    rows = [(0.0, 1.0, 8e3), (1.0, 3.0, 0.0), (3.0, 4.0, 16e3)]
    return laps * 8 * BYTES_PER_REPLAY + sum(rate * max(0.0, min(rest, end) - begin) for begin, end, rate in rows)


def test_a_sender_is_done_before_an_outage_and_not_after_it() -> None:
    quiet_end = RecordedRate(np.array([0.0, 1.0, 10.0]), np.array([0.0, 8e3, 0.0]))
    assert quiet_end(0.0, 1000) == pytest.approx(1.0, abs=ROUNDING)
    assert quiet_end(0.0, 2000) == pytest.approx(11.0, abs=ROUNDING)


# --- delays (CICV5G) and receptions -----------------------------------------------------------------------------------


def test_a_message_is_as_late_as_the_latest_measurement() -> None:
    replay = RecordedDelay(np.array([3.0, 3.1, 3.3]), np.array([0.02, 0.05, 0.01]))
    for lap_s in (0.0, 0.45, 0.9):  # the last one holds for the median of 0.1 and 0.2 s
        assert [replay(lap_s + at_s) for at_s in (0.0, 0.099, 0.1, 0.29, 0.31, 0.44)] == [
            0.02, 0.02, 0.05, 0.05, 0.01, 0.01,
        ]  # fmt: skip


def test_a_stretched_delay_changes_more_slowly_and_is_as_long() -> None:
    replay = RecordedDelay(np.array([0.0, 1.0, 2.0]), np.array([0.02, 0.05, 0.01]), stretch_to_s=30.0)
    assert [replay(at_s) for at_s in (9.9, 10.1, 19.9, 20.1, 29.9, 30.1)] == [0.02, 0.05, 0.05, 0.01, 0.01, 0.02]


def test_transmissions_meet_the_recorded_fates_in_their_order() -> None:
    received = np.random.default_rng(0).random(50) < 0.7
    process = RecordedLoss(received, first=20)
    fates = np.concatenate([process.lost(n) for n in (1, 7, 0, 30, 120, 2)])
    np.testing.assert_array_equal(fates, np.roll(np.tile(~received, 5), -20)[:160])
    assert process.stationary_loss == pytest.approx(1 - received.mean())


def test_runs_of_recorded_losses_are_counted_around_the_end() -> None:
    assert RecordedLoss(np.array([0, 1, 0, 0, 1, 1, 0], dtype=bool)).mean_burst == 2.0  # 0 and 6 are one run
    assert RecordedLoss(np.ones(3, dtype=bool)).mean_burst == 1.0
    assert RecordedLoss(np.zeros(3, dtype=bool)).mean_burst == math.inf


# --- what all share ---------------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e4), st.floats(0.0, 0.999), st.floats(0.0, 1e5))
def test_an_instant_is_found_on_the_trace_and_back(duration_s: float, offset: float, now_s: float) -> None:
    clock = TraceClock(duration_s, offset)
    lap, since_s = clock.locate(now_s)
    assert 0.0 <= since_s <= duration_s
    assert clock.instant_s(lap, since_s) == pytest.approx(now_s, abs=2 * ROUNDING + 1e-15 * duration_s * (1 + lap))


@pytest.mark.parametrize(
    "make",
    [
        lambda: RecordedOpportunities(np.zeros(0)),
        lambda: RecordedOpportunities(np.zeros(5)),
        lambda: RecordedRate(np.zeros(1), np.ones(1)),
        lambda: RecordedRate(np.arange(3.0), np.array([5.0, 0.0, 0.0])),
        lambda: RecordedDelay(np.zeros(1), np.ones(1)),
        lambda: RecordedLoss(np.zeros(0, dtype=bool)),
        lambda: TraceClock(0.0),
        lambda: TraceClock(math.inf),
    ],
)
def test_traces_of_nothing_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=r"choose another file|must last a positive time"):
        make()
