"""What a message costs from its sender to the inbox of its receiver: prints JSON.

    python benchmarks/messages.py [--nodes 100] [--degree 8] [--rounds 20] [--floats 64 10000] [--repeats 3]

In every round each node of a random regular graph sends one vector to all of its neighbors, waits until theirs have
come or a deadline has passed, and meets the others at the barrier, as base stations do; nothing is computed, and the
messages are made beforehand. *network* leaves nodes and inboxes out: what arrives is put on a list. *transport* only
carries the messages to the hub and back, and *links* only asks the links; what is left of the whole is trace, counters,
clock and inboxes. Links lose packets and repeat them once (*lossy*), or lose none (*clean*). Microseconds are those
that the thread was busy, per message, so that other work on the machine does not count; the arms take turns, and the
fastest of the repeats counts.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import simpy
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.contracts import Arrival, Delivery, Link, Message, MessageKind, NodeId, Transport
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import Fifo
from sheafedge.emulator.network.loss import IidLoss
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.missing import Skip
from sheafedge.emulator.recorder import Recorder

KINDS = frozenset({MessageKind.ENCODER})
PHASE = "mix"
DEADLINE_S = 1.0
RATE_BPS = 1e9
PACKET_LOSS = {"lossy": 0.05, "clean": 0.0}
TRANSPORTS: Mapping[str, Callable[[], Transport]] = {
    "memory": lambda: MemoryTransport(Wire(KINDS)),
    "zmq": lambda: ZmqTransport(Wire(KINDS)),
}
NOTHING_LOST = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Load:
    """Messages of a whole run.

    Attributes:
        neighbors: node -> its neighbors, in order.
        rounds: [n_rounds] node -> its messages of that round.
        loss: share of packets that links lose.
    """

    neighbors: Mapping[NodeId, Sequence[NodeId]]
    rounds: Sequence[Mapping[NodeId, Sequence[Message]]]
    loss: float

    @property
    def n_messages(self) -> int:
        """Number of messages."""
        return sum(len(messages) for of_round in self.rounds for messages in of_round.values())


def load_of(options: argparse.Namespace, n_floats: int, loss: float) -> Load:
    """Broadcasts of fresh vectors over a random regular graph."""
    graph = nx.random_regular_graph(options.degree, options.nodes, seed=0)
    neighbors = {node: sorted(graph[node]) for node in sorted(graph)}
    draws = np.random.default_rng(0)

    def broadcast(node: NodeId, round_index: int) -> list[Message]:
        payload = draws.random(n_floats, dtype=np.float32)
        return [Message(MessageKind.ENCODER, node, peer, round_index, PHASE, payload, "rf") for peer in neighbors[node]]

    rounds = [{node: broadcast(node, index) for node in neighbors} for index in range(options.rounds)]
    return Load(neighbors, rounds, loss)


def links_of(env: EmulatorEnvironment, load: Load) -> dict[tuple[NodeId, NodeId], Link]:
    """One queue per node, and a channel per direction."""
    settings = LinkSettings(RATE_BPS, 0.001, 0.001, retry_limit=1, retry_interval_s=0.008)
    links: dict[tuple[NodeId, NodeId], Link] = {}
    for node, peers in load.neighbors.items():
        queue = Fifo(env)
        for peer in peers:
            loss = IidLoss(load.loss, env.stream("link", node, peer))
            links[node, peer] = queue.link(PacketChannel(settings, loss))
    return links


def whole(load: Load, transport: Transport) -> Callable[[], None]:
    """Nodes that send, gather and wait for each other."""
    env = EmulatorEnvironment(0)
    recorder = Recorder(KINDS, lambda *_: None)
    inboxes = {node: Inbox(env, Skip(), recorder) for node in load.neighbors}
    deliver = {node: inbox.put for node, inbox in inboxes.items()}
    network = Network(env, transport, links_of(env, load), deliver, recorder)
    barrier = Barrier(env, len(inboxes))
    expected = {
        node: [
            frozenset(of_round[peer][0].slot for peer in load.neighbors[node]) for of_round in load.rounds
        ]
        for node in inboxes
    }  # fmt: skip

    def live(node: NodeId) -> Generator[simpy.Event, object, None]:
        for index, of_round in enumerate(load.rounds):
            network.send(of_round[node])
            yield from inboxes[node].gather(index, PHASE, expected[node][index], env.now + DEADLINE_S)
            yield barrier.wait()

    for node in inboxes:
        env.process(live(node))

    def run() -> None:
        env.run()
        assert recorder.traffic.messages == load.n_messages

    return run


def network_alone(load: Load, transport: Transport) -> Callable[[], None]:
    """No nodes: rounds follow each other on the clock."""
    env = EmulatorEnvironment(0)
    arrived: list[Message] = []
    deliver = dict.fromkeys(load.neighbors, arrived.append)
    network = Network(env, transport, links_of(env, load), deliver, Recorder(KINDS, lambda *_: None))

    def run() -> None:
        for of_round in load.rounds:
            for messages in of_round.values():
                network.send(messages)
            env.run()
            arrived.clear()

    return run


def transport_alone(load: Load, transport: Transport) -> Callable[[], None]:
    """To the hub and back; the messages of all nodes arrive together."""

    def run() -> None:
        for of_round in load.rounds:
            flights = [flight for messages in of_round.values() for flight in transport.submit(messages)]
            transport.forward([Arrival(flight, NOTHING_LOST, 1200) for flight in flights])

    return run


def links_alone(load: Load, _: Transport) -> Callable[[], None]:
    """Decisions without bytes."""
    env = EmulatorEnvironment(0)
    links, fates = links_of(env, load), list[Delivery]()
    sizes = [(links[one.sender, one.receiver], one.payload.nbytes + 250) for one in _all_messages(load)]

    def run() -> None:
        for link, size_bytes in sizes:
            link.offer(size_bytes, 0, fates.append)

    return run


PARTS: Mapping[str, Callable[[Load, Transport], Callable[[], None]]] = {
    "all_in": whole,
    "network": network_alone,
    "transport": transport_alone,
    "links": links_alone,
}


def _all_messages(load: Load) -> list[Message]:
    return [message for of_round in load.rounds for messages in of_round.values() for message in messages]


def busy_us(part: str, transport: str, load: Load) -> float:
    """Microseconds per message of one repeat."""
    with closing(TRANSPORTS[transport]()) as carrier:
        run = PARTS[part](load, carrier)
        gc.collect()
        gc.freeze()  # as in a run, see `emulate`
        begin_s = time.thread_time()
        run()
        busy_s = time.thread_time() - begin_s
        gc.unfreeze()
    return 1e6 * busy_s / load.n_messages


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    loads = {
        f"{n_floats} floats, {links}": load_of(options, n_floats, PACKET_LOSS[links])
        for n_floats, links in product(options.floats, options.links)
    }
    found: dict[tuple[str, str, str], list[float]] = {}
    for repeat in range(options.repeats):
        for arm in product(loads, TRANSPORTS, options.parts):
            name, transport, part = arm
            found.setdefault(arm, []).append(busy_us(part, transport, loads[name]))
        say(f"repeat {repeat + 1}/{options.repeats}")
    print_report("messages", machine, {"options": vars(options), "microseconds_per_message": _figures(found)})


def _figures(found: Mapping[tuple[str, str, str], Sequence[float]]) -> dict[str, Any]:
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for (name, transport, part), values in found.items():
        figures.setdefault(name, {}).setdefault(transport, {})[part] = min(values)
    for of_load in figures.values():
        for of_transport in of_load.values():
            of_transport.update(_rest(of_transport))
    return figures


def _rest(parts: Mapping[str, float]) -> dict[str, float]:
    """What the parts say about what was not measured alone."""
    if set(parts) != set(PARTS):
        return {}
    return {
        "trace_counters_and_clock": parts["network"] - parts["transport"] - parts["links"],
        "nodes_and_inboxes": parts["all_in"] - parts["network"],
        "network_messages_per_s": 1e6 / parts["network"],
    }


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--degree", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--floats", type=int, nargs="+", default=[64, 10_000], help="of a vector")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--links", nargs="+", default=list(PACKET_LOSS), choices=list(PACKET_LOSS))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
