"""Workers on threads of this process, with scripted learners: what crosses is what crosses between processes."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq
from doubles.emulation import DirectTransport, ScriptedLearner, ScriptedLink
from sheafedge.emulator.contracts import Learner, Message, MessageKind, NodeId, Phase
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.network.transport.curve_keys import CurveKeys
from sheafedge.emulator.network.transport.packets import Packet, pack_packet, unpack_packet
from sheafedge.emulator.nodes.base_station import BaseStation, play_rounds
from sheafedge.emulator.nodes.compute_pool import SerialPool
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.learner_host import LearnerHost, LocalHost
from sheafedge.emulator.nodes.missing import MISSING_POLICIES
from sheafedge.emulator.nodes.remote_host import RemoteHost
from sheafedge.emulator.nodes.station_context import StationContext
from sheafedge.emulator.nodes.worker_calls import LearnerCalls
from sheafedge.emulator.nodes.worker_client import EngineAddress, WorkerClient
from sheafedge.emulator.nodes.worker_seat import WorkerLimits
from sheafedge.emulator.nodes.worker_server import WorkerServer
from sheafedge.emulator.recorder import Recorder

RELEASE = "1.2.3"
KINDS = frozenset({MessageKind.ENCODER})
#: Short enough for tests that wait for them; long enough for a thread on a busy machine to say that it lives.
HASTY = WorkerLimits(join_s=0.5, silence_s=0.5, answer_s=0.5, beat_s=0.05)
PATIENT = WorkerLimits(join_s=60.0, silence_s=60.0, answer_s=60.0, beat_s=0.05)
GIVE_UP_S = 60.0  # only broken code ever waits so long

RING: Mapping[NodeId, Sequence[NodeId]] = {0: [1, 3], 1: [0, 2], 2: [1, 3], 3: [2, 0]}
DEVICE = DeviceProfile("device", flops_per_s=1.0, overhead_s=0.5, power_w=4.0)
PHASES = (Phase("heavy", 2.0), Phase("light", 0.0))
DEADLINE_S = 4.0

Observe = Callable[[Learner, int], Mapping[str, Any]]


def health(learner: Learner, round_index: int) -> Mapping[str, Any]:
    """What is observed unless a test says otherwise: figures of all types that rows have."""
    return {**learner.health(), "round": round_index, "models": {"fused": {"top1": 0.1, "none": float("nan")}}}


def learners_of_ring(phases: Sequence[Phase] = PHASES) -> dict[NodeId, ScriptedLearner]:
    """One per node; nobody asks them what time it is."""
    return {node: ScriptedLearner(node, peers, phases, lambda: 0.0) for node, peers in RING.items()}


class Ring:
    """Four stations in a ring whose links lose packets, and what became of them."""

    def __init__(self, hosts: Sequence[LearnerHost], policy: str = "stale") -> None:
        self.env = EmulatorEnvironment(seed=0)
        self.rows: list[tuple[Any, ...]] = []
        self.recorder = Recorder(KINDS, lambda *told: self.rows.append(told))
        inboxes = {node: Inbox(self.env, MISSING_POLICIES[policy](), self.recorder) for node in RING}
        edges = [(sender, receiver) for sender, peers in RING.items() for receiver in peers]
        # the first arrives whole, the second without its first half, the third not at all, and so on
        losses = [[], [0], [0, 1, 2], [1], [], [0]] * 3
        links = {edge: ScriptedLink(self.env, 0.25, losses[sum(edge) :]) for edge in edges}
        deliver: dict[NodeId, Callable[[Message], None]] = {node: inbox.put for node, inbox in inboxes.items()}
        network = Network(self.env, DirectTransport(), links, deliver, self.recorder)
        context = StationContext(self.env, network, Barrier(self.env, len(RING)), self.recorder, DEADLINE_S)
        self.stations = [BaseStation(host, DEVICE, inboxes[host.client_id], context) for host in hosts]

    def play(self, rounds: int = 5) -> Ring:
        play_rounds(self.env, self.stations, range(rounds))
        return self


def played_here(policy: str = "stale", rounds: int = 5) -> Ring:
    """The ring in one process without workers."""
    pool = SerialPool()
    return Ring([LocalHost(each, pool, health) for each in learners_of_ring().values()], policy).play(rounds)


class WorkerThread:
    """A worker that serves on a thread until the engine lets it go.

    Attributes:
        error: why it ended; None: it was told to stop.
    """

    def __init__(
        self,
        address: str,
        learners: Mapping[NodeId, Learner],
        observe: Observe = health,
        *,
        keys: CurveKeys | None = None,
        release: str = RELEASE,
        seat: int | None = None,
        limits: WorkerLimits = PATIENT,
    ) -> None:
        def build(text: str, clients: Sequence[NodeId]) -> tuple[LearnerCalls, list[str]]:
            built = {client: learners[client] for client in clients}
            return LearnerCalls(built, KINDS, observe), [f"{text} {client}" for client in clients]

        self.error: Exception | None = None
        self._worker = WorkerClient(EngineAddress(address, release, "thread", seat, keys, limits=limits), build)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._worker.serve()
        except Exception as error:  # noqa: BLE001 - the test asks for it
            self.error = error

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive(), "the worker does not end"


class BareWorker:
    """Somebody with a socket, who says what a test tells it to."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, int(1000 * GIVE_UP_S))
        self.socket.connect(address)

    def say(self, kind: str, **fields: Any) -> None:
        """One packet without frames."""
        self.socket.send_multipart(pack_packet(Packet(kind, fields)))

    def hear(self, kind: str) -> Packet:
        """The next packet of a type; others are passed over."""
        while (packet := unpack_packet(self.socket.recv_multipart())).type != kind:
            pass
        return packet

    def sit(self, seat: int | None = None) -> None:
        """Take this seat or, with None, any that is free, and be ready."""
        self.say("hello", release=RELEASE, name="bare", seat=seat)
        clients = self.hear("welcome").fields["clients"]
        self.say("ready", clients=clients, starts=["" for _ in clients])

    def close(self) -> None:
        """Vanish."""
        self.socket.close()
        self._context.term()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose name fits the address of an `ipc://` socket, which may have a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="se-") as folder:
        yield Path(folder)


@contextmanager
def serving(
    n_seats: int = 2,
    limits: WorkerLimits = PATIENT,
    *,
    address: str = "",
    keys: CurveKeys | None = None,
    ended: Callable[[int], str | None] = lambda _: None,
) -> Iterator[tuple[WorkerServer, str]]:
    """A server with seats for the clients of the ring, and its address."""
    with short_folder() as folder:
        where = address or f"ipc://{folder}/turns"
        seats = [list(RING)[seat::n_seats] for seat in range(n_seats)]
        server = WorkerServer(where, seats, RELEASE, limits, keys, ended)
        try:
            yield server, where
        finally:
            server.close()


def remote_hosts(server: WorkerServer) -> list[RemoteHost]:
    """One for every client of the ring."""
    return [RemoteHost(node, KINDS, server) for node in RING]
