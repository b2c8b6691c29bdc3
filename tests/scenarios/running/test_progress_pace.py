"""Rates and the time that is left."""

from __future__ import annotations

import time

import pytest
from sheafedge.scenarios.running.progress_pace import ProgressPace, rate_text, time_text


class Clock:
    """A clock that a test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def test_what_was_done_before_is_no_pace(clock: Clock) -> None:
    pace = ProgressPace(done=50)
    clock.now_s += 4.0
    pace.see(52)
    assert (pace.per_s, pace.left_s(60)) == (0.5, 16.0)
    clock.now_s += 6.0  # nothing happens meanwhile
    assert pace.left_s(60) == 10.0
    assert ProgressPace().left_s(60) is None


@pytest.mark.parametrize(
    ("per_s", "text"), [(2.13, "2.1 rounds/s"), (0.25, "4.0 s/round"), (1234.5, "1,234.5 rounds/s"), (0.0, "")]
)
def test_slow_rates_are_times(per_s: float, text: str) -> None:
    assert rate_text(per_s, "rounds") == text


def test_times_are_minutes_or_hours() -> None:
    assert [time_text(seconds) for seconds in (9.6, 61, 3725)] == ["0:10", "1:01", "1:02:05"]
