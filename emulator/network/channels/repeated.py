"""A channel whose lost packets are sent again until they arrive, as an acknowledged mode above the radio does."""

from __future__ import annotations

import numpy as np

from ...contracts import Channel, ConfigError, State, Transmission
from ...memory import restore_to, state_of

#: Rounds after which a message is given up with an error.
MAX_ROUNDS = 10_000


class RepeatedChannel:
    """Selective repeat over another channel, without limit.

    The sender is busy for the airtime of all rounds, and free while it waits to learn what was lost.

    Args:
        channel: that loses packets.
        interval_s: from the arrival of a round until what it lost is sent again.
    """

    def __init__(self, channel: Channel, interval_s: float) -> None:
        self._channel, self._interval_s = channel, interval_s

    @property
    def packet_bytes(self) -> int:
        """Of the channel."""
        return self._channel.packet_bytes

    def state(self) -> State:
        return state_of(self._channel)

    def restore(self, state: State) -> None:
        restore_to(self._channel, state)

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Fate of a message whose transmission starts at this instant.

        Raises:
            ConfigError: `MAX_ROUNDS` rounds did not suffice.
        """
        sent = self._channel.transmit(start_s, size_bytes)
        missing, airtime_s, n_repeats = sent.lost_packets, sent.airtime_s, sent.n_retransmissions
        round_ends_s = start_s + sent.airtime_s + sent.delay_s
        for _ in range(MAX_ROUNDS):
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
                f"network.missing = 'wait', but {MAX_ROUNDS} repeats did not get a message through; use 'skip', or give"
                " links.radio more power"
            )
        return Transmission(
            airtime_s=airtime_s,
            delay_s=round_ends_s - start_s - airtime_s,
            lost_packets=np.empty(0, dtype=np.int64),
            n_packets=sent.n_packets,
            n_retransmissions=n_repeats,
        )
