"""Media that radios share, by hand and against theory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.network.medium import Medium, OwnMedium, ProcessorSharing, RoundRobin

STANDARD_ERRORS = 3.0  # with fixed seeds
ROUNDING = 1e-9  # seconds
GOODPUT_TOLERANCE = 0.02  # relative; what is promised, and a few messages of the hundreds that each sender gets through


class Told:
    """A sender that passes on that its transmission has ended."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def has_left(self) -> None:
        self._told()


def ends(env: EmulatorEnvironment, medium: Medium, starts: dict[str, tuple[float, float]]) -> dict[str, float]:
    """When each transmission ends, in the order of ends.

    Args:
        starts: name -> when it starts, and how long it takes alone.
    """
    ended: dict[str, float] = {}

    def start(name: str, airtime_s: float) -> None:
        medium.carry(airtime_s, Told(lambda: ended.__setitem__(name, env.now)))

    for name, (at_s, airtime_s) in starts.items():
        env.timeout(at_s).callbacks.append(lambda _, n=name, a=airtime_s: start(n, a))
    env.run()
    assert ended.keys() == starts.keys()
    return ended


LONG_AND_SHORT = {"long": (0.0, 4.0), "short": (1.0, 1.0)}


def test_two_at_once_take_twice_as_long() -> None:
    """1 s alone, 2 s at half speed until the short one is done, 2 s alone."""
    env = EmulatorEnvironment(seed=0)
    assert ends(env, ProcessorSharing(env), LONG_AND_SHORT) == {"short": 3.0, "long": 5.0}


def test_on_a_medium_of_ones_own_nobody_notices_the_other() -> None:
    """The negative control."""
    env = EmulatorEnvironment(seed=0)
    assert ends(env, OwnMedium(env), LONG_AND_SHORT) == {"short": 2.0, "long": 4.0}


def test_three_that_come_and_go() -> None:
    """a: 1 s alone, 1 s of 2 at half speed with b, ...

    a 0..1 alone (1 of 3 done); with b 1..2 (a 1.5, b 0.5); with b and c 2..3.5 (a 2, b 1: done, c 0.5); a and c until
    c has 1 at 4.5 (a 2.5); a alone until 5.
    """
    env = EmulatorEnvironment(seed=0)
    starts = {"a": (0.0, 3.0), "b": (1.0, 1.0), "c": (2.0, 1.0)}
    expected = {"b": 3.5, "c": 4.5, "a": 5.0}
    assert ends(env, ProcessorSharing(env), starts) == pytest.approx(expected, abs=ROUNDING)


def test_equal_transmissions_that_start_together_end_together() -> None:
    env = EmulatorEnvironment(seed=0)
    starts = dict.fromkeys("abcdef", (2.0, 0.5))
    assert ends(env, ProcessorSharing(env), starts) == pytest.approx(dict.fromkeys("abcdef", 5.0), abs=ROUNDING)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_fair_medium_slows_long_and_short_alike_by_one_over_one_minus_load(load: float) -> None:
    """Mean stay of a transmission of length x is x / (1 - load), whatever the lengths of the others (M/G/1-PS)."""
    n = 20_000
    draws = np.random.default_rng(2)
    long = draws.random(n) < 0.2
    airtime_s = np.where(long, 3.0, 0.5)
    start_s = np.cumsum(draws.exponential(1.0 / load, n))  # mean airtime is 1
    env = EmulatorEnvironment(seed=0)
    ended = ends(env, ProcessorSharing(env), {str(i): (start_s[i], airtime_s[i]) for i in range(n)})
    stretched = (np.array([ended[str(i)] for i in range(n)]) - start_s) / airtime_s
    for group in (long, ~long):
        means = np.array([part.mean() for part in np.array_split(stretched[group], 30)])
        error = means.std(ddof=1) / math.sqrt(len(means))
        assert abs(means.mean() - 1 / (1 - load)) < STANDARD_ERRORS * error


def test_blocks_of_a_slot_are_dealt_one_by_one_in_turn() -> None:
    """Slots of 1 s with 4 blocks; a needs 5, b 3, c 2, all there before slot 1.

    Slot 1: a b c a, so that b comes next. Slot 2: b c a b: c is done at 3, b too. Slot 3: a a: done at 4.
    """
    env = EmulatorEnvironment(seed=0)
    starts = {"a": (0.1, 1.25), "b": (0.2, 0.75), "c": (0.3, 0.5)}
    assert ends(env, RoundRobin(env, 1.0, 4), starts) == {"c": 3.0, "b": 3.0, "a": 4.0}


def test_who_is_alone_gets_all_blocks_and_waits_for_the_slot_only() -> None:
    env = EmulatorEnvironment(seed=0)
    assert ends(env, RoundRobin(env, 1.0, 4), {"a": (0.1, 2.0), "b": (7.0, 0.01)}) == {"a": 3.0, "b": 8.0}


def test_who_comes_during_a_slot_gets_blocks_of_the_next() -> None:
    env = EmulatorEnvironment(seed=0)
    assert ends(env, RoundRobin(env, 1.0, 4), {"a": (0.0, 2.0), "b": (0.5, 0.25)}) == {"b": 2.0, "a": 3.0}


@pytest.mark.parametrize("n_senders", [1, 3, 10])
@pytest.mark.parametrize("kind", ["processor_sharing", "round_robin"])
def test_senders_that_never_pause_share_the_rate_evenly(kind: str, n_senders: int) -> None:
    """Goodput within 2 % of one n-th, for messages of any length.

    Of slots, only a lone sender wastes any: what is left when a message ends in the middle of one.
    """
    env = EmulatorEnvironment(seed=0)
    medium = ProcessorSharing(env) if kind == "processor_sharing" else RoundRobin(env, 0.001, 50)
    served_s = [0.0] * n_senders
    draws = [np.random.default_rng(sender) for sender in range(n_senders)]

    def send(sender: int) -> None:
        airtime_s = float(draws[sender].integers(1, 100)) * 0.001 / 5  # whole numbers of blocks: ten each
        medium.carry(airtime_s, Told(lambda: sent(sender, airtime_s)))

    def sent(sender: int, airtime_s: float) -> None:
        served_s[sender] += airtime_s
        send(sender)

    for sender in range(n_senders):
        send(sender)
    env.run(until=10.0)
    lengths = np.arange(1, 100) / 5  # in slots
    used = lengths.mean() / np.ceil(lengths).mean() if (kind, n_senders) == ("round_robin", 1) else 1.0
    for share_s in served_s:
        assert share_s == pytest.approx(used * 10.0 / n_senders, rel=GOODPUT_TOLERANCE)


def test_a_medium_without_slots_or_blocks_is_refused() -> None:
    for slot_s, n_blocks in ((0.0, 5), (math.nan, 5), (math.inf, 5), (1.0, 0)):
        with pytest.raises(ConfigError, match="a slot must last above 0 s and have 1 block or more"):
            RoundRobin(EmulatorEnvironment(seed=0), slot_s, n_blocks)
