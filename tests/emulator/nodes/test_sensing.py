"""Sensing on the simulated clock: nothing before its time, everything once, whatever the handover."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.nodes.sensing import ROUNDING, TICKS_AT_ONCE, SensorClock, sensing

RATE_HZ = 8.0  # ticks at binary fractions of a second, so exact


class Street:
    """A sensor whose frames say which tick they are of; nothing is recorded at some ticks."""

    def __init__(self, env: EmulatorEnvironment, silent: range = range(0)) -> None:
        self._env, self._silent = env, silent
        self.asked: list[tuple[float, list[int]]] = []
        self.threads: set[int] = set()

    def sense(self, ticks: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        self.asked.append((self._env.now, ticks.tolist()))
        self.threads.add(threading.get_ident())
        kept = ticks[~np.isin(ticks, self._silent)]
        return {"tick": kept} if len(kept) else {}


class Life:
    """A sensing base station from beginning to end: what was handed over, and when."""

    def __init__(self, clock: SensorClock, silent: range = range(0), until_s: float | None = None) -> None:
        self.env = EmulatorEnvironment(seed=0)
        self.street = Street(self.env, silent)
        self.pieces: list[tuple[float, list[int]]] = []
        self.env.process(sensing(self.env, self.street, clock, self._take))
        self.env.run(until=until_s)

    def _take(self, frames: Mapping[str, NDArray[Any]]) -> None:
        self.pieces.append((self.env.now, frames["tick"].tolist()))

    @property
    def ticks(self) -> list[int]:
        return [tick for _, piece in self.pieces for tick in piece]


rates = st.sampled_from([0.3, 1.0, 7.0, 10.0, 29.97]) | st.floats(0.1, 100)
handovers = st.sampled_from([0.1, 0.3, 1.0, 1.1, 3.0]) | st.floats(0.05, 60)


@given(rate_hz=rates, handover_s=handovers, n_ticks=st.integers(0, 300))
@example(rate_hz=10.0, handover_s=0.1, n_ticks=300)
@example(rate_hz=10.0, handover_s=0.7, n_ticks=300)
def test_no_frame_is_handed_over_before_its_instant(rate_hz: float, handover_s: float, n_ticks: int) -> None:
    """Nor later than the first handover from then on."""
    life = Life(SensorClock(rate_hz, n_ticks, handover_s))
    for now_s, ticks in life.pieces:
        for tick in ticks:
            assert tick / rate_hz <= now_s
            assert now_s < max(tick / rate_hz, ROUNDING) + handover_s * (1 + ROUNDING)
    assert [now_s for now_s, _ in life.street.asked] == [now_s for now_s, _ in life.pieces]  # nor is it sensed before


@given(rate_hz=rates, handover_s=handovers, n_ticks=st.integers(0, 300), first_tick=st.integers(0, 320))
def test_every_tick_is_sensed_exactly_once_and_in_order(
    rate_hz: float, handover_s: float, n_ticks: int, first_tick: int
) -> None:
    life = Life(SensorClock(rate_hz, n_ticks, handover_s, first_tick))
    assert life.ticks == list(range(first_tick, n_ticks))


@given(handover_s=handovers)
def test_any_time_between_handovers_gives_the_same_frames_in_total(handover_s: float) -> None:
    silent = range(30, 55)
    life = Life(SensorClock(RATE_HZ, 100, handover_s), silent)
    assert life.ticks == [tick for tick in range(100) if tick not in silent]


def test_frames_come_at_multiples_of_the_handover_time() -> None:
    """8 ticks per second, handed over every 0.5 s: the tick at the instant of a handover is part of it."""
    life = Life(SensorClock(RATE_HZ, 11, 0.5))
    assert life.pieces == [(0.5, [0, 1, 2, 3, 4]), (1.0, [5, 6, 7, 8]), (1.5, [9, 10])]


def test_a_tick_at_the_instant_of_a_handover_is_part_of_it_where_both_are_rounded() -> None:
    life = Life(SensorClock(10.0, 400, 0.1))
    assert [ticks for _, ticks in life.pieces] == [[0, 1], *([tick] for tick in range(2, 400))]


def test_handovers_between_two_ticks_bring_nothing() -> None:
    life = Life(SensorClock(1.0, 3, 0.25))
    assert life.pieces == [(0.25, [0]), (1.0, [1]), (2.0, [2])]
    assert len(life.street.asked) == 3


def test_a_stretch_without_anything_to_record_hands_over_nothing() -> None:
    life = Life(SensorClock(RATE_HZ, 12, 0.5), silent=range(5, 9))
    assert life.pieces == [(0.5, [0, 1, 2, 3, 4]), (1.5, [9, 10, 11])]
    assert [ticks for _, ticks in life.street.asked][1] == [5, 6, 7, 8]


def test_ticks_that_were_sensed_before_are_left_out() -> None:
    life = Life(SensorClock(RATE_HZ, 11, 0.5, first_tick=7))
    assert life.pieces == [(1.0, [7, 8]), (1.5, [9, 10])]


def test_sensing_stops_after_the_last_tick() -> None:
    assert Life(SensorClock(RATE_HZ, 17, 0.5)).env.now == 2.0  # and no event is left
    assert Life(SensorClock(RATE_HZ, 0, 0.5)).env.now == 0.0


def test_a_run_that_ends_earlier_has_seen_no_further() -> None:
    assert Life(SensorClock(RATE_HZ, 1000, 0.5), until_s=1.25).ticks == list(range(9))


def test_many_ticks_are_sensed_in_pieces_of_bounded_size() -> None:
    life = Life(SensorClock(RATE_HZ, 2 * TICKS_AT_ONCE + 1, 1000.0))
    assert [len(ticks) for _, ticks in life.pieces] == [TICKS_AT_ONCE, TICKS_AT_ONCE, 1]
    assert life.env.now == 1000.0


def test_sensing_happens_on_the_thread_of_the_clock() -> None:
    assert Life(SensorClock(RATE_HZ, 40, 0.5)).street.threads == {threading.get_ident()}


def test_an_error_of_a_sensor_stops_the_run() -> None:
    class Broken:
        def sense(self, ticks: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
            raise ValueError("lens cap")

    env = EmulatorEnvironment(seed=0)
    env.process(sensing(env, Broken(), SensorClock(RATE_HZ, 5, 0.5), lambda _: None))
    with pytest.raises(ValueError, match="lens cap"):
        env.run()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ((0.0, 5, 1.0), "rate_hz"),
        ((10.0, -1, 1.0), "n_ticks"),
        ((10.0, 5, 0.0), "handover_s"),
        ((10.0, 5, float("nan")), "handover_s"),
        ((10.0, 5, 1.0, -2), "first_tick"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(settings: tuple[Any, ...], field: str) -> None:
    with pytest.raises(ConfigError, match=f"live.{field} must lie in"):
        SensorClock(*settings)
