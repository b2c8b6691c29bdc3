"""Sender with queues, classes of priority and chunks, event by event, on a medium that it may share."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..contracts import Channel, Delivery, State, Transmission
from ..engine import EmulatorEnvironment
from ..saved_state import SavedState
from .fifo import refused
from .loss import NO_PACKETS
from .medium import Medium

#: Number of classes: head and map vectors before encoders.
N_CLASSES = 2


class Offer(Protocol):
    """Callback for the fate of a message, with a number that a checkpoint can name."""

    number: int

    def __call__(self, delivery: Delivery) -> None:
        """Take the decision of the link."""
        ...


class _Job:
    """A message on its way through a port."""

    __slots__ = ("airtime_s", "arrival_s", "channel", "decided", "left_bytes", "lost", "n_packets", "n_retransmissions")

    #: What is kept of it in a checkpoint, beside its channel, its lost packets and its offer.
    COUNTED = ("left_bytes", "arrival_s", "airtime_s", "n_packets", "n_retransmissions")

    def __init__(self, channel: Channel, size_bytes: int, decided: Callable[[Delivery], None]) -> None:
        self.channel, self.left_bytes, self.decided = channel, size_bytes, decided
        self.arrival_s = self.airtime_s = 0.0
        self.n_packets = self.n_retransmissions = 0
        self.lost: list[NDArray[np.int64]] = []

    def sent(self, chunk: Transmission, end_s: float) -> None:
        """Add a chunk that has left at `end_s`."""
        # A channel numbers the packets of each chunk from 0.
        if chunk.lost_packets.size:
            self.lost.append(chunk.lost_packets + self.n_packets)
        self.n_packets += chunk.n_packets
        self.n_retransmissions += chunk.n_retransmissions
        self.airtime_s += chunk.airtime_s
        self.arrival_s = max(self.arrival_s, chunk.arrival_s(end_s))

    def state(self, channels: Sequence[Channel]) -> State:
        """All of it, with its channel as a number."""
        offer = cast("Offer", self.decided)
        counted = {name: getattr(self, name) for name in self.COUNTED}
        return {**counted, "lost": list(self.lost), "channel": channels.index(self.channel), "offer": offer.number}

    @classmethod
    def restored(cls, saved: SavedState, channels: Sequence[Channel], offers: Mapping[int, Offer]) -> _Job:
        """The job whose state this is."""
        job = cls(channels[saved.part("channel").count(len(channels) - 1)], 0, offers[saved.part("offer").count()])
        for name in cls.COUNTED:
            setattr(job, name, saved.part(name).state)
        job.lost = [one.array(np.dtype(np.int64), None) for one in saved.part("lost").listed()]
        return job

    def delivery(self) -> Delivery:
        """Fate of the message, when all chunks have left."""
        lost = NO_PACKETS if not self.lost else self.lost[0] if len(self.lost) == 1 else np.concatenate(self.lost)
        return Delivery(self.arrival_s, lost, self.n_packets, self.n_retransmissions, self.airtime_s)


class Port:
    """Sender that starts the next chunk of the first message of the first class when a chunk has left.

    A chunk that has been started is finished (non-preemptive). Inside a class messages leave in the order of offers,
    one after the other.

    Args:
        env: the simulated clock.
        medium: carries its transmissions, alone or among others.
        limit_bytes: most bytes that wait, over all classes; a message that does not fit is refused, unless the sender
            is idle.
        has_classes: whether priorities count; otherwise all messages are of one class.
        chunk_packets: packets that are sent before the queues are consulted again; None: whole messages.
    """

    def __init__(
        self,
        env: EmulatorEnvironment,
        medium: Medium,
        *,
        limit_bytes: float = math.inf,
        has_classes: bool = False,
        chunk_packets: int | None = None,
    ) -> None:
        self.env, self.medium = env, medium
        self._limit_bytes, self._chunk_packets = limit_bytes, chunk_packets
        self._channels: list[Channel] = []
        self._classes: Sequence[deque[_Job]] = [deque() for _ in range(N_CLASSES if has_classes else 1)]
        self._waiting_bytes = 0
        self._sending: tuple[_Job, Transmission, deque[_Job]] | None = None

    def link(self, channel: Channel) -> PortLink:
        """One more link that this sender serves."""
        self._channels.append(channel)
        return PortLink(self, channel)

    def state(self) -> State:
        """Messages that wait and the one that is being sent; its medium knows how long that takes."""
        sending = None
        if self._sending is not None:
            _, chunk, queue = self._sending
            number = next(number for number, each in enumerate(self._classes) if each is queue)
            sending = {"class": number, "chunk": list(chunk)}
        waiting = [[job.state(self._channels) for job in queue] for queue in self._classes]
        return {"waiting": waiting, "waiting_bytes": self._waiting_bytes, "sending": sending}

    def restore(self, saved: SavedState, offers: Mapping[int, Offer]) -> None:
        """Go on with those messages, whose fates are reported to these offers, by their numbers."""
        for queue, jobs in zip(self._classes, saved.part("waiting").listed(len(self._classes)), strict=True):
            queue.extend(_Job.restored(job, self._channels, offers) for job in jobs.listed())
        self._waiting_bytes = saved.part("waiting_bytes").count()
        sending = saved.part("sending")
        if sending.state is not None:
            queue = self._classes[sending.part("class").count(len(self._classes) - 1)]
            # The job that is being sent is always the first of its class, see `_send_next`.
            self._sending = queue[0], Transmission(*sending.part("chunk").state), queue

    def take(self, channel: Channel, size_bytes: int, priority: int, decided: Callable[[Delivery], None]) -> None:
        """Queue a message for one of its links, or refuse it."""
        # An idle sender takes every message, or one larger than the limit could never be sent.
        if self._sending is not None and self._waiting_bytes + size_bytes > self._limit_bytes:
            decided(refused(self.env.now, size_bytes, channel.packet_bytes))
            return
        self._waiting_bytes += size_bytes
        self._classes[min(priority, len(self._classes) - 1)].append(_Job(channel, size_bytes, decided))
        if self._sending is None:
            self._send_next()

    def _send_next(self) -> None:
        queue = next((queue for queue in self._classes if queue), None)
        if queue is None:
            return
        job = queue[0]  # it stays there until its last chunk has left; a higher class may go in between
        n_bytes = job.left_bytes
        if self._chunk_packets is not None:
            n_bytes = min(n_bytes, self._chunk_packets * job.channel.packet_bytes)
        chunk = job.channel.transmit(self.env.now, n_bytes)
        job.left_bytes -= n_bytes
        self._waiting_bytes -= n_bytes
        self._sending = job, chunk, queue
        self.medium.carry(chunk.airtime_s, self)

    def has_left(self) -> None:
        """The chunk that was being sent has left; see `Sender`."""
        assert self._sending is not None, "the medium carried what this port has not sent"
        job, chunk, queue = self._sending
        job.sent(chunk, self.env.now)
        self._sending = None
        if job.left_bytes > 0:
            self._send_next()
            return
        queue.popleft()
        # The sender goes on before the fate is reported: messages that the report causes wait like any others.
        self._send_next()
        job.decided(job.delivery())


class PortLink:
    """One direction of an edge: a channel behind a `Port`."""

    def __init__(self, port: Port, channel: Channel) -> None:
        self.sender, self.channel = port, channel
        self.packet_bytes = channel.packet_bytes

    def offer(self, size_bytes: int, priority: int, decided: Callable[[Delivery], None]) -> None:
        """Decides when the last of the message has left."""
        self.sender.take(self.channel, size_bytes, priority, decided)
