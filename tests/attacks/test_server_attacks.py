"""Strangers at the server of models: it lives, forgets nobody, stays small, and an honest client notices nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zmq
from attacks.attacked_server import HERE, LIMIT_S, AttackedServer, attacked
from attacks.conftest import Tally
from attacks.frame_attacks import FrameAttacks, Parts
from attacks.raw_peer import RawPeer, zmtp_frame, zmtp_message, zmtp_ping
from doubles.bundles import tiny_bundle
from sheafedge.emulator.edge.frame_packets import TO_SERVER, pack_frames
from sheafedge.emulator.network.transport.connection_guard import can_guard
from sheafedge.emulator.network.transport.curve_keys import make_keys, use_keys
from sheafedge.emulator.network.transport.packets import Packet, pack_packet

pytestmark = pytest.mark.skipif(not can_guard("tcp://127.0.0.1:1"), reason="this system does not count bytes")

KEYED = pytest.mark.parametrize("is_keyed", [False, True], ids=["keyless", "keyed"])
#: Valid frames of a dying client.
N_FRAMES = 300


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture(scope="module")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("keys") / "keys"
    make_keys(folder)
    return str(folder)


# --- packets ----------------------------------------------------------------------------------------------------------


def captured() -> list[Parts]:
    """Packets of several streams, valid ones and ones that no window can take."""
    draws = np.random.default_rng(0)
    packets = [Packet("describe", {}), Packet("health", {}), Packet("forget", {"stream": "s0"})]
    for index in range(12):
        frames = {"lidar": draws.normal(size=(2, 6)).astype("<f4"), "rf": draws.normal(size=8)}
        packets.append(pack_frames(f"s{index % 3}", index, index / 10, frames, boot=(None, "first", 7)[index % 3]))
    rf = np.ones(8)
    for number, wrong in enumerate((np.full(8, np.nan), np.full(8, 1e300), rf[:3], rf.reshape(2, 4))):
        packets.append(pack_frames("s0", 10 + number, 1.0, {"rf": wrong}))
    packets += [pack_frames("other", 0, 1.0, {"camera": rf}), pack_frames("new", 2**62 - 1, 1.0, {"rf": rf})]
    return [[bytes(part) for part in pack_packet(packet, TO_SERVER)] for packet in packets]


def throw_packets(server: AttackedServer, n_packets: int, seed: int) -> FrameAttacks:
    """Send what was captured as it is, so that every refusal of whole packets is met, then hostile packets.

    It ends when the server has taken so many.
    """
    attacks = FrameAttacks(captured(), seed)
    with zmq.Context() as context, context.socket(zmq.DEALER) as hostile:
        hostile.setsockopt(zmq.LINGER, 0)
        hostile.setsockopt(zmq.SNDTIMEO, 1000)
        hostile.setsockopt(zmq.RECONNECT_IVL, 1)  # who is cut off comes back at once
        if server.keys is not None:
            use_keys(hostile, server.keys, "worker")
        hostile.connect(server.address)
        for parts in captured():
            hostile.send_multipart(parts)
        limit_s = time.monotonic() + LIMIT_S + n_packets / 100
        while server.report()["packets"] < n_packets:
            assert time.monotonic() < limit_s
            for _ in range(min(n_packets, 1000)):
                hostile.send_multipart(attacks.packet())
            while hostile.poll(0):
                hostile.recv_multipart()
    return attacks


def attack_with_packets(bundle: Path, keys_folder: str, tally: Tally, n_packets: int) -> None:
    with attacked(bundle, keys_folder, tally) as server:
        attacks = throw_packets(server, n_packets, seed=n_packets)
        refused = server.report()["refused"]
        assert all(attacks.made.values())
        assert {"malformed", "shape", "values", "modality", "not_ready"} <= refused.keys(), refused
    tally.tries = int(tally.figures["packets_taken"] - tally.figures["honest_asked"])


@KEYED
def test_hostile_packets(bundle: Path, keys_folder: str, tally: Tally, is_keyed: bool) -> None:
    attack_with_packets(bundle, keys_folder if is_keyed else "", tally, n_packets=1_500)


@pytest.mark.attack
@pytest.mark.timeout(1800)
@KEYED
def test_a_hundred_thousand_hostile_packets(bundle: Path, keys_folder: str, tally: Tally, is_keyed: bool) -> None:
    attack_with_packets(bundle, keys_folder if is_keyed else "", tally, n_packets=110_000)


# --- below packets ----------------------------------------------------------------------------------------------------


def raw_attacks(seed: int) -> Iterator[tuple[bool, list[bytes]]]:
    """Endless: whether the handshake is done before, and what is sent until the server hangs up."""
    draws = np.random.default_rng(seed)
    frame = b"".join(zmtp_message(parts) for parts in captured())
    while True:
        half = frame[: int(draws.integers(len(frame)))]
        choices: tuple[tuple[bool, list[bytes]], ...] = (
            (True, [zmtp_frame(b"x" * 60_000, more=True)] * 400),  # a message without an end
            (True, [zmtp_frame(b"x", more=True) * 20_000] * 200),
            (True, [zmtp_frame(b"", more=True) * 30_000] * 200),
            (True, [zmtp_message([b""] * 50_000)]),  # too many parts
            (True, [b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"]),  # a frame of 2^64 bytes
            (True, [b"\x02" + (10**9).to_bytes(8, "big"), b"x" * 10**6]),
            (True, [zmtp_ping(int(draws.integers(3))) * 1000] * 20),
            (True, [zmtp_frame(draws.bytes(40), command=True)] * 20),
            (True, [half]),  # breaks off anywhere
            (True, [frame * 100] * 3),  # leaves a megabyte of whole packets behind
            (True, [frame + zmtp_ping()] * 50),
            (False, [draws.bytes(int(draws.integers(1, 200)))]),
            (False, [b"\xff" + bytes(8) + b"\x7f"]),  # half a greeting
            (False, [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]),
        )
        yield choices[int(draws.integers(len(choices)))]


def attack_below_packets(bundle: Path, tally: Tally, n_peers: int) -> None:
    with attacked(bundle, "", tally) as server:
        attacks = raw_attacks(seed=n_peers)
        open_ones: list[RawPeer] = []
        for _ in range(n_peers):
            greets, chunks = next(attacks)
            tally.tries += len(chunks)
            with suppress(OSError):  # not let in
                open_ones.append(RawPeer(server.address, greets=greets))
                open_ones[-1].send_until_cut(chunks)
            if len(open_ones) > 20:
                open_ones.pop(0).die()
        for peer in open_ones:
            peer.die()


def test_hostile_bytes(bundle: Path, tally: Tally) -> None:
    attack_below_packets(bundle, tally, n_peers=25)


@pytest.mark.attack
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_hostile_frames_below_packets(bundle: Path, tally: Tally) -> None:
    attack_below_packets(bundle, tally, n_peers=2_000)


# --- clients that die -------------------------------------------------------------------------------------------------


def test_clients_that_die_with_a_heartbeat_on_its_way(bundle: Path, tally: Tally) -> None:
    """What aborted libzmq: full connections, whose peers are reset and have sent a heartbeat."""
    lidar, rf = np.ones((2, 6), np.float32), np.ones(8, np.float32)
    with attacked(bundle, "", tally) as server:
        for repeat in range(3):
            peers = [RawPeer(server.address) for _ in range(20)]
            for number, peer in enumerate(peers):
                packets = [pack_frames(f"dying {number}", at, 0.0, {"lidar": lidar, "rf": rf}) for at in range(100)]
                messages = [zmtp_message([*map(bytes, pack_packet(one, TO_SERVER))]) for one in packets]
                peer.send(zmtp_ping().join(messages) + zmtp_ping())
            for peer in peers:
                peer.die()
            tally.tries += len(peers)
            assert server.report()["packets"] > repeat


@pytest.mark.attack
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("beat_ms", [0, 50], ids=["silent", "beating"])
@KEYED
def test_three_hundred_dying_clients_ten_times(
    bundle: Path, keys_folder: str, tally: Tally, is_keyed: bool, beat_ms: int
) -> None:
    folder = keys_folder if is_keyed else ""
    with attacked(bundle, folder, tally) as server:
        for _ in range(10):
            for _ in range(3):
                arguments = [server.address, folder, "100", str(N_FRAMES), str(beat_ms), "0.1"]
                subprocess.run([sys.executable, str(HERE / "dying_clients.py"), *arguments], check=True)
                tally.tries += 100
            server.report()
