"""Queues before channels: who goes first, who is refused, and how long one waits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import simpy
from doubles.links import SlowChannel
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import Delivery
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import Fifo
from sheafedge.emulator.network.loss import IidLoss, Lossless
from sheafedge.emulator.network.medium import OwnMedium, ProcessorSharing, RoundRobin
from sheafedge.emulator.network.port import Port

STANDARD_ERRORS = 3.0  # with fixed seeds
ROUNDING = 1e-9  # seconds; sums of hundreds of float64 of up to a few hundred
FIRST, SECOND = 0, 1

Sender = Fifo | Port


class Offers:
    """Messages offered at instants, and what became of them, in the order of decisions."""

    def __init__(self, env: EmulatorEnvironment) -> None:
        self.env = env
        self.fates: dict[str, Delivery] = {}
        self.decided_s: dict[str, float] = {}

    def at(self, at_s: float, name: str, link: object, size_bytes: int, priority: int = FIRST) -> None:
        def offer(_: simpy.Event) -> None:
            link.offer(size_bytes, priority, lambda fate: self._decided(name, fate))  # type: ignore[attr-defined]

        self.env.timeout(at_s - self.env.now).callbacks.append(offer)

    def _decided(self, name: str, fate: Delivery) -> None:
        assert name not in self.fates, "decided twice"
        self.fates[name], self.decided_s[name] = fate, self.env.now

    def arrivals(self) -> dict[str, float]:
        self.env.run()
        return {name: fate.arrival_s for name, fate in self.fates.items()}


def fifo(env: EmulatorEnvironment, limit_bytes: float = math.inf) -> Sender:
    return Fifo(env, limit_bytes)


def port(env: EmulatorEnvironment, limit_bytes: float = math.inf) -> Sender:
    return Port(env, OwnMedium(env), limit_bytes=limit_bytes)


BOTH = pytest.mark.parametrize("make", [fifo, port])


# --- first come, first served -----------------------------------------------------------------------------------------


@BOTH
def test_a_radio_sends_one_thing_at_a_time_to_whomever(make: Callable[..., Sender]) -> None:
    """Two links of one sender: 10 bytes at 1 byte/s, then 5 to somebody else, then 2 after a pause."""
    env = EmulatorEnvironment(seed=0)
    sender, offers = make(env), Offers(env)
    one, other = sender.link(SlowChannel(delay_s=0.5)), sender.link(SlowChannel(delay_s=0.5))
    for at_s, name, link, size in [
        (0.0, "a", one, 10),
        (1.0, "b", other, 5),
        (2.0, "c", one, 1),
        (20.0, "d", other, 2),
    ]:
        offers.at(at_s, name, link, size)
    assert offers.arrivals() == {"a": 10.5, "b": 15.5, "c": 16.5, "d": 22.5}


@BOTH
def test_senders_of_their_own_do_not_wait_for_each_other(make: Callable[..., Sender]) -> None:
    """The negative control."""
    env = EmulatorEnvironment(seed=0)
    offers = Offers(env)
    for name in ("a", "b"):
        offers.at(0.0, name, make(env).link(SlowChannel()), 10)
    assert offers.arrivals() == {"a": 10.0, "b": 10.0}


@BOTH
def test_a_message_that_does_not_fit_into_the_queue_is_dropped_and_the_next_shorter_one_is_not(
    make: Callable[..., Sender],
) -> None:
    """A limit of 8 bytes: the one being sent does not count, 6 wait, 3 are too many, 2 fit; later there is room."""
    env = EmulatorEnvironment(seed=0)
    offers, channel = Offers(env), SlowChannel()
    link = make(env, 8).link(channel)
    for at_s, name, size in [
        (0.0, "a", 20),
        (1.0, "b", 6),
        (2.0, "c", 3),
        (3.0, "d", 2),
        (21.0, "e", 6),
        (22.0, "f", 6),
    ]:
        offers.at(at_s, name, link, size)
    assert offers.arrivals() == {"a": 20.0, "b": 26.0, "c": 2.0, "d": 28.0, "e": 34.0, "f": 22.0}
    assert {name for name, fate in offers.fates.items() if fate.dropped} == {"c", "f"}
    assert offers.fates["c"].lost_packets.tolist() == [0]
    assert channel.starts_s == [0.0, 20.0, 26.0, 28.0], "what is refused is never sent"


@BOTH
def test_an_idle_sender_takes_a_message_that_is_longer_than_its_queue(make: Callable[..., Sender]) -> None:
    env = EmulatorEnvironment(seed=0)
    offers = Offers(env)
    offers.at(0.0, "a", make(env, 8).link(SlowChannel()), 100)
    assert offers.arrivals() == {"a": 100.0}


def waits_s(sizes_bytes: np.ndarray, gaps_s: np.ndarray, make: Callable[..., Sender]) -> np.ndarray:
    """[n] time between offer and beginning, over a channel of one byte per microsecond."""
    env = EmulatorEnvironment(seed=0)
    link = make(env).link(PacketChannel(LinkSettings(8e6), Lossless()))
    waits = np.empty(len(gaps_s))

    def offering():  # type: ignore[no-untyped-def]
        for index, (gap_s, size_bytes) in enumerate(zip(gaps_s.tolist(), sizes_bytes.tolist(), strict=True)):
            yield env.timeout(gap_s)
            link.offer(size_bytes, FIRST, lambda fate, i=index, now_s=env.now: keep(i, fate, now_s))

    def keep(index: int, fate: Delivery, offered_s: float) -> None:
        waits[index] = fate.arrival_s - fate.airtime_s - offered_s

    env.process(offering())
    env.run()
    return waits


def mean_and_error(values: np.ndarray, n_batches: int = 40) -> tuple[float, float]:
    """Mean of correlated values, and its standard error from the spread of batch means."""
    means = values[: len(values) // n_batches * n_batches].reshape(n_batches, -1).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(n_batches))


@BOTH
@pytest.mark.parametrize("load", [0.4, 0.7])
def test_random_arrivals_of_equal_messages_wait_as_long_as_the_formula_of_m_d_1_says(
    make: Callable[..., Sender], load: float
) -> None:
    n, service_s = 40_000, 1e-3
    draws = np.random.default_rng(5)
    gaps_s = draws.exponential(service_s / load, n)
    mean_s, error_s = mean_and_error(waits_s(np.full(n, 1000), gaps_s, make))
    expected_s = load * service_s / (2 * (1 - load))
    assert abs(mean_s - expected_s) < STANDARD_ERRORS * error_s

    unequal = np.maximum(1, draws.exponential(1000.0, n)).astype(int)  # the negative control waits twice as long
    mean_s, error_s = mean_and_error(waits_s(unequal, gaps_s, make))
    assert mean_s - expected_s > STANDARD_ERRORS * error_s


@given(
    offers=st.lists(st.tuples(st.floats(0.001, 20.0), st.integers(1, 60), st.integers(0, 2)), min_size=1, max_size=30),
    limit_bytes=st.sampled_from([0, 50, math.inf]),
)
def test_what_is_computed_ahead_is_what_happens_event_by_event(
    offers: list[tuple[float, int, int]], limit_bytes: float
) -> None:
    """Three lossy links of one radio."""
    fates = []
    for make in (fifo, port):
        env = EmulatorEnvironment(seed=0)
        sender, told = make(env, limit_bytes), Offers(env)
        settings = LinkSettings(8.0, 0.25, 0.125, packet_bytes=8, retry_limit=2, retry_interval_s=0.1)
        links = [sender.link(PacketChannel(settings, IidLoss(0.3, np.random.default_rng(link)))) for link in range(3)]
        at_s = 0.0
        for number, (gap_s, size, link) in enumerate(offers):
            at_s += gap_s
            told.at(at_s, str(number), links[link], size)
        told.arrivals()
        fates.append(told.fates)
    computed, played = fates
    assert computed.keys() == played.keys()
    for name, fate in computed.items():
        assert fate.arrival_s == pytest.approx(played[name].arrival_s, abs=ROUNDING)
        assert fate.lost_packets.tolist() == played[name].lost_packets.tolist()
        assert fate[2:4] == played[name][2:4]
        assert fate.dropped == played[name].dropped


# --- classes and chunks -----------------------------------------------------------------------------------------------


def with_classes(env: EmulatorEnvironment, **options: object) -> Port:
    options = {"has_classes": True, "chunk_packets": 2, **options}
    return Port(env, OwnMedium(env), **options)  # type: ignore[arg-type]


def test_a_projection_waits_for_a_chunk_of_an_encoder_and_not_for_all_of_it() -> None:
    """An encoder of 10 packets in chunks of 16 s; a projection at 20 s goes at 32 s, and the encoder ends 5 s later."""
    env = EmulatorEnvironment(seed=0)
    offers, link = Offers(env), with_classes(env).link(SlowChannel())
    offers.at(0.0, "encoder", link, 80, SECOND)
    offers.at(20.0, "projection", link, 5, FIRST)
    assert offers.arrivals() == {"projection": 37.0, "encoder": 85.0}


@pytest.mark.parametrize(("options", "projection_s"), [({"chunk_packets": None}, 85.0), ({"has_classes": False}, 85.0)])
def test_without_chunks_or_without_classes_it_waits_for_all_of_it(
    options: dict[str, object], projection_s: float
) -> None:
    """The negative control."""
    env = EmulatorEnvironment(seed=0)
    offers, link = Offers(env), with_classes(env, **options).link(SlowChannel())
    offers.at(0.0, "encoder", link, 80, SECOND)
    offers.at(20.0, "projection", link, 5, FIRST)
    assert offers.arrivals() == {"encoder": 80.0, "projection": projection_s}


def test_classes_go_in_order_and_inside_a_class_the_first_comes_first() -> None:
    env = EmulatorEnvironment(seed=0)
    offers, sender = Offers(env), with_classes(env)
    one, other = sender.link(SlowChannel()), sender.link(SlowChannel())
    offers.at(0.0, "encoder 1", one, 16, SECOND)
    offers.at(1.0, "encoder 2", other, 16, SECOND)
    offers.at(2.0, "encoder 3", one, 4, SECOND)
    offers.at(3.0, "head 1", other, 3, FIRST)
    offers.at(4.0, "head 2", one, 2, FIRST)
    assert offers.arrivals() == {
        "encoder 1": 16.0,
        "head 1": 19.0,
        "head 2": 21.0,
        "encoder 2": 37.0,
        "encoder 3": 41.0,
    }


def test_lost_packets_of_chunks_are_counted_through_the_message() -> None:
    """Chunks of two packets: packet 1 of the first, 0 of the third, which is the message's last and short."""
    env = EmulatorEnvironment(seed=0)
    offers, link = Offers(env), with_classes(env).link(SlowChannel([1], [], [0]))
    offers.at(0.0, "encoder", link, 8 * 4 + 3, SECOND)
    offers.arrivals()
    fate = offers.fates["encoder"]
    assert (fate.lost_packets.tolist(), fate.n_packets, fate.airtime_s) == ([1, 4], 5, 35.0)


def test_a_message_arrives_with_the_latest_of_its_chunks() -> None:
    """The first chunk is repeated and so late that the second is there before it."""
    env = EmulatorEnvironment(seed=0)
    settings = LinkSettings(64.0, packet_bytes=8, retry_limit=1, retry_interval_s=50.0)
    lost_once = PacketChannel(settings, _FirstLost())
    offers, link = Offers(env), with_classes(env, chunk_packets=1).link(lost_once)
    offers.at(0.0, "encoder", link, 16, SECOND)
    assert offers.arrivals() == {"encoder": 52.0}
    assert offers.decided_s["encoder"] == 3.0
    assert offers.fates["encoder"].n_retransmissions == 1


class _FirstLost(Lossless):
    """Loses the first transmission of all."""

    def __init__(self) -> None:
        self._n = 0

    def lost(self, n_transmissions: int) -> np.ndarray:
        fates = np.arange(self._n, self._n + n_transmissions) == 0
        self._n += n_transmissions
        return fates


# --- conservation -----------------------------------------------------------------------------------------------------

MEDIA = {
    "own": OwnMedium,
    "processor sharing": ProcessorSharing,
    "round robin": lambda env: RoundRobin(env, 0.01, 7),
}


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("options", [{}, {"has_classes": True, "chunk_packets": 3}, {"limit_bytes": 400}])
def test_every_offered_message_is_decided_exactly_once_and_before_it_arrives(
    medium: str, options: dict[str, object]
) -> None:
    """Eight radios, three links each, under load; every packet is delivered, lost, or was never sent."""
    env, draws = EmulatorEnvironment(seed=0), np.random.default_rng(11)
    shared = MEDIA[medium](env)  # type: ignore[operator]
    offers, n_messages = Offers(env), 600
    settings = LinkSettings(8e3, 0.02, packet_bytes=40, retry_limit=1, retry_interval_s=0.01)
    radios = [Port(env, shared, **options) for _ in range(8)]  # type: ignore[arg-type]
    links = [
        radio.link(PacketChannel(settings, IidLoss(0.2, np.random.default_rng((index, link)))))
        for index, radio in enumerate(radios)
        for link in range(3)
    ]
    sizes, at_s = draws.integers(1, 500, n_messages), np.sort(draws.random(n_messages)) * 20.0
    for number in range(n_messages):
        link, priority = links[int(draws.integers(len(links)))], int(draws.integers(2))
        offers.at(float(at_s[number]), str(number), link, int(sizes[number]), priority)
    offers.arrivals()
    assert offers.fates.keys() == {str(number) for number in range(n_messages)}
    for name, fate in offers.fates.items():
        assert at_s[int(name)] - ROUNDING <= offers.decided_s[name] <= fate.arrival_s + ROUNDING
        assert fate.n_packets == -(-int(sizes[int(name)]) // 40)
        assert np.all(np.diff(fate.lost_packets) > 0)
        assert fate.lost_packets.size <= fate.n_packets
        assert fate.dropped == (fate.airtime_s == 0.0)
    assert any(fate.dropped for fate in offers.fates.values()) == ("limit_bytes" in options)
