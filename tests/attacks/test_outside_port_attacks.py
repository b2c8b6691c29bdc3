"""The port for outside clients under attack: the honest client is asked and answers as ever, and memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from attacks.conftest import Tally
from attacks.engine_attacks import Attackers, ResidentPeak, peer
from doubles.outside_player import OutsidePlayer
from sheafedge.emulator.contracts import Message, MessageKind, Phase
from sheafedge.emulator.network.transport.curve_keys import CurveKeys, make_keys, read_keys
from sheafedge.emulator.network.transport.packed_messages import pack_messages, unpack_messages
from sheafedge.emulator.network.transport.packets import Packet, pack_packet
from sheafedge.emulator.nodes.outside_place import OutsidePlace, OutsideVector, VectorName
from sheafedge.emulator.nodes.outside_server import OutsideServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
HONEST, HOSTILE = 3, 5
N_NUMBERS = 2000
PATIENCE_S = 60.0  # for a reply on a busy machine
#: Beyond what the honest ones take; a message that never ends took 1,600 before there was a limit. On loopback a GB
#: comes in a second, and on a busy machine the engine may not look for some tenths of one.
MOST_GROWTH_MB = 400.0
VECTOR = OutsideVector(
    VectorName("mix", MessageKind.ENCODER, "gps"), np.zeros(N_NUMBERS, np.float32), [("w", [N_NUMBERS])], {1: 0.5}
)


def place(client: int) -> OutsidePlace:
    return OutsidePlace(client, n_rounds=5, speed=1.0, deadline_s=1.0, phases=[Phase("mix", 1.0)], vectors=[VECTOR])


def turn_done(ticket: int, round_index: int, sender: int) -> Packet:
    """A valid reply, whose numbers tell round and sender."""
    values = np.full(N_NUMBERS, 1000 * sender + round_index, np.float32)
    frames: list[memoryview | bytes] = []
    message = Message(MessageKind.ENCODER, sender, 1, round_index, "mix", values, "gps")
    fields = {"ticket": ticket, "messages": pack_messages([message], frames), "expected": []}
    return Packet("turn_done", fields, frames)


CAPTURED = [
    [bytes(part) for part in pack_packet(packet)]
    for packet in (
        turn_done(0, 0, HOSTILE),
        turn_done(1, 0, HONEST),  # of the other client, and with a ticket that may be its
        Packet("look_done", {"ticket": 0, "row": {"loss": 0.5}, "phases": []}),
        Packet("failed", {"ticket": 0, "error": "MemoryError", "sentence": "none left"}),
        Packet("join", {"name": "hostile", "client": HOSTILE}),
        Packet("join", {"name": "hostile", "client": HONEST}),
        Packet("alive", {}),
        Packet("leaving", {"sentence": "enough"}),
    )
]
JOIN, ALIVE = CAPTURED[4], CAPTURED[6]


class HonestClient:
    """Answers what it is asked, on a thread."""

    def __init__(self, address: str, keys: CurveKeys | None) -> None:
        self._thread = threading.Thread(target=self._play, args=(address, keys), daemon=True)
        self._thread.start()

    def _play(self, address: str, keys: CurveKeys | None) -> None:
        with OutsidePlayer(address, keys) as player:
            player.join(HONEST)
            player.hear("place")
            while (asked := player.hear("turn", "stop")).type == "turn":
                answer = turn_done(asked.fields["ticket"], asked.fields["round"], HONEST)
                player.say(answer.type, answer.fields, answer.frames)

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


class AttackedPort:
    """The server, its honest client, and what became of both."""

    def __init__(self, keys_folder: Path | None) -> None:
        engine, self.keys = (read_keys(keys_folder, end) if keys_folder else None for end in ("engine", "worker"))
        self.server = OutsideServer("tcp://127.0.0.1:*", [HONEST, HOSTILE], keys=engine)
        self.honest = HonestClient(self.server.address, self.keys)
        self.latencies_ms: list[float] = []
        with peer(self.server.address, self.keys) as seated:
            seated.send_multipart(JOIN)
            self.server.fill({HONEST: place(HONEST), HOSTILE: place(HOSTILE)}, join_s=PATIENCE_S)

    @property
    def n_refused(self) -> int:
        """Packets and connections that were refused, of anybody but the honest client."""
        return self.server.n_strangers + self.server.counts(HOSTILE)["refused"]

    def ask(self, tally: Tally) -> None:
        """Ask the honest client, and note whether its reply is its reply; ask the hostile one as a run would."""
        round_index = len(self.latencies_ms)
        question = {"round": round_index, "phase": "mix", "arrived": None, "messages": []}

        def read(reply: Packet) -> list[Message]:
            messages = unpack_messages(reply.fields["messages"], reply.frames, frozenset({MessageKind.ENCODER}))
            place(HONEST).check(messages, "mix", round_index)
            return messages

        begun_s = time.perf_counter()
        ticket = self.server.request(HONEST, "turn", question, (), read)
        messages = ticket.result(PATIENCE_S) if ticket is not None else None
        self.latencies_ms.append(1e3 * (time.perf_counter() - begun_s))
        if not messages or (messages[0].payload != 1000 * HONEST + round_index).any():
            tally.lose(f"the honest client's reply {round_index} did not come through")
        self.server.request(HOSTILE, "turn", question, (), lambda reply: place(HOSTILE).check([], "mix", round_index))

    def close(self, tally: Tally) -> None:
        self.server.close()
        self.honest.join()
        counts = self.server.counts(HONEST)
        if counts != {"joined": 1, "late": 0, "refused": 0}:
            tally.lose(f"the honest client has counts {counts}")


@contextmanager
def attacked(tally: Tally, keys_folder: Path | None) -> Iterator[AttackedPort]:
    port = AttackedPort(keys_folder)
    for _ in range(20):
        port.ask(tally)
    peak = ResidentPeak()
    try:
        yield port
        if peak.growth_mb > MOST_GROWTH_MB:
            tally.lose(f"memory grew by {peak.growth_mb} MB")
        tally.figures |= {
            "resident_before_mb": round(peak.before_mb, 1),
            "resident_growth_mb": peak.growth_mb,
            "honest_p50_ms": round(float(np.quantile(port.latencies_ms, 0.5)), 2),
            "honest_p99_ms": round(float(np.quantile(port.latencies_ms, 0.99)), 2),
            "honest_replies": len(port.latencies_ms),
        }
    finally:
        port.close(tally)


@pytest.fixture(params=["keyless", "keyed"])
def keys_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if request.param == "keyless":
        return None
    make_keys(tmp_path)
    return tmp_path


def attack(tally: Tally, keys_folder: Path | None, n_packets: int, n_times: int, n_crowd: int) -> None:
    """All attackers at once, until so many packets were refused and every other way was tried so many times."""
    with attacked(tally, keys_folder) as port:
        attackers = Attackers(
            port.server.address,
            CAPTURED,
            lambda: port.n_refused >= n_packets,
            n_times=n_times,
            n_crowd=n_crowd,
            keys_folder=keys_folder,
            joins=JOIN,
        )
        with attackers:
            while attackers.are_busy:
                port.ask(tally)
        tally.tries += port.n_refused + attackers.n_tried
        tally.figures |= {"refused": port.n_refused, "connections": attackers.n_tried}
        for _ in range(20):
            port.ask(tally)


def test_the_port_survives_a_short_attack(tally: Tally, keys_folder: Path | None) -> None:
    attack(tally, keys_folder, n_packets=300, n_times=1, n_crowd=30)


@pytest.mark.attack
@pytest.mark.timeout(3000)
def test_the_port_survives_a_hundred_thousand_packets(tally: Tally, keys_folder: Path | None) -> None:
    attack(tally, keys_folder, n_packets=100_000, n_times=50, n_crowd=3000)


#: Of a process that sends valid packets and heartbeats, reads nothing, and waits to be killed.
CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from attacks.raw_peer import RawPeer, zmtp_message, zmtp_ping
try:
    peer = RawPeer(sys.argv[2])
    for _ in range(60):
        peer.send(zmtp_message([bytes.fromhex(sys.argv[3])]) * 50 + zmtp_ping(1))
except OSError:
    pass
time.sleep(600)
"""


@pytest.mark.attack
@pytest.mark.timeout(3000)
def test_killed_clients_take_nobody_along(tally: Tally) -> None:
    """Where libzmq had stopped reading from a connection that then broke, heartbeats aborted the engine."""
    tests = str(Path(__file__).parents[1])
    with attacked(tally, None) as port:
        for count in range(12):
            sent = (ALIVE, JOIN)[count % 2][0].hex()
            command = [sys.executable, "-S", "-E", "-c", CLIENT, tests, port.server.address, sent]
            clients = [subprocess.Popen(command) for _ in range(50)]
            before, begun_s = port.n_refused, time.monotonic()
            while port.n_refused < before + 10_000 and time.monotonic() < begun_s + PATIENCE_S:
                port.ask(tally)
            for client in clients:
                client.kill()
            for client in clients:
                client.wait()
            port.ask(tally)
            tally.tries += len(clients)
        tally.figures["refused"] = port.n_refused
