"""The generators attack what they say: repeatable, of every way, and mostly what no receiver may take."""

from __future__ import annotations

import numpy as np
import zmq
from attacks.frame_attacks import FrameAttacks
from attacks.raw_peer import RawPeer, zmtp_message, zmtp_ping
from sheafedge.emulator.edge.frame_packets import MOST_HEADER_BYTES, TO_SERVER, pack_frames
from sheafedge.emulator.network.transport.errors import WireError
from sheafedge.emulator.network.transport.packets import Packet, pack_packet, unpack_packet

N = 600
CAPTURED = [
    [bytes(part) for part in pack_packet(packet, TO_SERVER)]
    for packet in (pack_frames("s", 3, 0.3, {"rf": np.ones(8, np.float32)}), Packet("health", {}))
]


def test_the_same_seed_makes_the_same_packets_of_every_way() -> None:
    first, again, other = (FrameAttacks(CAPTURED, seed) for seed in (1, 1, 2))
    made = [first.packet() for _ in range(N)]
    assert made == [again.packet() for _ in range(N)]
    assert made != [other.packet() for _ in range(N)]
    assert all(first.made.values()), first.made


def test_attacks_reach_what_lies_behind_the_checksum_and_few_are_valid() -> None:
    attacks = FrameAttacks(CAPTURED, 0, most_header_bytes=MOST_HEADER_BYTES)
    refused: list[str] = []
    for _ in range(N):
        try:
            unpack_packet(attacks.packet(), TO_SERVER)
        except WireError as error:
            refused.append(str(error))
    assert N / 2 < len(refused) < N
    for part in ("is not msgpack", "do not match its checksum", "missing or unknown fields", "must be", "is longer"):
        assert any(part in sentence for sentence in refused), part


def test_a_raw_peer_is_understood_by_zeromq() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.RCVTIMEO, 20_000)
        router.setsockopt(zmq.LINGER, 0)
        router.bind("tcp://127.0.0.1:*")
        peer = RawPeer(router.getsockopt_string(zmq.LAST_ENDPOINT))
        assert peer.send(zmtp_ping() + zmtp_message([b"a", b"b" * 1000]))
        assert router.recv_multipart()[1:] == [b"a", b"b" * 1000]
        peer.die()
