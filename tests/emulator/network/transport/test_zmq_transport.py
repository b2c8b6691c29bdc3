"""ZeroMQ: wrong addresses, silence, malformed frames, and what is left behind after closing."""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zmq
from doubles.carried import envelope_of, forwarded, frames_of, passed_on, sent, submitted
from sheafedge.emulator.contracts import ConfigError, Message, MessageKind
from sheafedge.emulator.network.transport import sockets
from sheafedge.emulator.network.transport.errors import TransportError
from sheafedge.emulator.network.transport.hub import Hub
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import Worker, ZmqTransport

AT_ONCE_S = 0.001  # limit on waits that are meant to end in silence
LOOPBACK_S = 10.0  # limit on waits that are not
NAMES = frozenset({b"known", b"worker-0"})
OPEN_FILES = Path("/proc/self/fd")
HEAD = b"of an envelope that never comes"


def wire() -> Wire:
    return Wire(frozenset(MessageKind))


def message(n: int = 10) -> Message:
    return Message(MessageKind.ENCODER, 1, 2, 0, "mix", np.arange(n, dtype=np.float32), "rf")


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    shared = zmq.Context()
    yield shared
    shared.term()  # hangs, and so meets the test's time limit, where a socket was leaked


def stranger(context: zmq.Context[zmq.Socket[bytes]], address: str, identity: bytes) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, identity)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(address)
    return socket


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"hello"], "2 frames were to come, got 1"),
        ([b"a", b"b", b"c"], "2 frames were to come, got 3"),
        ([b"", b""], "something else than the messages that were to come"),
        ([b"\xc1" * 50, b"payload"], "something else than the messages that were to come"),
    ],
)
def test_the_hub_refuses_malformed_frames_and_takes_the_next_message(
    context: zmq.Context[zmq.Socket[bytes]], frames: list[bytes], reason: str
) -> None:
    hub = Hub(context, "inproc://hub", wire(), NAMES, LOOPBACK_S)
    worker = Worker(context, hub.address, wire(), b"worker-0", LOOPBACK_S)
    rude = stranger(context, hub.address, b"known")
    for _ in range(3):
        rude.send_multipart(frames)
    # inproc hands frames over at once, so the hub finds the rude ones first or between.
    rounds = itertools.count()
    while hub.n_refused < 3:
        good = replace(message(), round_index=next(rounds))
        assert [one.slot for one in hub.receive(*sent(worker, good))] == [good.slot]
    assert reason in hub.last_refusal
    for end in (hub, worker, rude):
        end.close()


def test_the_hub_does_not_listen_to_strangers(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    hub = Hub(context, "inproc://hub", wire(), NAMES, AT_ONCE_S)
    unknown = stranger(context, hub.address, b"unknown")
    frames = frames_of(envelope_of(wire(), message()))
    unknown.send_multipart(frames)
    with pytest.raises(TransportError, match=r"got no message within 0.001 s; 1 refused, last: unknown worker"):
        hub.receive(frames[0], 1)
    hub.close()
    unknown.close()


def test_a_silent_worker_is_an_error_and_not_a_hang(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    hub = Hub(context, "inproc://hub", wire(), NAMES, AT_ONCE_S)
    with pytest.raises(TransportError, match=r"hub at inproc://hub got no message within 0.001 s$"):
        hub.receive(HEAD, 1)
    hub.close()


def test_a_silent_hub_is_an_error_and_not_a_hang(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    hub = Hub(context, "inproc://hub", wire(), NAMES, AT_ONCE_S)
    worker = Worker(context, hub.address, wire(), b"worker-0", AT_ONCE_S)
    with pytest.raises(TransportError, match=r"worker got nothing from the hub within 0.001 s"):
        worker.receive(HEAD, 1)
    worker.close()
    hub.close()


def test_forwarding_to_a_worker_that_is_gone_is_an_error(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    hub = Hub(context, "inproc://hub", wire(), NAMES, LOOPBACK_S)
    worker = Worker(context, hub.address, wire(), b"worker-0", LOOPBACK_S)
    (in_flight,) = hub.receive(*sent(worker, message()))
    with pytest.raises(TransportError, match=r"hub cannot reach worker b'known' .* is it still running"):
        passed_on(hub, wire(), b"known", in_flight)
    worker.close()
    hub.close()


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "carrier-pigeon://x",
        "tcp://127.0.0.1:99999",
        "tcp://no.such.host.invalid:0",
        "ipc:///no/such/folder/hub",
    ],
)
def test_addresses_that_cannot_be_used_are_named(address: str) -> None:
    with pytest.raises(
        TransportError, match=r"hub cannot listen at .*use inproc://NAME, ipc://FILE or tcp://HOST:PORT"
    ):
        ZmqTransport(wire(), address)


def test_an_address_in_use_is_named() -> None:
    first = ZmqTransport(wire(), "tcp://127.0.0.1:*")
    with pytest.raises(TransportError, match=r"hub cannot listen at 'tcp://127.0.0.1:\d+' \(Address already in use"):
        ZmqTransport(wire(), first.address)
    first.close()


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, math.nan, math.inf])
def test_waits_without_a_limit_are_refused(timeout_s: float) -> None:
    with pytest.raises(ConfigError, match=r"timeout_s must be a positive number of seconds, got"):
        ZmqTransport(wire(), timeout_s=timeout_s)


def test_two_transports_live_side_by_side_in_one_context(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    one, other = ZmqTransport(wire(), context=context), ZmqTransport(wire(), context=context)
    assert one.address != other.address
    for transport in (one, other):
        assert forwarded(transport, submitted(transport, message())).receiver == 2
    one.close()
    assert not context.closed  # a shared context belongs to others
    assert forwarded(other, submitted(other, message())).receiver == 2
    other.close()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files where the system lists them")
@pytest.mark.parametrize("kind", ["inproc", "ipc", "tcp"])
def test_closing_leaves_no_socket_no_context_and_no_file(kind: str) -> None:
    with tempfile.TemporaryDirectory(prefix="se-") as folder:
        address = {"inproc": None, "ipc": f"ipc://{folder}/hub", "tcp": "tcp://127.0.0.1:*"}[kind]

        def run_once() -> None:
            transport = ZmqTransport(wire(), address, timeout_s=LOOPBACK_S)
            forwarded(transport, submitted(transport, message(400_000)))  # large enough to cross uncopied
            transport.close()

        run_once()  # pyzmq keeps one bookkeeping thread for good
        before = len(list(OPEN_FILES.iterdir()))
        for _ in range(5):
            run_once()
        assert len(list(OPEN_FILES.iterdir())) == before
        assert not list(Path(folder).iterdir())


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files where the system lists them")
def test_a_transport_that_could_not_be_built_leaves_nothing_either() -> None:
    before = len(list(OPEN_FILES.iterdir()))
    for _ in range(5):
        with pytest.raises(TransportError):
            ZmqTransport(wire(), "nonsense")
    assert len(list(OPEN_FILES.iterdir())) == before


def test_memory_is_not_copied_on_its_way_through_the_hub() -> None:
    """The frame that the hub received is the one that the receiver reads."""
    transport = ZmqTransport(wire())
    in_flight = submitted(transport, message(40_000))
    out = forwarded(transport, in_flight)
    assert np.shares_memory(out.payload, np.frombuffer(in_flight.frames.carrier.buffer, dtype=np.uint8))
    transport.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to raise")
def test_a_hub_raises_its_own_limit_of_open_files_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": 300, "most": 1000}
    monkeypatch.setattr(sockets.resource, "getrlimit", lambda _: (limits["now"], limits["most"]))
    monkeypatch.setattr(sockets.resource, "setrlimit", lambda _, to: limits.update(now=to[0], most=to[1]))
    sockets.allow_connections(40)
    assert limits == {"now": 300, "most": 1000}, "enough is left alone"
    sockets.allow_connections(500)
    assert limits["most"] == 1000
    assert 500 < limits["now"] < 1000
    with pytest.raises(TransportError, match=r"2000 connections need \d+ open files, .* this process 1000"):
        sockets.allow_connections(2000)


def test_a_hub_asks_for_files_only_where_workers_are_in_other_processes(
    context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("sheafedge.emulator.network.transport.hub.allow_connections", asked.append)
    for address in ("inproc://hub", "tcp://127.0.0.1:*"):
        Hub(context, address, wire(), NAMES, LOOPBACK_S).close()
    assert asked == [len(NAMES)]
