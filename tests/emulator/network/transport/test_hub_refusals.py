"""What hub and worker refuse of well-made messages: replays, damage, floods."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import zmq
from doubles.carried import envelope_of, frames_of, only, passed_on, sent
from doubles.mutated_frames import Mutator, forged
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.network.transport.envelope import MAX_HEAD_BYTES
from sheafedge.emulator.network.transport.errors import TransportError, WireError
from sheafedge.emulator.network.transport.hub import Hub
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import Worker

LOOPBACK_S = 10.0
AT_ONCE_S = 0.05


def wire() -> Wire:
    return Wire(frozenset(MessageKind), max_payload_bytes=1 << 16)


def message(round_index: int = 0, sender: int = 1, n: int = 10) -> Message:
    return Message(MessageKind.ENCODER, sender, 2, round_index, "mix", np.arange(n, dtype=np.float32), "rf")


class Ends:
    """A hub, the worker of node 1 and the worker of node 2, in one process."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.hub = Hub(self.context, "inproc://ends", wire(), frozenset({b"one", b"two"}), AT_ONCE_S)
        self.one, self.two = (
            Worker(self.context, "inproc://ends", wire(), identity, AT_ONCE_S) for identity in (b"one", b"two")
        )

    def close(self) -> None:
        for end in (self.one, self.two, self.hub):
            end.close()
        self.context.term()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def silence(end: Hub | Worker, head: bytes) -> str:
    with pytest.raises(TransportError, match="refused, last: ") as silent:
        end.receive(head, 1)
    return str(silent.value)


def test_the_hub_forwards_no_damage(ends: Ends) -> None:
    head = envelope_of(wire(), message()).head
    ends.one._socket.send_multipart([head, bytes(40)])
    assert "does not match its checksum" in silence(ends.hub, head)


def test_what_is_not_expected_is_refused_whatever_it_is(ends: Ends) -> None:
    for other in (message(4), message(3, n=11)):
        sent(ends.one, other)
    assert only(ends.hub.receive(*sent(ends.one, message(3)))).slot.round_index == 3
    assert ends.hub.n_refused == 2


def test_a_replayed_message_is_refused_at_both_ends(ends: Ends) -> None:
    ends.hub.receive(*sent(ends.two, message(sender=2)))  # from now on the hub knows where the second worker is
    (earlier,) = ends.hub.receive(*sent(ends.one, message()))
    ends.two.receive(*passed_on(ends.hub, wire(), b"two", earlier))
    sent(ends.one, message())
    (later,) = ends.hub.receive(*sent(ends.one, message(1)))
    assert (later.slot.round_index, ends.hub.n_refused) == (1, 1)
    passed_on(ends.hub, wire(), b"two", earlier)
    assert only(ends.two.receive(*passed_on(ends.hub, wire(), b"two", later))).round_index == 1
    assert ends.two.n_refused == 1


def test_messages_of_an_envelope_cannot_be_replayed_dropped_or_put_in_another_order(ends: Ends) -> None:
    """The head is compared as a whole: which messages, in which order, and with which payloads."""
    messages = [message(), message(n=11), message(n=12)]
    right = envelope_of(wire(), *messages)
    for others in ([*messages, messages[0]], messages[:2], messages[::-1], [messages[0], *messages[:2]]):
        ends.one.send(envelope_of(wire(), *others))
    head, *payloads = frames_of(right)
    ends.one._socket.send_multipart([head, payloads[1], payloads[0], payloads[2]])
    ends.one.send(right)
    assert [one.frames.found.n_elements for one in ends.hub.receive(right.head, 3)] == [10, 11, 12]
    assert ends.hub.n_refused == 5


def test_a_million_frames_are_one_refusal(ends: Ends) -> None:
    ends.one._socket.send_multipart([b""] * 100_000)
    assert "2 frames were to come, got 100000" in silence(ends.hub, b"head")


def test_a_head_as_long_as_a_book_is_refused_unread(ends: Ends) -> None:
    ends.one._socket.send_multipart([bytes(MAX_HEAD_BYTES + 1), b""])
    assert "which no head is" in silence(ends.hub, b"head")
    assert len(ends.hub.last_refusal) < 400


def test_whoever_announces_more_than_any_frame_is_hung_up_on() -> None:
    context = zmq.Context()
    hub = Hub(context, "tcp://127.0.0.1:*", wire(), frozenset({b"one"}), LOOPBACK_S)
    end = context.socket(zmq.DEALER)
    end.setsockopt(zmq.IDENTITY, b"one")
    end.setsockopt(zmq.LINGER, 0)
    monitor = end.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    end.connect(hub.address)
    end.send_multipart([b"", bytes(wire().max_frame_bytes + 1)])
    assert monitor.poll(1000 * LOOPBACK_S)
    end.disable_monitor()
    monitor.close()
    end.close()
    hub.close()
    context.term()


def test_ten_thousand_bad_frames_are_messages_or_refusals_and_cost_no_memory() -> None:
    border = Wire(frozenset(MessageKind), max_payload_bytes=1 << 16)
    frames = [border.encode(message(k)) for k in range(5)]
    mutator = Mutator([(one.header, bytes(one.payload)) for one in frames], seed=5)
    n_refused = 0
    tracemalloc.start()
    for _ in range(10_000):
        header, *payloads = mutator.of_the_captured()
        try:
            border.decode(header, payloads[0] if payloads else b"")
        except WireError:
            n_refused += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_refused > 5_000
    assert peak < 1 << 20  # nothing of what was refused is kept


def test_a_forged_header_that_says_the_truth_is_taken() -> None:
    """The negative control: refusals are about what is said, not about who packed it."""
    frames = wire().encode(message())
    assert forged(frames.header) == frames.header
    assert wire().decode(forged(frames.header, round=5), frames.payload).round_index == 5
