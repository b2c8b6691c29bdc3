"""Where messages meet links: who may send to whom, what is lost, what arrives in part, and what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from doubles.emulation import HEADER_BYTES, DirectTransport, ScriptedLink, message, quiet_recorder
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import Message, MessageKind, TopologyError
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.network.network import Network
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
        for each in messages:
            self.network.send(each)
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
    site.network.send(message(0, 1))
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
        before.network.send(message(0, 1))
    assert list(after.network.restore(SavedState(before.network.state()))) == [0, 1]
    after.network.send(message(0, 1))
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
