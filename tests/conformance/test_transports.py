"""One battery over all transports: the bytes that go in come out, whatever carries them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from doubles.carried import forwarded, submitted
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import InFlight, Message, MessageKind, Transport
from sheafedge.emulator.network.transport.errors import TransportError, WireError
from sheafedge.emulator.network.transport.wire import Wire, message_bytes
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport

NOTHING = np.zeros(0, dtype=np.int64)
PACKET_BYTES = 1200
TIMEOUT_S = 10.0  # far more than a loopback needs; only a hang meets it
ALL_KINDS = frozenset(MessageKind)

TRANSPORTS: dict[str, Callable[[Wire, Path], Transport]] = {
    "memory": lambda wire, _: MemoryTransport(wire),
    "inproc": lambda wire, _: ZmqTransport(wire, timeout_s=TIMEOUT_S),
    "ipc": lambda wire, folder: ZmqTransport(wire, f"ipc://{folder / 'hub'}", timeout_s=TIMEOUT_S),
    "tcp": lambda wire, _: ZmqTransport(wire, "tcp://127.0.0.1:*", timeout_s=TIMEOUT_S),
}


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="se-") as folder:  # pytest's own paths can be too long for a socket
        yield Path(folder)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest, socket_folder: Path) -> Iterator[Transport]:
    built = TRANSPORTS[request.param](Wire(ALL_KINDS), socket_folder)
    yield built
    built.close()


def encoder_message(n: int = 1000, dtype: str = "<f4", **changes: object) -> Message:
    values = np.random.default_rng(n).normal(size=n)
    values = values.view(dtype) if dtype == "<u8" else values.astype(dtype)  # words hold anything
    return replace(Message(MessageKind.ENCODER, 3, 8, 12, "mix", values, "rf"), **changes)  # type: ignore[arg-type]


def assert_same(one: Message, other: Message) -> None:
    assert (one.slot, one.receiver) == (other.slot, other.receiver)
    assert one.payload.dtype == other.payload.dtype
    assert one.payload.tobytes() == other.payload.tobytes()
    assert (one.received is None) == (other.received is None)
    if one.received is not None and other.received is not None:
        assert_array_equal(one.received, other.received)


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 41_250, 300_000])
def test_the_message_that_goes_in_comes_out(transport: Transport, n: int) -> None:
    for kind, dtype in product(MessageKind, ["<f2", "<f4", "<f8", "<u8"]):
        modality = "rf" if kind is MessageKind.ENCODER else None
        message = encoder_message(n, dtype, kind=kind, modality=modality)
        in_flight = submitted(transport, message)
        assert (in_flight.slot, in_flight.receiver) == (message.slot, message.receiver)
        assert in_flight.size_bytes == message_bytes(kind, "mix", modality, n, dtype)
        out = forwarded(transport, in_flight, NOTHING, PACKET_BYTES)
        assert_same(out, message)
        assert not out.payload.flags.writeable
        assert out.payload.flags.aligned


@pytest.mark.parametrize("lost", [[0], [3], [0, 1, 3], [0, 1, 2, 3]])
def test_lost_packets_leave_gaps(transport: Transport, lost: list[int]) -> None:
    message = encoder_message(1000)  # 4000 bytes: packets 0 to 2 of 300 numbers, packet 3 of 100 and the header
    out = forwarded(transport, submitted(transport, message), np.array(lost), PACKET_BYTES)
    received = ~np.isin(np.arange(1000) // 300, lost)
    assert_array_equal(out.received, received)
    assert_array_equal(out.payload, np.where(received, message.payload, 0))


def test_a_lost_packet_that_held_only_the_header_takes_nothing_away(transport: Transport) -> None:
    message = encoder_message(300)
    assert_same(forwarded(transport, submitted(transport, message), np.array([1]), PACKET_BYTES), message)


def test_messages_in_flight_may_arrive_in_any_order(transport: Transport) -> None:
    """The link decides who is first: ten are under way before the last of them is forwarded first."""
    messages = [encoder_message(50 + 5000 * (k % 3), receiver=k) for k in range(10)]
    flights = [submitted(transport, message) for message in messages]
    assert [flight.receiver for flight in flights] == list(range(10))
    for message, flight in reversed(list(zip(messages, flights, strict=True))):
        assert_same(forwarded(transport, flight, NOTHING, PACKET_BYTES), message)


def test_one_array_sent_to_many_neighbors_arrives_everywhere(transport: Transport) -> None:
    message = encoder_message(5000)
    outs = [
        forwarded(transport, submitted(transport, replace(message, receiver=k)), NOTHING, PACKET_BYTES)
        for k in range(5)
    ]
    assert [out.receiver for out in outs] == list(range(5))
    assert all(out.payload.tobytes() == message.payload.tobytes() for out in outs)


def test_payloads_outlive_the_transport(transport: Transport) -> None:
    message = encoder_message(41_250)
    out = forwarded(transport, submitted(transport, message), NOTHING, PACKET_BYTES)
    transport.close()
    assert_same(out, message)


def test_losing_a_packet_of_class_means_is_refused(transport: Transport) -> None:
    in_flight = submitted(transport, encoder_message(kind=MessageKind.PROTOTYPES, modality=None))
    with pytest.raises(WireError, match="cannot lose packets"):
        forwarded(transport, in_flight, np.array([0]), PACKET_BYTES)
    message = encoder_message()
    assert_same(forwarded(transport, submitted(transport, message), NOTHING, PACKET_BYTES), message)  # and life goes on


@pytest.mark.parametrize("name", TRANSPORTS)
def test_undeclared_kinds_are_refused_and_the_next_message_passes(name: str, socket_folder: Path) -> None:
    transport = TRANSPORTS[name](Wire(frozenset({MessageKind.ENCODER})), socket_folder)
    try:
        with pytest.raises(WireError, match="did not declare"):
            submitted(transport, encoder_message(kind=MessageKind.PROJECTION))
        message = encoder_message()
        assert_same(forwarded(transport, submitted(transport, message), NOTHING, PACKET_BYTES), message)
    finally:
        transport.close()


def test_closing_twice_is_safe_and_a_closed_transport_carries_nothing(transport: Transport) -> None:
    in_flight = submitted(transport, encoder_message())
    transport.close()
    transport.close()
    with pytest.raises(TransportError, match="transport is closed"):
        submitted(transport, encoder_message())
    with pytest.raises(TransportError, match="transport is closed"):
        forwarded(transport, in_flight, NOTHING, PACKET_BYTES)


def test_all_transports_agree_bit_for_bit(socket_folder: Path) -> None:
    """What a run's trace is made of: slots, sizes, checksums and payloads, over a mix of whole and lossy messages."""
    draws = np.random.default_rng(9)
    messages = [
        encoder_message(int(n), dtype, round_index=k)
        for k, (n, dtype) in enumerate(
            zip(draws.integers(1, 20_000, 28), ["<f2", "<f4", "<f8", "<u8"] * 7, strict=True)
        )
    ]
    losses = [
        np.flatnonzero(draws.random(-(-message.payload.nbytes // PACKET_BYTES)) < share)
        for message, share in zip(messages, [0.0, 0.1, 0.9] * 9 + [0.0], strict=True)
    ]
    records = {}
    for name, build in TRANSPORTS.items():
        transport = build(Wire(ALL_KINDS), socket_folder)
        flights = [submitted(transport, message) for message in messages]
        outs = [forwarded(transport, f, lost, PACKET_BYTES) for f, lost in zip(flights, losses, strict=True)]
        transport.close()
        records[name] = [trace(flight, out) for flight, out in zip(flights, outs, strict=True)]
    assert any(received is not None for *_, received in records["memory"])  # the losses were not all empty
    for name, record in records.items():
        assert record == records["memory"], name


def trace(flight: InFlight, out: Message) -> tuple[object, ...]:
    received = None if out.received is None else out.received.tobytes()
    return flight.slot, flight.receiver, flight.size_bytes, flight.checksum, out.payload.tobytes(), received
