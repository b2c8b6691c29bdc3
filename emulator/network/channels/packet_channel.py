"""A channel that cuts messages into packets, loses some of them, and repeats what was lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, State, Transmission
from ...memory import restore_to, state_of
from ..loss import LossProcess
from .link_settings import LinkSettings

#: Rounds after which `retry_limit=None` gives up with an error; at 99 % loss, 137 packets need about 600.
MAX_ROUNDS = 100_000

#: Seconds that a sender needs for so many bytes from an instant on: (start_s, n_bytes) -> airtime_s.
Pace = Callable[[float, int], float]
#: Seconds of delay that a transmission meets which starts at an instant: (start_s) -> delay_s.
Latency = Callable[[float], float]


class PacketChannel:
    """Selective repeat over a loss process, at a pace: models "constant" and "gilbert_elliott", and part of others.

    Round 1 sends all packets of a message, each further round those that were lost, up to `retry_limit` further rounds.
    All is computed when the transmission starts, with one vector draw per round and no event per packet.

    Args:
        settings: packets, repeats and fixed delays; the rate too, unless there is a `pace`.
        loss: fate of consecutive transmissions.
        pace: of sending; None: `settings.rate_bps`.
        latency: delay beyond the fixed ones; None: none.

    Raises:
        ConfigError: repeats without limit over a channel that never delivers.
    """

    def __init__(
        self, settings: LinkSettings, loss: LossProcess, pace: Pace | None = None, latency: Latency | None = None
    ) -> None:
        if settings.retry_limit is None and loss.stationary_loss >= 1.0:
            raise ConfigError("link.retry_limit is unlimited but the link loses everything; set it, or lower the loss")
        self.settings = settings
        self.packet_bytes = settings.packet_bytes
        self._loss, self._pace, self._latency = loss, pace, latency

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """What happens to the packets of a message whose transmission starts at this instant.

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
        return [state_of(part) for part in (self._loss, self._pace, self._latency)]

    def restore(self, state: State) -> None:
        for part, remembered in zip((self._loss, self._pace, self._latency), state, strict=True):
            restore_to(part, remembered)

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
            missing = missing[self._loss.lost(missing.size)]
        if missing.size and self.settings.retry_limit is None:
            raise ConfigError(f"link.retry_limit is unlimited and {MAX_ROUNDS} rounds did not suffice; set a limit")
        return missing, n_sent, sent_bytes, n_rounds
