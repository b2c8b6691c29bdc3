"""Channels: do they carry, delay and lose what their numbers say?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sheafedge.emulator.contracts import Channel, ConfigError
from sheafedge.emulator.network.channels.fibre import FIBRE_GRADES, FibreSettings, fibre_channel
from sheafedge.emulator.network.channels.gilbert_elliott import BURST_PRESETS, BurstSettings, bursts_of
from sheafedge.emulator.network.channels.packet_channel import IdealChannel, LinkSettings, PacketChannel
from sheafedge.emulator.network.channels.sidelink import PQI_CLASSES, SidelinkSettings, sidelink_channel
from sheafedge.emulator.network.channels.traces import RecordedDelay, RecordedLoss, RecordedOpportunities, RecordedRate
from sheafedge.emulator.network.channels.xn import XnSettings, xn_channel
from sheafedge.emulator.network.loss import IidLoss, Lossless

STANDARD_ERRORS = 3.0  # with fixed seeds
GOODPUT_TOLERANCE = 0.02  # relative; what is promised, and several standard errors at 200 000 packets
ROUNDING = 1e-12  # seconds
PACKET = 1200
MESSAGE = 100 * PACKET
N_MESSAGES = 2000

SETTINGS = LinkSettings(1e6, packet_bytes=PACKET, retry_limit=1)
#: Capacity that changes: 40 opportunities in uneven clumps per 0.1 s, and rates per second with an outage.
OPPORTUNITIES = np.sort(np.concatenate([np.full(20, 0.031), np.linspace(0.05, 0.1, 20)]))
RATE_TIMES, RATES = np.array([0.0, 1.0, 2.0, 4.0, 4.5]), np.array([9e9, 2e6, 0.0, 1e6, 8e6])
RECEIVED = np.random.default_rng(3).random(700) < 0.8


def draws(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def sidelink(**changes: object) -> PacketChannel:
    settings = SidelinkSettings(**changes)  # type: ignore[arg-type]
    return sidelink_channel(settings, IidLoss(settings.transmission_loss, draws(1)), PACKET, draws(2))


#: Model -> channel, and the goodput in bit/s of a sender that never pauses.
GOODPUT: dict[str, tuple[Callable[[], Channel], float]] = {
    "constant": (lambda: PacketChannel(SETTINGS, IidLoss(0.1, draws())), 1e6 * 0.9),
    "gilbert_elliott light": (
        lambda: PacketChannel(SETTINGS, BURST_PRESETS["light"].process(draws())),
        1e6 * (1 - 0.01 * 0.5 / 0.26),
    ),
    "gilbert_elliott mobile": (
        lambda: PacketChannel(SETTINGS, BURST_PRESETS["mobile"].process(draws())),
        1e6 * 0.25 / 0.27,
    ),
    "fibre": (lambda: fibre_channel(FibreSettings(length_km=20.0), PACKET, draws()), 1e10),
    "xn": (lambda: xn_channel(XnSettings(), SETTINGS, draws(), draws(8)), 1e9 * (1 - 0.01 * 0.5 / 0.26)),
    "sidelink": (lambda: sidelink(pqi=21), 2.4e8 * 0.9),
    "opportunities": (
        lambda: PacketChannel(SETTINGS, IidLoss(0.1, draws()), RecordedOpportunities(OPPORTUNITIES)),
        8 * 1500 * 40 / 0.1 * 0.9,
    ),
    "rates": (
        lambda: PacketChannel(SETTINGS, Lossless(), RecordedRate(RATE_TIMES, RATES)),
        (2e6 * 1.0 + 0.0 + 1e6 * 2.0 + 8e6 * 0.5) / 4.5,
    ),
    "receptions": (lambda: PacketChannel(SETTINGS, RecordedLoss(RECEIVED)), 1e6 * float(RECEIVED.mean())),
    "delays": (
        lambda: PacketChannel(SETTINGS, IidLoss(0.1, draws()), latency=RecordedDelay(np.arange(3.0), np.ones(3))),
        1e6 * 0.9,
    ),
}


def goodput_bps(channel: Channel, n_messages: int = N_MESSAGES) -> float:
    """Of a sender that starts a message when the one before has left."""
    now_s, n_bytes = 0.0, 0
    for _ in range(n_messages):
        sent = channel.transmit(now_s, MESSAGE)
        now_s += sent.airtime_s
        n_bytes += (sent.n_packets - sent.lost_packets.size) * PACKET
    return 8 * n_bytes / now_s


@pytest.mark.parametrize("model", GOODPUT)
def test_goodput_is_what_theory_says(model: str) -> None:
    make, expected_bps = GOODPUT[model]
    assert goodput_bps(make()) == pytest.approx(expected_bps, rel=GOODPUT_TOLERANCE)


def test_goodput_without_the_losses_would_be_noticed() -> None:
    """The negative control: the tolerance is finer than any loss above but the lightest."""
    make, expected_bps = GOODPUT["gilbert_elliott mobile"]
    assert goodput_bps(make()) != pytest.approx(1e6, rel=GOODPUT_TOLERANCE)
    assert goodput_bps(PacketChannel(SETTINGS, Lossless())) != pytest.approx(expected_bps, rel=GOODPUT_TOLERANCE)


def test_an_ideal_channel_takes_no_time_and_loses_nothing() -> None:
    sent = IdealChannel(PACKET).transmit(5.0, MESSAGE + 1)
    assert (sent.airtime_s, sent.arrival_s(5.0), sent.lost_packets.size, sent.n_packets) == (0.0, 5.0, 0, 101)


# --- bursts -----------------------------------------------------------------------------------------------------------


def losses(channel: Channel, n_packets: int = 200_000) -> np.ndarray:
    """[n_packets] which packets a channel without repeats loses, message after message."""
    lost = []
    for _ in range(n_packets // 100):
        sent = channel.transmit(0.0, MESSAGE)
        fates = np.zeros(sent.n_packets, dtype=bool)
        fates[sent.lost_packets] = True
        lost.append(fates)
    return np.concatenate(lost)


ONCE = LinkSettings(1e6, packet_bytes=PACKET)
BURSTS = {**BURST_PRESETS, "of the link's share": bursts_of(0.2, 5.0), "long": BurstSettings(0.05, 0.1, 1.0, 0.0)}


def loss_error(bursts: BurstSettings, n: int) -> tuple[float, float]:
    """Share of losses, and its standard error over n transmissions that share a hidden chain."""
    bad, memory = bursts.p / (bursts.p + bursts.r), 1 - bursts.p - bursts.r
    share = (1 - bad) * bursts.loss_good + bad * bursts.loss_bad
    covariance = (bursts.loss_bad - bursts.loss_good) ** 2 * bad * (1 - bad)
    return share, math.sqrt((share * (1 - share) + 2 * covariance * memory / (1 - memory)) / n)


@pytest.mark.parametrize("name", BURSTS)
def test_a_channel_loses_the_share_that_its_bursts_describe(name: str) -> None:
    lost = losses(PacketChannel(ONCE, BURSTS[name].process(draws())))
    share, error = loss_error(BURSTS[name], len(lost))
    assert abs(lost.mean() - share) < STANDARD_ERRORS * error


TOTAL = [name for name, bursts in BURSTS.items() if bursts.loss_bad == 1.0]  # there losses show the state


@pytest.mark.parametrize("name", TOTAL)
def test_bursts_last_one_over_r_packets_across_messages(name: str) -> None:
    lost, r = losses(PacketChannel(ONCE, BURSTS[name].process(draws()))), BURSTS[name].r
    lengths = burst_lengths(lost)
    assert abs(lengths.mean() - 1 / r) < STANDARD_ERRORS * math.sqrt(1 - r) / r / math.sqrt(len(lengths))


@pytest.mark.parametrize("name", TOTAL)
def test_losses_remember_themselves_by_one_minus_p_minus_r(name: str) -> None:
    bursts = BURSTS[name]
    lost = losses(PacketChannel(ONCE, bursts.process(draws()))).astype(float)
    centered = lost - lost.mean()
    correlation = (centered[1:] * centered[:-1]).mean() / centered.var()
    n_bad = len(lost) * bursts.p / (bursts.p + bursts.r)
    error = math.sqrt(bursts.p * (1 - bursts.p) / (len(lost) - n_bad) + bursts.r * (1 - bursts.r) / n_bad)
    assert abs(correlation - (1 - bursts.p - bursts.r)) < STANDARD_ERRORS * error


def test_independent_losses_fail_the_tests_of_bursts() -> None:
    """The negative control."""
    mobile = BURST_PRESETS["mobile"]
    share, _ = loss_error(mobile, 1)
    lengths = burst_lengths(losses(PacketChannel(ONCE, IidLoss(share, draws()))))
    error = math.sqrt(1 - mobile.r) / mobile.r / math.sqrt(len(lengths))
    assert abs(lengths.mean() - 1 / mobile.r) > STANDARD_ERRORS * error


def burst_lengths(lost: np.ndarray) -> np.ndarray:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(np.int8), [0]])))
    return (edges[1::2] - edges[::2])[1:-1]


def test_bursts_that_would_have_to_touch_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"link\.mean_burst_packets = 2 is too short .* at least 9 packets"):
        bursts_of(0.9, 2.0)


# --- presets ----------------------------------------------------------------------------------------------------------


def test_light_takes_five_microseconds_per_kilometre() -> None:
    channel = fibre_channel(FibreSettings(length_km=20.0, rate_bps=1e9), PACKET, draws())
    sent = channel.transmit(1.0, 125_000)
    assert sent.airtime_s == 1e-3
    assert sent.arrival_s(1.0 + sent.airtime_s) == pytest.approx(1.0 + 1e-3 + 100e-6, abs=ROUNDING)


@pytest.mark.parametrize("grade", FIBRE_GRADES)
def test_a_fibre_keeps_a_latency_of_its_class_and_another_fibre_another(grade: str) -> None:
    low_s, high_s, rate_bps = FIBRE_GRADES[grade]  # type: ignore[index]
    settings = FibreSettings(grade=grade)  # type: ignore[arg-type]
    latencies = []
    for seed in range(20):
        channel = fibre_channel(settings, PACKET, draws(seed))
        sent = [channel.transmit(now_s, 8000) for now_s in (0.0, 1.0, 2.0)]
        assert {each.propagation_s for each in sent} == {sent[0].propagation_s}
        assert sent[0].airtime_s == 64_000 / rate_bps
        latencies.append(sent[0].propagation_s)
    assert all(low_s <= latency <= high_s for latency in latencies)
    assert len(set(latencies)) == (1 if low_s == high_s else len(latencies))


def test_xn_latency_has_its_median_and_its_95_percent_quantile() -> None:
    """Shares below a quantile are binomial."""
    n = 20_000
    repeats = LinkSettings(1.0, propagation_s=9.0, retry_limit=0)  # neither the rate nor the delay is that of Xn
    channel = xn_channel(XnSettings(), repeats, draws(1), draws(2))
    delays = np.array([channel.transmit(0.0, 100).arrival_s(0.0) for _ in range(n)])
    for share, latency_s in ((0.5, 0.008), (0.95, 0.020)):
        error = math.sqrt(share * (1 - share) / n)
        assert abs((delays <= latency_s).mean() - share) < STANDARD_ERRORS * error
    assert abs((delays <= 0.012).mean() - 0.95) > STANDARD_ERRORS * math.sqrt(0.95 * 0.05 / n)  # negative control


@pytest.mark.parametrize("pqi", PQI_CLASSES)
def test_a_sidelink_keeps_its_delay_budget_and_its_error_rate(pqi: int) -> None:
    budget_s, error_rate = PQI_CLASSES[pqi]
    channel = sidelink(pqi=pqi)
    n_packets, n_lost = 0, 0
    for _ in range(3000):
        sent = channel.transmit(0.0, MESSAGE)
        assert 0.5 * budget_s <= sent.delay_s <= budget_s + 3 * 1e-3  # HARQ repeats come on top
        n_packets, n_lost = n_packets + sent.n_packets, n_lost + sent.lost_packets.size
    expected = error_rate * n_packets
    assert abs(n_lost - expected) <= STANDARD_ERRORS * math.sqrt(expected)


def test_nothing_is_heard_beyond_the_range_of_a_sidelink() -> None:
    assert sidelink(distance_m=150.0).transmit(0.0, MESSAGE).lost_packets.size < 100
    assert sidelink(distance_m=150.1).transmit(0.0, MESSAGE).lost_packets.size == 100
    settings = SidelinkSettings(distance_m=200.0)
    with pytest.raises(ConfigError, match="loses everything"):
        sidelink_channel(settings, IidLoss(settings.transmission_loss, draws()), PACKET, draws(), until_delivered=True)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FibreSettings(length_km=-1.0), r"fibre\.length_km must lie in \[0, 40000\], got -1"),
        (lambda: FibreSettings(length_km=math.nan), r"fibre\.length_km"),
        (lambda: FibreSettings(rate_bps=0.0), r"fibre\.rate_bps must be above 0, got 0"),
        (lambda: XnSettings(median_s=0.02, p95_s=0.01), r"xn\.median_s = 0\.02 and xn\.p95_s = 0\.01"),
        (lambda: XnSettings(median_s=math.nan), r"xn\.median_s"),
        (lambda: XnSettings(rate_bps=-1.0), r"xn\.rate_bps must be above 0"),
        (lambda: SidelinkSettings(range_m=0.0), r"sidelink\.range_m must be above 0"),
        (lambda: SidelinkSettings(distance_m=math.nan), r"sidelink\.distance_m must be 0 or more, got nan"),
    ],
)
def test_impossible_numbers_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()
