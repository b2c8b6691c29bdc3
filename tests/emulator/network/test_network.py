"""Where messages meet links: who may send to whom, what is lost, what arrives in part, and what is counted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from doubles.emulation import HEADER_BYTES, DirectTransport, ScriptedLink, message, quiet_recorder
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import Arrival, Link, Message, MessageKind, Modality, TopologyError, Transport
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.faults.fault_plan import NO_FAULTS, Corruption, FaultPlan
from sheafedge.emulator.faults.outages import Outage, ScheduledOutages, Timetable
from sheafedge.emulator.network.channels.packet_channel import IdealChannel, LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import Fifo
from sheafedge.emulator.network.loss import IidLoss
from sheafedge.emulator.network.medium import ProcessorSharing
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.network.port import Port
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport
from sheafedge.emulator.saved_state import SavedState

PAYLOAD_PACKETS, HEADER_PACKET = (0, 1), 2  # of a default message: four float64 in two packets, and the header


class Site:
    """Nodes 0 and 1 joined in both directions, node 2 alone, and a list of what arrived when."""

    def __init__(self, transport: DirectTransport | None = None, **link: Any) -> None:
        self.env, self.recorder = EmulatorEnvironment(seed=0), quiet_recorder()
        self.links: Mapping[tuple[int, int], ScriptedLink] = {
            (0, 1): ScriptedLink(self.env, **link),
            (1, 0): ScriptedLink(self.env),
        }
        self.arrived: list[tuple[float, int, Message]] = []
        deliver = {node: self._deliver_to(node) for node in range(3)}
        self.network = Network(self.env, transport or DirectTransport(), self.links, deliver, self.recorder)

    def _deliver_to(self, node: int) -> Any:
        return lambda arriving: self.arrived.append((self.env.now, node, arriving))

    def send(self, *messages: Message) -> None:
        self.network.send(messages)
        self.env.run()


def test_a_message_arrives_at_its_receiver_when_the_link_says() -> None:
    site = Site(delay_s=0.25)
    site.env.run(until=1.0)
    sent = message(0, 1)
    site.send(sent)
    assert site.arrived == [(1.25, 1, sent)]
    assert site.links[0, 1].offered_s == [1.0]
    assert site.links[1, 0].offered_s == []  # directions do not share a link


@pytest.mark.parametrize(("sender", "receiver"), [(0, 2), (2, 0), (0, 0), (0, 9)])
def test_only_neighbors_can_be_reached(sender: int, receiver: int) -> None:
    site = Site()
    with pytest.raises(TopologyError, match=f"node {sender} sent to {receiver}, which is not its neighbor"):
        site.send(message(sender, receiver))
    site.env.run()
    assert site.arrived == []
    assert site.recorder.traffic.messages == 0


def test_an_indivisible_message_is_lost_with_any_of_its_packets() -> None:
    whole = message(kind=MessageKind.PROTOTYPES, modality=None)
    for lost, n_arrived in [((0,), 0), ((HEADER_PACKET,), 0), ((), 1)]:
        site = Site(losses=[lost])
        site.send(whole)
        assert len(site.arrived) == n_arrived
        assert site.recorder.traffic.lost_messages == 1 - n_arrived
        assert site.recorder.traffic.partial_messages == 0


def test_a_divisible_message_arrives_without_the_coordinates_of_lost_packets() -> None:
    site = Site(losses=[(1,)])
    site.send(message(values=[1.0, 2.0, 3.0, 4.0]))
    ((_, _, arrived),) = site.arrived
    assert_array_equal(arrived.received, [True, True, False, False])
    assert_array_equal(arrived.payload[:2], [1.0, 2.0])
    assert (site.recorder.traffic.partial_messages, site.recorder.traffic.lost_messages) == (1, 0)


def test_a_divisible_message_is_lost_when_nothing_of_it_arrives() -> None:
    site = Site(losses=[(*PAYLOAD_PACKETS, HEADER_PACKET)])
    site.send(message())
    assert site.arrived == []
    assert (site.recorder.traffic.partial_messages, site.recorder.traffic.lost_messages) == (0, 1)


def test_traffic_is_counted_in_total_by_kind_and_by_sender() -> None:
    site = Site(losses=[(), (0,), (0,)], n_retransmissions=2)
    encoder, prototypes = message(), message(kind=MessageKind.PROTOTYPES, modality=None, values=[1.0, 2.0])
    site.send(encoder, encoder, prototypes, message(1, 0))
    size, small = HEADER_BYTES + 32, HEADER_BYTES + 16
    assert site.recorder.traffic.as_dict() == {
        "messages": 4, "bytes": 3 * size + small, "waiting_messages": 0, "lost_messages": 1,
        "dropped_messages": 0, "partial_messages": 1,
        "late_messages": 0, "lost_packets": 2, "retransmissions": 6,
        "dropped_by_faults": 0, "corrupted_messages": 0, "overtaken_messages": 0,
        "by_kind": {
            "encoder": {"messages": 3, "bytes": 3 * size, "lost_messages": 0},
            "projection": {"messages": 0, "bytes": 0, "lost_messages": 0},
            "prototypes": {"messages": 1, "bytes": small, "lost_messages": 1},
            "reprojection": {"messages": 0, "bytes": 0, "lost_messages": 0},
        },
    }  # fmt: skip
    assert site.recorder.bytes_sent == {0: 2 * size + small, 1: size}


def test_a_link_that_decides_later_is_asked_once_and_heard_when_it_knows() -> None:
    site = Site(delay_s=3.0, decides_after_s=2.0)
    site.network.send([message(0, 1)])
    traffic = site.recorder.traffic
    assert (traffic.messages, traffic.waiting_messages) == (1, 1)
    site.env.run(until=2.5)
    assert (traffic.messages, traffic.waiting_messages, site.arrived) == (1, 0, [])
    site.env.run()
    assert [at_s for at_s, _, _ in site.arrived] == [3.0]


class Keeping(DirectTransport):
    """Packs a message as the number under which it keeps it."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def packed(self, in_flight: Any) -> tuple[bytes, bytes]:
        self._kept.append(in_flight)
        return bytes([len(self._kept) - 1]), b""

    def unpacked(self, header: bytes, payload: bytes) -> Any:
        return self._kept[header[0]]


def test_messages_after_a_restore_get_numbers_that_none_of_those_that_wait_has() -> None:
    transport = Keeping()
    before, after = (Site(transport, decides_after_s=2.0) for _ in range(2))
    for _ in range(2):
        before.network.send([message(0, 1)])
    assert list(after.network.restore(SavedState(before.network.state()))) == [0, 1]
    after.network.send([message(0, 1)])
    offers = SavedState(after.network.state()).part("offers").listed()
    assert [offer.part("number").count() for offer in offers] == [0, 1, 2]


def test_encoders_are_offered_as_second_class_and_all_else_as_first() -> None:
    site = Site()
    site.send(message(), message(kind=MessageKind.PROJECTION, modality=None))
    assert site.links[0, 1].priorities == [1, 0]


def test_a_refused_message_is_lost_and_counted_as_dropped() -> None:
    site = Site(losses=[(*PAYLOAD_PACKETS, HEADER_PACKET)], dropped=True)
    site.send(message())
    assert site.arrived == []
    traffic = site.recorder.traffic
    assert (traffic.messages, traffic.lost_messages, traffic.dropped_messages) == (1, 1, 1)


class Switch:
    """Nodes 0 to 2 in a triangle with lossy links over a transport, and all that a run leaves of their messages."""

    def __init__(self, wire_transport: Transport, queue: str, faults: FaultPlan = NO_FAULTS) -> None:
        env, self.recorder = EmulatorEnvironment(seed=3), quiet_recorder()
        self.env, self.transport, medium = env, wire_transport, ProcessorSharing(env)
        settings = LinkSettings(1e6, 0.001, 0.0, packet_bytes=16, retry_limit=1, retry_interval_s=0.002)
        self.arrived: list[tuple[Any, ...]] = []
        self.links: dict[tuple[int, int], Link] = {}
        for node in range(3):
            sender: Fifo | Port = Fifo(env, 900) if queue == "fifo" else Port(env, medium, has_classes=True)
            for peer in {0, 1, 2} - {node}:
                loss = IidLoss(0.3, env.stream("link", node, peer))
                # Of one node without airtime: its messages arrive together, others meet them in the same instant.
                channel = IdealChannel(16) if node == 2 else PacketChannel(settings, loss)
                self.links[node, peer] = sender.link(channel)
        deliver = {node: self._arrived_at(node) for node in range(3)}
        self.network = Network(env, wire_transport, self.links, deliver, self.recorder, faults)

    def _arrived_at(self, node: int) -> Callable[[Message], None]:
        def take(one: Message) -> None:
            lost = None if one.received is None else one.received.tobytes()
            self.arrived.append((self.env.now, node, one.slot, one.receiver, one.payload.tobytes(), lost))

        return take

    def play(self, phases: Sequence[tuple[float, Sequence[Message]]], *, together: bool) -> tuple[Any, ...]:
        """Messages by the instant at which they are sent: arrivals, trace and counters, and what is left half way."""
        for at_s, messages in phases:
            for batch in [messages] if together else [[one] for one in messages]:
                self.env.call_at(at_s, lambda _, batch=batch: self.network.send(batch))
        self.env.run(until=0.004)
        half_way = self.network.state()
        self.env.run()
        self.transport.close()
        return self.arrived, self.recorder.state(), plain(half_way), plain(self.env.state())


def plain(state: Any) -> str:
    """A state as text, arrays with all their bytes."""
    return json.dumps(state, default=lambda array: array.tolist(), sort_keys=True)


@st.composite
def sendings(draw: st.DrawFn) -> list[tuple[float, list[Message]]]:
    """What three nodes send, each at an instant of its own or of another, some of it broadcasts."""
    made = []
    for sender in draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)):
        peers = sorted({0, 1, 2} - {sender})
        messages = []
        for round_index in range(draw(st.integers(1, 4))):
            values = np.arange(draw(st.integers(1, 20)), dtype=np.float64)
            kind = draw(st.sampled_from([MessageKind.ENCODER, MessageKind.PROJECTION, MessageKind.PROTOTYPES]))
            modality: Modality | None = "rf" if kind is MessageKind.ENCODER else None
            phase = f"phase {len(made)}"
            messages += [Message(kind, sender, peer, round_index, phase, values, modality) for peer in peers]
        made.append((draw(st.sampled_from([0.0, 0.001, 0.003])), draw(st.permutations(messages))))
    return made


OUT = FaultPlan(
    seed=1,
    edges={(0, 1): Timetable([ScheduledOutages([Outage(0.002, 0.0035)])])},
    corruptions=(Corruption(None, 0.3, Timetable([ScheduledOutages([Outage(0.0, math.inf)])]), "corrupted"),),
)
WIRE_TRANSPORTS: dict[str, Callable[[Wire], Transport]] = {"memory": MemoryTransport, "zmq": ZmqTransport}


@pytest.mark.parametrize("faults", [NO_FAULTS, OUT], ids=["sound", "faults"])
@pytest.mark.parametrize("queue", ["fifo", "port"])
@settings(max_examples=25, deadline=None)
@given(phases=sendings())
def test_messages_sent_together_fare_as_one_by_one_over_any_transport(
    queue: str, faults: FaultPlan, phases: list[tuple[float, list[Message]]]
) -> None:
    """Same fates, bytes, instants, order of arrivals, trace, draws, and same messages on air in a checkpoint."""
    alone = Switch(MemoryTransport(Wire(frozenset(MessageKind))), queue, faults).play(phases, together=False)
    for make in WIRE_TRANSPORTS.values():
        switch = Switch(make(Wire(frozenset(MessageKind))), queue, faults)
        assert switch.play(phases, together=True) == alone


class Counting(DirectTransport):
    """Counts how often, and how many messages cross."""

    def __init__(self) -> None:
        self.submitted: list[int] = []
        self.forwarded: list[int] = []

    def submit(self, messages: Sequence[Message]) -> list[Any]:
        self.submitted.append(len(messages))
        return super().submit(messages)

    def forward(self, arrivals: Sequence[Arrival]) -> list[Message]:
        self.forwarded.append(len(arrivals))
        return super().forward(arrivals)


@pytest.mark.parametrize(("ahead", "forwarded"), [(True, [3, 1]), (False, [1, 1, 1, 1])])
def test_messages_cross_together_and_ahead_of_their_arrival_where_they_may(ahead: bool, forwarded: list[int]) -> None:
    transport = Counting()
    transport.forwards_ahead = ahead
    site = Site(transport, delay_s=0.5)
    site.network.send([message(), message(1, 0), message()])
    site.env.run(until=0.25)
    site.send(message(1, 0))  # while two of the three are on air
    assert [(at_s, node) for at_s, node, _ in site.arrived] == [(0.0, 0), (0.25, 0), (0.5, 1), (0.5, 1)]
    assert (transport.submitted, transport.forwarded) == ([3, 1], forwarded)


def test_one_message_to_a_stranger_stops_all_that_are_sent_with_it() -> None:
    site = Site()
    with pytest.raises(TopologyError, match="node 0 sent to 2"):
        site.send(message(), message(0, 2))
    site.env.run()
    assert (site.arrived, site.recorder.traffic.messages) == ([], 0)


def trace_of(*messages: Message, start_s: float = 0.0, **link: Any) -> str:
    site = Site(**link)
    site.env.run(until=site.env.timeout(start_s))
    site.send(*messages)
    return site.recorder.trace_hash


def test_equal_traffic_leaves_equal_traces() -> None:
    assert trace_of(message(), message(1, 0), losses=[(1,)]) == trace_of(message(), message(1, 0), losses=[(1,)])


@pytest.mark.parametrize(
    "other",
    [
        trace_of(),
        trace_of(message(), message()),
        trace_of(message(values=[1.0, 2.0, 3.0, 4.0000000000000009])),
        trace_of(message(round_index=1)),
        trace_of(message(phase="train")),
        trace_of(message(modality="rf")),
        trace_of(message(kind=MessageKind.PROJECTION)),
        trace_of(message(1, 0)),
        trace_of(message(), start_s=0.5),
        trace_of(message(), delay_s=0.5),
        trace_of(message(), losses=[(0,)]),
        trace_of(message(), losses=[(0, 1, 2)]),
        trace_of(message(), n_retransmissions=1),
    ],
)
def test_any_difference_in_content_time_or_fate_leaves_another_trace(other: str) -> None:
    assert other != trace_of(message())


def test_the_order_of_messages_shows_in_the_trace() -> None:
    first, second = message(), replace(message(), modality="rf")
    assert trace_of(first, second) != trace_of(second, first)
