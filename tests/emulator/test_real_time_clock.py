"""The clock in real time, on a wall clock that the tests turn by hand; only the last test sleeps, and not for long."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.real_time_clock import Lag, LagBySpeed, MonotonicClock, RealTimeEnvironment

#: Sums of a few float64 instants.
ROUNDING = 1e-9


class TurnedClock:
    """Real time that goes on only when somebody sleeps or works; what was arranged happens on the way."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.slept: list[float] = []
        self._arranged: list[tuple[float, Callable[[], None]]] = []

    def now_s(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        until = self.seconds + seconds
        self.slept.append(seconds)
        due = sorted((at, act) for at, act in self._arranged if at <= until)
        if due:  # it wakes the sleeper
            self.seconds = max(self.seconds, due[0][0])
            self._arranged.remove(due[0])
            due[0][1]()
        else:
            self.seconds = until

    def wake(self) -> None:
        """Sleep ends with what was arranged."""

    def at(self, after_s: float, act: Callable[[], None]) -> None:
        """Let something happen on another thread, so many seconds from the start."""
        self._arranged.append((100.0 + after_s, act))

    def work(self, seconds: float) -> None:
        """Real work on the engine's thread; what was arranged for meanwhile happens meanwhile."""
        until = self.seconds + seconds
        for at, act in sorted(one for one in self._arranged if one[0] <= until):
            self.seconds = at
            self._arranged.remove((at, act))
            act()
        self.seconds = until


def three_events(env: simpy.Environment, happened: list[tuple[float, float]], wall: TurnedClock) -> simpy.Process:
    def life() -> Generator[simpy.Event, object, None]:
        for pause_s in (1.0, 0.0, 2.5):
            yield env.timeout(pause_s)
            happened.append((env.now, wall.now_s() - 100.0))

    return env.process(life())


@pytest.mark.parametrize("speed", [1.0, 10.0, 0.5])
def test_no_event_comes_before_its_real_instant(speed: float) -> None:
    wall, happened = TurnedClock(), []
    env = RealTimeEnvironment(0, start_s=7.0, speed=speed, wall=wall)
    wall.work(50.0)  # what was built before the first event took no simulated time
    env.run(three_events(env, happened, wall))
    assert [now for now, _ in happened] == [8.0, 8.0, 10.5]
    assert [wall_s - 50.0 for _, wall_s in happened] == pytest.approx([1 / speed, 1 / speed, 3.5 / speed], abs=ROUNDING)
    assert env.lag.largest_s == pytest.approx(0.0, abs=ROUNDING)


def test_the_usual_clock_does_not_look_at_the_wall() -> None:
    """Negative control: without real time the same events take none."""
    wall, happened = TurnedClock(), []
    env = EmulatorEnvironment(0)
    env.run(three_events(env, happened, wall))
    assert [wall_s for _, wall_s in happened] == [0.0, 0.0, 0.0]


def test_a_clock_that_is_late_hurries_until_it_has_caught_up() -> None:
    wall, instants = TurnedClock(), []
    env = RealTimeEnvironment(0, wall=wall)

    def life() -> Generator[simpy.Event, object, None]:
        yield env.timeout(1.0)
        wall.work(1.5)  # real work that simulates nothing
        for _ in range(2):
            yield env.timeout(1.0)
            instants.append(wall.now_s() - 100.0)

    env.run(env.process(life()))
    assert instants == pytest.approx([2.5, 3.0], abs=ROUNDING)
    assert env.lag.largest_s == pytest.approx(0.5, abs=ROUNDING)
    assert 0.0 < env.lag.mean_s < env.lag.largest_s


def test_lag_is_the_mean_over_events_that_were_late_or_not() -> None:
    lag = Lag()
    assert lag.mean_s == 0.0
    for late_s in (0.2, -0.1, 0.4):
        lag.add(late_s)
    assert (lag.mean_s, lag.largest_s, lag.n_events) == (pytest.approx(0.2), 0.4, 3)


def asked(env: RealTimeEnvironment, ticket: Future[str], patience_s: float) -> tuple[bool, float]:
    """Whether a ticket was answered in time, and when the asker went on."""
    seen: list[tuple[bool, float]] = []

    def life() -> Generator[simpy.Event, object, None]:
        in_time = yield from env.within(ticket, env.now + patience_s)
        seen.append((in_time, env.now))

    env.run(env.process(life()))
    return seen[0]


def test_an_answer_comes_at_the_simulated_instant_at_which_it_came_on_the_wall() -> None:
    wall, ticket = TurnedClock(), Future[str]()
    env = RealTimeEnvironment(0, start_s=3.0, speed=2.0, wall=wall)
    wall.at(0.25, lambda: ticket.set_result("here"))
    assert asked(env, ticket, patience_s=1.0) == (True, pytest.approx(3.5, abs=ROUNDING))


def test_an_answer_after_the_deadline_is_not_waited_for() -> None:
    wall, ticket = TurnedClock(), Future[str]()
    env = RealTimeEnvironment(0, speed=2.0, wall=wall)
    wall.at(0.75, lambda: ticket.set_result("too late"))
    assert asked(env, ticket, patience_s=1.0) == (False, 1.0)
    assert wall.now_s() - 100.0 == pytest.approx(0.5, abs=ROUNDING)
    env.run(until=5.0)  # and when it comes nobody stumbles over it
    assert ticket.done()


def test_whoever_is_asked_late_has_the_whole_time_that_was_promised() -> None:
    """The clock is three seconds late when it asks; the answer takes 0.4 of 0.5 s, and so it does on the clock."""
    wall, ticket = TurnedClock(), Future[str]()
    env = RealTimeEnvironment(0, wall=wall)
    seen = []

    def life() -> Generator[simpy.Event, object, None]:
        yield env.timeout(1.0)
        wall.work(3.0)
        wall.at(4.4, lambda: ticket.set_result("here"))
        in_time = yield from env.within(ticket, env.now + 0.5)
        seen.append((in_time, env.now))
        yield env.timeout(2.0)  # then it hurries again: 3.4 s on the clock, 4.4 s on the wall
        seen.append((True, wall.now_s() - 100.0))

    env.run(env.process(life()))
    assert seen[0] == (True, pytest.approx(1.4, abs=ROUNDING))
    assert seen[1] == (True, pytest.approx(4.4, abs=ROUNDING))


def test_work_of_the_engine_does_not_make_an_answer_late() -> None:
    """It came while the engine could not look, and counts from when it came."""
    wall, ticket = TurnedClock(), Future[str]()
    env = RealTimeEnvironment(0, wall=wall)
    wall.at(0.1, lambda: ticket.set_result("here"))

    def busy() -> Generator[simpy.Event, object, None]:
        yield env.timeout(0.0)
        wall.work(2.0)

    env.process(busy())
    assert asked(env, ticket, patience_s=0.5) == (True, pytest.approx(0.1, abs=ROUNDING))


def test_nothing_left_to_happen_is_not_slept_for() -> None:
    env = RealTimeEnvironment(0, wall=TurnedClock())
    env.run()
    with pytest.raises(simpy.core.EmptySchedule):
        env.step()


def test_the_keyboard_ends_a_sleep_at_once() -> None:
    """A real clock and a sleep of ten minutes, which this test does not have."""
    env = RealTimeEnvironment(0, wall=MonotonicClock())
    env.timeout(600.0)
    main = threading.main_thread().ident
    assert main is not None
    keyboard = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    keyboard.start()
    with pytest.raises(KeyboardInterrupt):
        env.run()
    keyboard.join()
    assert env.now == 0.0


def test_a_clock_that_is_told_to_hurry_sleeps_no_more() -> None:
    """As when a run is to stop at the end of its round: a stop request comes half a second into ten minutes."""
    wall = TurnedClock()
    env = RealTimeEnvironment(0, wall=wall)
    late = env.timeout(600.0)
    wall.at(0.5, env.hurry)
    env.run(late)
    assert env.now == 600.0
    assert wall.now_s() - 100.0 == pytest.approx(0.5, abs=ROUNDING)


def test_a_clock_that_hurries_gives_up_whoever_is_asked() -> None:
    wall, ticket = TurnedClock(), Future[str]()
    env = RealTimeEnvironment(0, wall=wall)
    env.hurry()
    assert asked(env, ticket, patience_s=600.0) == (False, 600.0)
    assert wall.slept == []


# --- the speed that can be kept --------------------------------------------------------------------------------------


def played(load: list[tuple[float, float]], speed: float) -> RealTimeEnvironment:
    """Events after so much simulated time each, which take so much real time each."""
    wall = TurnedClock()
    env = RealTimeEnvironment(0, speed=speed, wall=wall)

    def life() -> Generator[simpy.Event, object, None]:
        for pause_s, work_s in load:
            yield env.timeout(pause_s)
            wall.work(work_s)

    env.run(env.process(life()))
    return env


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 3.0)), min_size=1, max_size=12),
    st.integers(0, len(LagBySpeed.FACTORS) - 1),
)
def test_what_is_said_of_a_lower_speed_is_what_happens_at_it(load: list[tuple[float, float]], index: int) -> None:
    """The delay of a clock at every speed is known from one run at the highest."""
    speed = 2.0
    slower = speed * float(LagBySpeed.FACTORS[index])
    largest_s = played(load, slower).lag.largest_s
    found = played(load, speed).lag_by_speed
    # just above the delay this speed is kept, just below it is not
    assert (found.fastest(largest_s + 1e-6) or 0.0) >= slower
    if largest_s > 1e-6:
        fastest = found.fastest(largest_s - 1e-6)
        assert fastest is None or fastest < slower
