"""Links that decide when, and whether, a message arrives: rate, queue, delay, loss and retransmission, no bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError, Delivery, State
from .loss import LossProcess

#: Rounds after which `retry_limit=None` gives up with an error; at 99 % loss, 137 packets need about 600.
MAX_ROUNDS = 100_000


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What one direction of an edge is like.

    Attributes:
        rate_bps: bits per second on the air; `math.inf` for a link that costs no airtime.
        propagation_s, processing_s: fixed delays after the last bit; they do not keep the link busy.
        packet_bytes: size of all packets but a message's last; a multiple of 8, so that no number is cut in two.
        retry_limit: how often a lost packet is repeated: 0 never, None until it arrives.
        retry_interval_s: from the end of a round until its sender knows what was lost and repeats it.

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


class QueuedLink:
    """One direction of an edge: a FIFO queue before a lossy channel with selective repeat.

    A message is cut into packets. Round 1 sends all of them, each further round those that were lost, up to
    `retry_limit` further rounds. Everything is computed when the message is offered, with one vector draw per round
    and no event per packet; messages must therefore be offered in the order of time.

    Raises:
        ConfigError: repeats without limit over a channel that never delivers.
    """

    def __init__(self, settings: LinkSettings, loss: LossProcess) -> None:
        if settings.retry_limit is None and loss.stationary_loss >= 1.0:
            raise ConfigError("link.retry_limit is unlimited but the link loses everything; set it, or lower the loss")
        self.settings = settings
        self.free_at_s = 0.0
        self._loss = loss

    @property
    def packet_bytes(self) -> int:
        """Size of the packets that it cuts messages into."""
        return self.settings.packet_bytes

    def state(self) -> State:
        return {"free_at_s": self.free_at_s, "loss": self._loss.state()}

    def restore(self, state: State) -> None:
        self.free_at_s = state["free_at_s"]
        self._loss.restore(state["loss"])

    def decide(self, now_s: float, size_bytes: int) -> Delivery:
        """Fate of a message of this size offered at this instant.

        The link is busy for the airtime only: while a sender waits to learn what was lost, others may send.
        The arrival is that of the last round, also when that round's packets are lost: only then does the
        receiver know that nothing more will come.

        Raises:
            ConfigError: unlimited repeats did not get through in `MAX_ROUNDS` rounds.
        """
        settings = self.settings
        n_packets = max(1, -(-size_bytes // settings.packet_bytes))
        missing, n_sent, sent_bytes, n_rounds = self._send(n_packets, size_bytes)
        airtime_s = 8 * sent_bytes / settings.rate_bps
        start_s = max(now_s, self.free_at_s)
        self.free_at_s = start_s + airtime_s
        waits_s = (n_rounds - 1) * settings.retry_interval_s
        return Delivery(
            arrival_s=self.free_at_s + waits_s + settings.propagation_s + settings.processing_s,
            lost_packets=missing,
            n_packets=n_packets,
            n_retransmissions=n_sent - n_packets,
            airtime_s=airtime_s,
        )

    def _send(self, n_packets: int, size_bytes: int) -> tuple[NDArray[np.int64], int, int, int]:
        """Indices of the packets that never got through, and packets, bytes and rounds that were sent."""
        packet_bytes = self.settings.packet_bytes
        shortfall = n_packets * packet_bytes - size_bytes  # the last packet is shorter by this
        missing = np.flatnonzero(self._loss.lost(n_packets))
        n_sent, sent_bytes, n_rounds = n_packets, size_bytes, 1
        limit = MAX_ROUNDS - 1 if self.settings.retry_limit is None else self.settings.retry_limit
        while missing.size and n_rounds <= limit:
            n_sent += missing.size
            sent_bytes += missing.size * packet_bytes - (shortfall if missing[-1] == n_packets - 1 else 0)
            n_rounds += 1
            missing = missing[self._loss.lost(missing.size)]
        if missing.size and self.settings.retry_limit is None:
            raise ConfigError(f"link.retry_limit is unlimited and {MAX_ROUNDS} rounds did not suffice; set a limit")
        return missing, n_sent, sent_bytes, n_rounds
