"""Links: arrival times by hand, queues, retransmissions and what is left lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from doubles.links import ScriptedLosses, fate_of, queued
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import ConfigError, Link
from sheafedge.emulator.network.channels import packet_channel
from sheafedge.emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import FifoLink
from sheafedge.emulator.network.loss import GilbertElliottLoss, IidLoss, LossProcess

STANDARD_ERRORS = 3.0  # with fixed seeds
GOODPUT_TOLERANCE = 0.02  # relative; ten standard errors of the share of losses at 200 000 packets
ROUNDING = 1e-12  # seconds; sums of a few float64 of order one


def lossless() -> IidLoss:
    return iid(0.0)


def iid(probability: float, seed: int = 3) -> IidLoss:
    return IidLoss(probability, np.random.default_rng(seed))


def link_over(loss: LossProcess, start_s: float = 0.0, **changes: object) -> FifoLink:
    """A link of its own with the settings below."""
    return queued(PacketChannel(settings(**changes), loss), start_s)


def settings(**changes: object) -> LinkSettings:
    values: dict[str, object] = {
        "rate_bps": 8000.0,  # 1000 bytes per second
        "propagation_s": 0.25,
        "processing_s": 0.125,
        "packet_bytes": 400,
        "retry_limit": 0,
        "retry_interval_s": 0.5,
    }
    return LinkSettings(**(values | changes))  # type: ignore[arg-type]


def test_a_lone_message_takes_airtime_and_fixed_delays() -> None:
    link: Link = link_over(lossless(), start_s=10.0)
    delivery = fate_of(link, 1000)
    assert delivery.n_packets == 3
    assert delivery.airtime_s == 1.0
    assert delivery.arrival_s == 10.0 + 1.0 + 0.25 + 0.125
    assert delivery.n_retransmissions == 0
    assert delivery.lost_packets.size == 0
    assert link.packet_bytes == 400


def test_messages_back_to_back_wait_for_the_airtime_of_those_before_them_and_no_longer() -> None:
    link = link_over(lossless())
    arrivals = [fate_of(link, size).arrival_s for size in (1000, 500, 250)]
    assert arrivals == [1.0 + 0.375, 1.5 + 0.375, 1.75 + 0.375]
    assert link.sender.free_at_s == 1.75
    link.sender.env.run(until=5.0)
    assert fate_of(link, 1000).arrival_s == 6.375  # the queue is empty again


def test_a_message_offered_while_the_link_is_busy_starts_when_it_is_free() -> None:
    link = link_over(lossless())
    fate_of(link, 1000)
    link.sender.env.run(until=0.4)
    assert fate_of(link, 100).arrival_s == pytest.approx(1.1 + 0.375, abs=ROUNDING)


def test_selective_repeat_by_hand() -> None:
    """Packets 0 and 2 of three are lost, then 2 again; the last packet has 200 bytes."""
    link = link_over(ScriptedLosses([1, 0, 1], [0, 1], [0]), retry_limit=2)
    delivery = fate_of(link, 1000)
    assert delivery.airtime_s == pytest.approx((1000 + 600 + 200) / 1000, abs=ROUNDING)
    assert delivery.arrival_s == pytest.approx(1.8 + 2 * 0.5 + 0.375, abs=ROUNDING)
    assert delivery.n_retransmissions == 3
    assert delivery.lost_packets.size == 0
    assert link.sender.free_at_s == delivery.airtime_s  # others may send while the sender waits to learn what was lost


def test_what_the_last_round_loses_stays_lost() -> None:
    link = link_over(ScriptedLosses([1, 0, 1, 1], [1, 0, 1]), retry_limit=1)
    delivery = fate_of(link, 1600)
    assert_array_equal(delivery.lost_packets, [0, 3])
    assert delivery.n_retransmissions == 3
    assert delivery.arrival_s == pytest.approx(1.6 + 1.2 + 0.5 + 0.375, abs=ROUNDING)


def test_without_retries_a_lost_packet_costs_nothing_more() -> None:
    delivery = fate_of(link_over(ScriptedLosses([0, 1, 0])), 1000)
    assert_array_equal(delivery.lost_packets, [1])
    assert delivery.arrival_s == 1.375


@pytest.mark.parametrize(("size_bytes", "n_packets"), [(0, 1), (1, 1), (400, 1), (401, 2), (800, 2), (801, 3)])
def test_messages_are_cut_into_as_many_packets_as_they_need(size_bytes: int, n_packets: int) -> None:
    delivery = fate_of(link_over(lossless()), size_bytes)
    assert delivery.n_packets == n_packets
    assert delivery.airtime_s == size_bytes / 1000


def test_an_ideal_link_costs_no_time() -> None:
    link = queued(PacketChannel(LinkSettings(rate_bps=math.inf), lossless()), start_s=2.0)
    assert [fate_of(link, size).arrival_s for size in (0, 10, 10**9)] == [2.0, 2.0, 2.0]


def test_a_link_that_loses_everything_says_so() -> None:
    delivery = fate_of(link_over(iid(1.0), retry_limit=3), 1000)
    assert_array_equal(delivery.lost_packets, [0, 1, 2])
    assert delivery.n_retransmissions == 9


@pytest.mark.parametrize(("loss", "retry_limit"), [(0.0, 0), (0.1, 0), (0.1, 3), (0.4, 1), (0.4, None)])
def test_goodput_is_the_rate_times_the_share_that_gets_through(loss: float, retry_limit: int | None) -> None:
    link = link_over(iid(loss), packet_bytes=1200, retry_limit=retry_limit)
    delivered_bytes = 0
    for _ in range(2000):
        delivery = fate_of(link, 100 * 1200)
        delivered_bytes += (delivery.n_packets - delivery.lost_packets.size) * 1200
    goodput_bps = 8 * delivered_bytes / link.sender.free_at_s
    assert goodput_bps == pytest.approx((1 - loss) * 8000.0, rel=GOODPUT_TOLERANCE)


@pytest.mark.parametrize(("loss", "retry_limit"), [(0.1, 0), (0.3, 1), (0.3, 4), (0.7, 2)])
def test_a_packet_is_sent_a_truncated_geometric_number_of_times(loss: float, retry_limit: int) -> None:
    n_messages, n_packets = 400, 100
    link = link_over(iid(loss), retry_limit=retry_limit)
    repeats = sum(fate_of(link, n_packets * 400).n_retransmissions for _ in range(n_messages))
    sent = 1 + repeats / (n_messages * n_packets)
    # P(a packet is sent at least k times) = loss^(k-1) for k up to the limit.
    at_least = loss ** np.arange(retry_limit + 1)
    mean = at_least.sum()
    variance = ((2 * np.arange(retry_limit + 1) + 1) * at_least).sum() - mean**2
    assert abs(sent - mean) <= STANDARD_ERRORS * math.sqrt(variance / (n_messages * n_packets))


@pytest.mark.parametrize(("loss", "retry_limit", "n_packets"), [(0.05, 0, 10), (0.2, 1, 20), (0.3, 3, 137)])
def test_messages_that_stay_incomplete_are_as_many_as_the_formula_says(
    loss: float, retry_limit: int, n_packets: int
) -> None:
    n_messages = 10_000
    link = link_over(iid(loss), retry_limit=retry_limit)
    incomplete = sum(fate_of(link, n_packets * 400).lost_packets.size > 0 for _ in range(n_messages)) / n_messages
    expected = 1 - (1 - loss ** (retry_limit + 1)) ** n_packets
    assert abs(incomplete - expected) < STANDARD_ERRORS * math.sqrt(expected * (1 - expected) / n_messages)


def test_unlimited_retries_deliver_everything_in_bursts_too() -> None:
    loss = GilbertElliottLoss(0.05, 0.1, 0.0, 1.0, np.random.default_rng(8))
    link = link_over(loss, retry_limit=None)
    deliveries = [fate_of(link, 40_000) for _ in range(200)]
    assert all(delivery.lost_packets.size == 0 for delivery in deliveries)
    assert any(delivery.n_retransmissions for delivery in deliveries)


def test_the_same_seed_gives_the_same_fate_and_another_seed_another() -> None:
    first, again, other = (
        [fate_of(link_over(iid(0.3, seed), start_s=1.0, retry_limit=2), 40_000).arrival_s for _ in range(5)]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "hopeless",
    [iid(1.0), GilbertElliottLoss(0.1, 0.0, 0.0, 1.0, np.random.default_rng(0))],
)
def test_repeating_for_ever_over_a_dead_link_is_refused_at_once(hopeless: IidLoss | GilbertElliottLoss) -> None:
    with pytest.raises(ConfigError, match=r"link.retry_limit is unlimited but the link loses everything"):
        link_over(hopeless, retry_limit=None)


def test_repeating_without_success_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packet_channel, "MAX_ROUNDS", 4)
    lucky = link_over(ScriptedLosses([1], [1], [1], [0]), retry_limit=None)
    assert fate_of(lucky, 100).n_retransmissions == 3
    unlucky = link_over(ScriptedLosses([1], [1], [1], [1]), retry_limit=None)
    with pytest.raises(ConfigError, match=r"link.retry_limit is unlimited and 4 rounds"):
        fate_of(unlucky, 100)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate_bps", 0.0),
        ("rate_bps", -1.0),
        ("rate_bps", math.nan),
        ("propagation_s", -1e-9),
        ("propagation_s", math.inf),
        ("processing_s", math.nan),
        ("retry_interval_s", -1.0),
        ("packet_bytes", 0),
        ("packet_bytes", -8),
        ("packet_bytes", 1001),
        ("retry_limit", -1),
    ],
)
def test_impossible_settings_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^link\.{field} must be .*got {value}"):
        settings(**{field: value})
