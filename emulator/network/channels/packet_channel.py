"""Channels that cut messages into packets, lose some of them, and repeat what was lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...contracts import Channel, ConfigError, State, Transmission
from ...saved_state import SavedState, optional_state, restore_optional
from ..loss import NO_PACKETS, LossProcess

#: Rounds after which `retry_limit=None` gives up with an error; at 99 % loss, 137 packets need about 600.
MAX_ROUNDS = 100_000
#: The same of a channel around another one, whose rounds take longer to compute.
MAX_OUTER_ROUNDS = 10_000

#: Seconds that a sender needs for so many bytes from an instant on: (start_s, n_bytes) -> airtime_s.
Pace = Callable[[float, int], float]
#: Seconds of delay of a transmission that starts at an instant: (start_s) -> delay_s.
Latency = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Rate, delays and repeats of one direction of an edge.

    Attributes:
        rate_bps: bits per second on the air; `math.inf` for a link that costs no airtime.
        propagation_s, processing_s: fixed delays after the last bit; they do not keep the link busy.
        packet_bytes: size of all packets but a message's last; a multiple of 8, so that no number is cut in two.
        retry_limit: largest number of repeats of a lost packet: 0 none, None until it arrives.
        retry_interval_s: time from the end of a round until its sender knows what was lost and repeats it.

    Raises:
        ConfigError: a value is impossible.
    """

    rate_bps: float
    propagation_s: float = 0.0
    processing_s: float = 0.0
    packet_bytes: int = 1200
    retry_limit: int | None = 0
    retry_interval_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.rate_bps > 0.0:  # NaN fails too
            raise ConfigError(f"link.rate_bps must be above 0, got {self.rate_bps}; 1e9 is one gigabit per second")
        for name in ("propagation_s", "processing_s", "retry_interval_s"):
            value = getattr(self, name)
            if not (value >= 0.0 and math.isfinite(value)):
                raise ConfigError(f"link.{name} must be 0 or a finite number of seconds above it, got {value}")
        if self.packet_bytes < 8 or self.packet_bytes % 8:
            raise ConfigError(f"link.packet_bytes must be a positive multiple of 8, got {self.packet_bytes}; try 1200")
        if self.retry_limit is not None and self.retry_limit < 0:
            raise ConfigError(f"link.retry_limit must be 0 or more, got {self.retry_limit}; 0 means no retransmission")


class IdealChannel:
    """Channel without airtime, delay and loss.

    Args:
        packet_bytes: size of the packets that it counts.
    """

    def __init__(self, packet_bytes: int = 1200) -> None:
        self.packet_bytes = packet_bytes

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Transmission of a message that arrives at once, whole."""
        return Transmission(0.0, 0.0, NO_PACKETS, -(-size_bytes // self.packet_bytes) or 1, 0)


class PacketChannel:
    """Selective repeat over a loss process, at a pace: models "constant" and "gilbert_elliott", and part of others.

    Round 1 sends all packets of a message, each further round those that were lost, up to `retry_limit` further rounds.
    All is computed when the transmission starts, with one vector draw per round and no event per packet.

    Args:
        settings: packets, repeats and fixed delays; the rate too, unless there is a `pace`.
        loss: fate of consecutive transmissions.
        pace: airtime of so many bytes from an instant on; None: `settings.rate_bps`.
        latency: delay beyond the fixed ones; None: none.

    Raises:
        ConfigError: repeats without limit over a channel that never delivers.

    >>> from sheafedge.emulator.network.loss import Lossless
    >>> channel = PacketChannel(LinkSettings(rate_bps=1e6, propagation_s=0.25), Lossless())
    >>> sent = channel.transmit(start_s=0.0, size_bytes=125_000)
    >>> sent.airtime_s, sent.arrival_s(end_s=1.0), sent.n_packets
    (1.0, 1.25, 105)
    """

    def __init__(
        self, settings: LinkSettings, loss: LossProcess, pace: Pace | None = None, latency: Latency | None = None
    ) -> None:
        # Found when links are built, instead of after MAX_ROUNDS rounds of the first message.
        if settings.retry_limit is None and loss.stationary_loss >= 1.0:
            raise ConfigError("link.retry_limit is unlimited but the link loses everything; set it, or lower the loss")
        self.settings = settings
        self.packet_bytes = settings.packet_bytes
        self._loss, self._pace, self._latency = loss, pace, latency

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Fate of the packets of a message whose transmission starts at this instant.

        The sender is busy for the airtime only: while it waits to learn what was lost, others may send. The arrival is
        that of the last round, also when that round's packets are lost: only then does the receiver know that nothing
        more will come.

        Raises:
            ConfigError: unlimited repeats did not get through in `MAX_ROUNDS` rounds.
        """
        settings = self.settings
        n_packets = -(-size_bytes // settings.packet_bytes) or 1
        missing = self._loss.lost(n_packets).nonzero()[0]
        n_sent, sent_bytes, delay_s = n_packets, size_bytes, 0.0
        if missing.size:
            missing, n_sent, sent_bytes, n_rounds = self._repeated(missing, n_packets, size_bytes)
            delay_s = (n_rounds - 1) * settings.retry_interval_s
        if self._latency is not None:
            delay_s += self._latency(start_s)
        return Transmission(
            8 * sent_bytes / settings.rate_bps if self._pace is None else self._pace(start_s, sent_bytes),
            delay_s,
            missing,
            n_packets,
            n_sent - n_packets,
            settings.propagation_s,
            settings.processing_s,
        )

    def state(self) -> State:
        return [optional_state(part) for part in (self._loss, self._pace, self._latency)]

    def restore(self, saved: SavedState) -> None:
        for part, one in zip((self._loss, self._pace, self._latency), saved.listed(3), strict=True):
            restore_optional(part, one)

    def _repeated(
        self, missing: NDArray[np.int64], n_packets: int, size_bytes: int
    ) -> tuple[NDArray[np.int64], int, int, int]:
        """Indices of the packets that never got through, and packets, bytes and rounds that were sent in all."""
        packet_bytes = self.settings.packet_bytes
        shortfall = n_packets * packet_bytes - size_bytes  # the last packet is shorter by this
        n_sent, sent_bytes, n_rounds = n_packets, size_bytes, 1
        limit = MAX_ROUNDS - 1 if self.settings.retry_limit is None else self.settings.retry_limit
        while missing.size and n_rounds <= limit:
            n_sent += missing.size
            sent_bytes += missing.size * packet_bytes - (shortfall if missing[-1] == n_packets - 1 else 0)
            n_rounds += 1
            # Consecutive transmissions of one loss process: a burst that is on continues into the repeats.
            missing = missing[self._loss.lost(missing.size)]
        if missing.size and self.settings.retry_limit is None:
            raise ConfigError(f"link.retry_limit is unlimited and {MAX_ROUNDS} rounds did not suffice; set a limit")
        return missing, n_sent, sent_bytes, n_rounds


class RepeatedChannel:
    """Selective repeat over another channel, without limit.

    The sender is busy for the airtime of all rounds, and free while it waits to learn what was lost.

    Args:
        channel: channel that loses packets.
        interval_s: time from the arrival of a round until what it lost is sent again.
    """

    def __init__(self, channel: Channel, interval_s: float) -> None:
        self._channel, self._interval_s = channel, interval_s

    @property
    def packet_bytes(self) -> int:
        """Size of the channel's packets in bytes."""
        return self._channel.packet_bytes

    def state(self) -> State:
        return optional_state(self._channel)

    def restore(self, saved: SavedState) -> None:
        restore_optional(self._channel, saved)

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Fate of a message whose transmission starts at this instant.

        Raises:
            ConfigError: `MAX_OUTER_ROUNDS` rounds did not suffice.
        """
        sent = self._channel.transmit(start_s, size_bytes)
        missing, airtime_s, n_repeats = sent.lost_packets, sent.airtime_s, sent.n_retransmissions
        round_ends_s = start_s + sent.airtime_s + sent.delay_s
        for _ in range(MAX_OUTER_ROUNDS):
            if not missing.size:
                break
            short = sent.n_packets * self.packet_bytes - size_bytes if missing[-1] == sent.n_packets - 1 else 0
            again_s = round_ends_s + self._interval_s
            again = self._channel.transmit(again_s, missing.size * self.packet_bytes - short)
            round_ends_s = again_s + again.airtime_s + again.delay_s
            airtime_s += again.airtime_s
            n_repeats += missing.size + again.n_retransmissions
            missing = missing[again.lost_packets]
        else:
            raise ConfigError(
                f"network.missing = 'wait', but {MAX_OUTER_ROUNDS} repeats did not get a message through; use 'skip',"
                " or give links.radio more power"
            )
        return Transmission(
            airtime_s=airtime_s,
            delay_s=round_ends_s - start_s - airtime_s,
            lost_packets=NO_PACKETS,
            n_packets=sent.n_packets,
            n_retransmissions=n_repeats,
        )
