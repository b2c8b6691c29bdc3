"""A hub with one worker: nobody else stays connected, and the worker never notices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from attacks.raw_peer import RawPeer, zmtp_frame
from doubles.carried import forwarded, submitted
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport

NOTHING = np.zeros(0, dtype=np.int64)
PART = zmtp_frame(bytes(1000), more=True)
MANY = 1_000_000


@pytest.fixture
def transport() -> Iterator[ZmqTransport]:
    made = ZmqTransport(Wire(frozenset(MessageKind)), "tcp://127.0.0.1:*", timeout_s=10.0)
    yield made
    made.close()


def n_bytes_taken(address: str) -> int:
    """Bytes of an endless message that are taken before the connection ends; it may end before it is made."""
    try:
        stranger = RawPeer(address, greets=False)
    except OSError:
        return 0
    n_bytes = stranger.send_until_cut(itertools.repeat(PART, MANY))
    stranger.die()
    return n_bytes


def test_who_connects_beside_the_worker_is_hung_up_on(transport: ZmqTransport) -> None:
    assert n_bytes_taken(transport.address) < MANY * len(PART)


def test_the_worker_goes_on_while_others_come_and_go(transport: ZmqTransport) -> None:
    for round_index in range(20):
        n_bytes_taken(transport.address)
        message = Message(MessageKind.HEAD, 1, 2, round_index, "mix", np.arange(100, dtype=np.float32))
        assert forwarded(transport, submitted(transport, message), NOTHING, 1200).round_index == round_index
    assert transport.hub.n_refused == 0
