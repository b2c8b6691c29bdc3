"""What hub and worker refuse of well-made messages: replays, damage, floods."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import zmq
from doubles.mutated_frames import Mutator, forged
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.network.transport.errors import TransportError, WireError
from sheafedge.emulator.network.transport.hub import Hub
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_header import MAX_HEADER_BYTES
from sheafedge.emulator.network.transport.zmq_transport import Worker

NOTHING = np.zeros(0, dtype=np.int64)
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


def silence(end: Hub | Worker, expected: bytes) -> str:
    with pytest.raises(TransportError, match="refused, last: ") as silent:
        end.receive(expected)
    return str(silent.value)


def test_the_hub_forwards_no_damage(ends: Ends) -> None:
    ends.one._socket.send_multipart([wire().encode(message()).header, bytes(40)])
    assert "does not match its checksum" in silence(ends.hub, wire().encode(message()).header)


def test_what_is_not_expected_is_refused_whatever_it_is(ends: Ends) -> None:
    expected = wire().encode(message(3)).header
    for other in (message(4), message(3, n=11)):
        ends.one.send(other)
    ends.one.send(message(3))
    assert ends.hub.receive(expected).slot.round_index == 3
    assert ends.hub.n_refused == 2


def test_a_replayed_message_is_refused_at_both_ends(ends: Ends) -> None:
    ends.hub.receive(ends.two.send(message(sender=2)))  # from now on the hub knows where the second worker is
    earlier = ends.hub.receive(ends.one.send(message()))
    ends.two.receive(ends.hub.forward(b"two", earlier, NOTHING, 1200))
    ends.one.send(message())
    later = ends.hub.receive(ends.one.send(message(1)))
    assert (later.slot.round_index, ends.hub.n_refused) == (1, 1)
    ends.hub.forward(b"two", earlier, NOTHING, 1200)
    assert ends.two.receive(ends.hub.forward(b"two", later, NOTHING, 1200)).round_index == 1
    assert ends.two.n_refused == 1


def test_a_million_frames_are_one_refusal(ends: Ends) -> None:
    ends.one._socket.send_multipart([b""] * 100_000)
    assert "a message has two frames, got 100000" in silence(ends.hub, wire().encode(message()).header)


def test_a_header_as_long_as_a_book_is_refused_unread(ends: Ends) -> None:
    ends.one._socket.send_multipart([bytes(MAX_HEADER_BYTES + 1), b""])
    assert "which no header is" in silence(ends.hub, wire().encode(message()).header)
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
    assert peak < 16 << 20  # headers of 4 KiB, 4096 of them at most, are remembered


def test_a_forged_header_that_says_the_truth_is_taken() -> None:
    """The negative control: refusals are about what is said, not about who packed it."""
    frames = wire().encode(message())
    assert forged(frames.header) == frames.header
    assert wire().decode(forged(frames.header, round=5), frames.payload).round_index == 5
