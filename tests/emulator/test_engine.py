"""The clock's random streams belong to their names alone, and the barrier lets nobody through early."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.random_streams import named_stream
from sheafedge.emulator.saved_state import SavedState

N_DRAWS = 10_000
STANDARD_ERRORS = 4.0  # of a correlation of independent draws, 1 / sqrt(n); one test in 16,000 would fail by chance


def first_draws(seed: int, *name: object) -> list[float]:
    return named_stream(seed, *name).random(4).tolist()


def test_a_stream_is_the_same_on_every_machine_and_in_every_process() -> None:
    draws = named_stream(7, "link", 0, 1).integers(2**32, size=3)
    assert draws.tolist() == [2153964879, 99010918, 3363313051]  # as drawn when this was written


def test_the_environment_gives_the_streams_of_its_seed() -> None:
    env = EmulatorEnvironment(seed=3)
    assert env.stream("batches", 2).random(4).tolist() == first_draws(3, "batches", 2)
    assert env.now == 0.0


@pytest.mark.parametrize(
    "other",
    [(8, "link", 0, 1), (7, "link", 1, 0), (7, "links", 0, 1), (7, "link", 0), (7, "link", 0, 1, 0)],
)
def test_another_seed_or_another_name_is_another_stream(other: tuple[int, object]) -> None:
    assert first_draws(*other) != first_draws(7, "link", 0, 1)


def test_the_parts_of_a_name_do_not_run_together() -> None:
    assert first_draws(0, "link", 1, 23) != first_draws(0, "link", 12, 3)


def test_streams_of_different_names_are_uncorrelated() -> None:
    draws = np.stack([named_stream(0, "link", 0, peer).normal(size=N_DRAWS) for peer in range(5)])
    correlations = np.corrcoef(draws)[np.triu_indices(5, k=1)]
    assert np.abs(correlations).max() < STANDARD_ERRORS / np.sqrt(N_DRAWS)


def test_using_a_stream_shifts_no_other_and_it_is_given_out_once() -> None:
    env = EmulatorEnvironment(seed=1)
    losses = env.stream("link", 0, 1)
    before = losses.random(2).tolist()
    env.stream("sensor", 0).random(1000)
    after = losses.random(2).tolist()
    assert before + after == first_draws(1, "link", 0, 1)
    with pytest.raises(AssertionError, match="two components use the stream 'link/0/1'"):
        env.stream("link", 0, 1)


def test_streams_go_on_where_they_stood() -> None:
    env, other = EmulatorEnvironment(seed=1), EmulatorEnvironment(seed=1, start_s=3.0)
    losses, restored = env.stream("link", 0, 1), other.stream("link", 0, 1)
    losses.random(5)
    losses.integers(9)  # leaves half of a 64-bit draw
    other.restore(SavedState(env.state()))
    assert (
        restored.integers(1000, size=9, dtype=np.uint32).tolist()
        == losses.integers(1000, size=9, dtype=np.uint32).tolist()
    )


@pytest.mark.parametrize("instant_s", [0.1 + 0.2, 1e9 + 0.3])
def test_an_event_fires_at_its_instant_to_the_last_bit(instant_s: float) -> None:
    env = EmulatorEnvironment(seed=1)
    env.run(until=env.timeout(0.1))
    env.run(until=env.at(instant_s))
    assert env.now == instant_s
    env.run(until=env.at(0.0))  # what is past is now
    assert env.now == instant_s


def test_two_environments_live_side_by_side() -> None:
    first, second = EmulatorEnvironment(seed=1), EmulatorEnvironment(seed=2)
    first.timeout(5.0)
    first.run()
    assert (first.now, second.now) == (5.0, 0.0)
    assert first.stream("x").random() != second.stream("x").random()


@given(delays=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=6))
def test_nobody_leaves_the_barrier_before_the_last_one_has_come(delays: list[list[int]]) -> None:
    """`delays[party][round]`; whole seconds, so that instants are exact."""
    env = simpy.Environment()
    barrier = Barrier(env, len(delays))
    left: dict[int, list[float]] = {party: [] for party in range(len(delays))}

    def life(party: int) -> Generator[simpy.Event, object, None]:
        for delay in delays[party]:
            yield env.timeout(delay)
            yield barrier.wait()
            left[party].append(env.now)

    for party in range(len(delays)):
        env.process(life(party))
    env.run()
    expected = np.cumsum(np.max(delays, axis=0)).tolist()
    assert all(instants == expected for instants in left.values())


def test_a_party_that_never_comes_holds_all_others() -> None:
    env = simpy.Environment()
    barrier = Barrier(env, 3)
    gates = [barrier.wait(), barrier.wait()]
    env.run()
    assert not any(gate.triggered for gate in gates)
    gates.append(barrier.wait())
    assert all(gate.triggered for gate in gates)
    assert not barrier.wait().triggered  # and the next time begins anew


def test_who_leaves_a_barrier_is_not_waited_for_and_may_come_back() -> None:
    """Three parties; one leaves at 2, while the others wait, and joins again for the next time."""
    env = EmulatorEnvironment(seed=0)
    barrier, passed = Barrier(env, 3), []

    def waits(name: str, at_s: list[float]) -> Generator[simpy.Event, object, None]:
        for instant_s in at_s:
            yield env.timeout(max(0.0, instant_s - env.now))
            yield barrier.wait()
            passed.append((name, env.now))

    def leaves() -> Generator[simpy.Event, object, None]:
        yield env.timeout(2.0)
        barrier.leave()
        yield env.timeout(0.5)
        barrier.join()
        yield env.timeout(3.5)
        yield barrier.wait()
        passed.append(("back", env.now))

    for process in (waits("one", [1.0, 3.0]), waits("other", [0.0, 4.0]), leaves()):
        env.process(process)
    env.run()
    assert passed == [("other", 2.0), ("one", 2.0), ("one", 6.0), ("other", 6.0), ("back", 6.0)]


def test_a_barrier_that_all_have_left_holds_nobody() -> None:
    env = EmulatorEnvironment(seed=0)
    barrier = Barrier(env, 2)
    barrier.leave()
    barrier.leave()
    barrier.join()
    assert barrier.wait().triggered
