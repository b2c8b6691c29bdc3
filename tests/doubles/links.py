"""Offers messages to links, and stands in for what is behind them."""

from __future__ import annotations

import numpy as np
import simpy
from sheafedge.emulator.contracts import Channel, Delivery, Link, Transmission
from sheafedge.emulator.network.fifo import Fifo, FifoLink


def fate_of(link: Link, size_bytes: int, priority: int = 0) -> Delivery:
    """The fate of a message that a link must know at once."""
    fates: list[Delivery] = []
    link.offer(size_bytes, priority, fates.append)
    (fate,) = fates
    return fate


def queued(channel: Channel, start_s: float = 0.0) -> FifoLink:
    """A link of its own before a channel."""
    return Fifo(simpy.Environment(start_s)).link(channel)


class ScriptedLosses:
    """A loss process that follows a script, one row per round."""

    def __init__(self, *rounds: list[int]) -> None:
        self._rounds = list(rounds)

    stationary_loss = 0.5
    mean_burst = 1.0

    def lost(self, n_transmissions: int) -> np.ndarray:
        row = np.array(self._rounds.pop(0), dtype=bool)
        assert len(row) == n_transmissions
        return row


class SlowChannel:
    """One byte per second and packets of 8 bytes; loses the packets of a script, transmission by transmission."""

    packet_bytes = 8

    def __init__(self, *lost: list[int], delay_s: float = 0.0) -> None:
        self._lost, self._delay_s = list(lost), delay_s
        self.starts_s: list[float] = []

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        self.starts_s.append(start_s)
        lost = np.array(self._lost.pop(0) if self._lost else [], dtype=np.int64)
        return Transmission(float(size_bytes), self._delay_s, lost, -(-size_bytes // 8) or 1, 0)
