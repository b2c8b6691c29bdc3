"""How many messages a second the hub takes, checks and forwards: prints JSON.

    python benchmarks/hub.py [--peers 100] [--kilobytes 8] [--messages 1000] [--repeats 15] [--addresses inproc ipc tcp]

Workers send envelopes one after another, each with the messages of a broadcast to some nodes of the next worker; the
hub receives every envelope, whose head it expects as the ZeroMQ transport does, and forwards it to that worker. Only
the hub's part is timed. It has a `Wire` of its own, as it would in a process of its own: it has seen none of the heads
before. The arm *relay* is a bare ROUTER that receives three frames, sends three and reads none of them: the limit of
Python and ZeroMQ here. The arms take turns. Seconds are those that the hub's thread was busy, so that other work on the
machine does not count; wall time is printed beside them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import zmq
from sheafedge.benchmarks._repeats import spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.network.transport.errors import TransportError
from sheafedge.emulator.network.transport.hub import Hub
from sheafedge.emulator.network.transport.sockets import allow_connections
from sheafedge.emulator.network.transport.wire import Wire

TIMEOUT_S = 30.0
KINDS = frozenset({MessageKind.PROJECTION})
#: Sockets of a process that are not workers.
SPARE_SOCKETS = 64


class Relay(Protocol):
    """What is timed."""

    address: str

    def receive(self, head: bytes) -> None:
        """Receive the envelope with this head; its worker is connected then."""
        ...

    def relay(self, head: bytes) -> None:
        """Receive the envelope with this head, and send it on."""
        ...

    def close(self) -> None:
        """Free the socket."""
        ...


class HubRelay:
    """The hub of the emulator, over links that let everything by."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, n_peers: int) -> None:
        self._names = [_name(peer) for peer in range(n_peers)]
        self._wire = Wire(KINDS)
        self._hub = Hub(context, address, self._wire, frozenset(self._names), TIMEOUT_S)
        self.address = self._hub.address

    def receive(self, head: bytes) -> None:
        self._hub.receive(head, 1)

    def relay(self, head: bytes) -> None:
        in_flights = self._hub.receive(head, 1)
        (envelope,) = self._wire.envelopes([in_flight.frames for in_flight in in_flights])
        self._hub.forward(self._names[in_flights[0].receiver % len(self._names)], envelope)

    def close(self) -> None:
        self._hub.close()


class BareRelay:
    """A ROUTER that reads nothing: frames of a worker go to the next one."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, n_peers: int) -> None:
        self._next = {_name(peer): _name((peer + 1) % n_peers) for peer in range(n_peers)}
        self._socket = context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.RCVTIMEO, int(1000 * TIMEOUT_S))
        self._socket.bind(address)
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def receive(self, head: bytes) -> None:
        self._socket.recv_multipart()

    def relay(self, head: bytes) -> None:
        worker, found, payload = self._socket.recv_multipart(copy=False)
        self._socket.send_multipart([self._next[worker.bytes], found, payload], copy=False)

    def close(self) -> None:
        self._socket.close(linger=0)


RELAYS: dict[str, Callable[[zmq.Context[zmq.Socket[bytes]], str, int], Relay]] = {"hub": HubRelay, "relay": BareRelay}


class Peers:
    """Workers that send to the one after them; what they send was encoded before."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, n_peers: int) -> None:
        self._sockets = []
        for peer in range(n_peers):
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.IDENTITY, _name(peer))
            socket.setsockopt(zmq.RCVTIMEO, int(1000 * TIMEOUT_S))
            socket.connect(address)
            self._sockets.append(socket)

    def send(self, index: int, frames: tuple[bytes, bytes]) -> None:
        """Send envelope number `index` of a burst: envelope i comes from worker i modulo their number."""
        self._sockets[index % len(self._sockets)].send_multipart(frames)

    def take(self, n_envelopes: int) -> None:
        """What came, which must be so much."""
        for index in range(n_envelopes):
            self._sockets[(index + 1) % len(self._sockets)].recv_multipart(copy=False)

    def close(self) -> None:
        """Free the sockets."""
        for socket in self._sockets:
            socket.close(linger=0)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    addresses = {address: _measured(address, options) for address in options.addresses}
    print_report("hub", machine, {"options": vars(options), "addresses": addresses})


def _measured(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Both relays behind an address of this kind, in turns, after one burst that is thrown away."""
    busy_s: dict[str, list[float]] = {name: [] for name in RELAYS}
    wall_s: dict[str, list[float]] = {name: [] for name in RELAYS}
    with _context(options.peers) as context, tempfile.TemporaryDirectory() as folder:
        places = {
            name: {"inproc": f"inproc://{name}", "ipc": f"ipc://{Path(folder) / name}", "tcp": "tcp://127.0.0.1:*"}[
                kind
            ]
            for name in RELAYS
        }
        arms = {name: RELAYS[name](context, place, options.peers) for name, place in places.items()}
        peers = {name: Peers(context, relay.address, options.peers) for name, relay in arms.items()}
        try:
            for name, relay in arms.items():
                for index, frames in enumerate(_burst(options, options.peers, 0)):
                    peers[name].send(index, frames)
                    relay.receive(frames[0])
            for repeat in range(options.repeats + 1):
                burst = _burst(options, options.messages // options.together, 1 + repeat)
                for name, relay in arms.items():
                    busy, wall = _timed(relay, peers[name], burst)
                    peers[name].take(len(burst))
                    if repeat:
                        busy_s[name].append(busy)
                        wall_s[name].append(wall)
        finally:
            for end in (*peers.values(), *arms.values()):
                end.close()
    n_messages = len(burst) * options.together
    say(f"{kind}: {n_messages / min(busy_s['hub']):.0f} messages per busy second")
    return {name: _figures(busy_s[name], wall_s[name], n_messages) for name in RELAYS}


def _timed(relay: Relay, peers: Peers, burst: Sequence[tuple[bytes, bytes]]) -> tuple[float, float]:
    """Busy and wall time of the relay over a burst, without the workers' part."""
    busy_s = wall_s = 0.0
    for index, frames in enumerate(burst):
        peers.send(index, frames)
        busy_s, wall_s = busy_s - time.thread_time(), wall_s - time.perf_counter()
        relay.relay(frames[0])
        busy_s, wall_s = busy_s + time.thread_time(), wall_s + time.perf_counter()
    return busy_s, wall_s


def _figures(busy_s: Sequence[float], wall_s: Sequence[float], n_messages: int) -> dict[str, Any]:
    return {
        "messages_per_busy_s": spread([n_messages / s for s in busy_s]),
        "messages_per_wall_s": spread([n_messages / s for s in wall_s]),
        "microseconds_per_message": spread([1e6 * s / n_messages for s in busy_s]),
    }


def _burst(options: argparse.Namespace, n_envelopes: int, round_index: int) -> list[tuple[bytes, bytes]]:
    """Envelope i from worker i to the next, and around; no two are of one phase, so that no two heads are the same."""
    wire = Wire(KINDS)
    payload = np.random.default_rng(0).normal(size=int(1024 * options.kilobytes) // 4).astype(np.float32)
    burst = []
    for index in range(n_envelopes):
        sender, phase = index % options.peers, f"phase {index // options.peers}"
        # Nodes whose number modulo that of the workers is a worker's are there.
        receivers = [(sender + 1) % options.peers + node * options.peers for node in range(options.together)]
        messages = [Message(MessageKind.PROJECTION, sender, one, round_index, phase, payload) for one in receivers]
        (envelope,) = wire.envelopes(wire.encode_all(messages))
        burst.append((envelope.head, bytes(envelope.payloads[0])))
    return burst


@contextmanager
def _context(n_peers: int) -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """A context that may hold all workers of both relays; ZeroMQ's own limit is 1023 sockets."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wanted = len(RELAYS) * n_peers + SPARE_SOCKETS
    if wanted > context.get(zmq.SOCKET_LIMIT):
        raise TransportError(f"ZeroMQ here holds {context.get(zmq.SOCKET_LIMIT)} sockets at most; lower --peers")
    allow_connections(3 * wanted)  # both ends of a connection are here, and a socket has a file of its own
    context.set(zmq.MAX_SOCKETS, max(wanted, context.get(zmq.MAX_SOCKETS)))
    try:
        yield context
    finally:
        context.term()


def _name(peer: int) -> bytes:
    return f"worker-{peer}".encode()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=int, default=100, help="workers, at least 2")
    parser.add_argument("--kilobytes", type=float, default=8.0, help="payload of a message")
    parser.add_argument("--messages", type=int, default=1000, help="of a burst, spread over the workers")
    parser.add_argument("--together", type=int, default=8, help="messages of an envelope")
    parser.add_argument("--repeats", type=int, default=15, help="bursts")
    parser.add_argument("--addresses", nargs="+", choices=("inproc", "ipc", "tcp"), default=["inproc", "ipc", "tcp"])
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
