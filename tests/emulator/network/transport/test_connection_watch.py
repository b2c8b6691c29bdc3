"""What the connections of a socket may make ZeroMQ hold: messages that never end, strangers in numbers."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
import zmq
from attacks.raw_peer import RawPeer, zmtp_frame, zmtp_message
from doubles.waiting import wait_for
from sheafedge.emulator.network.transport import connection_watch
from sheafedge.emulator.network.transport.connection_descriptors import shut_down
from sheafedge.emulator.network.transport.connection_watch import STRANGER, Allowance, ConnectionWatch, Cut

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
PATIENCE_MS = 10_000
PART = zmtp_frame(bytes(1000), more=True)
LAST = zmtp_frame(b"")


class Watched:
    """A ROUTER, its watch, and what a server does with both."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.watch = ConnectionWatch(self.context, self.socket)
        self.socket.bind("tcp://127.0.0.1:*")
        self.address = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.seated: dict[bytes, Allowance] = {}
        self.peers: list[RawPeer] = []

    def peer(self) -> RawPeer:
        self.peers.append(RawPeer(self.address))
        return self.peers[-1]

    def read(self) -> bytes:
        """Take the next message; returns the identity of its sender."""
        assert self.socket.poll(PATIENCE_MS)
        identity, *parts = self.socket.recv_multipart(copy=False)
        self.watch.delivered(identity.bytes, parts[-1], sum(map(len, parts)), len(parts))
        return identity.bytes

    def look(self) -> list[Cut]:
        return self.watch.look(self.seated, all_was_read=not self.socket.poll(0))

    def looks_until_cut(self) -> list[Cut]:
        for _ in range(100_000):
            if cuts := self.look():
                return cuts
        raise AssertionError("nobody was cut off")

    def close(self) -> None:
        for peer in self.peers:
            peer.die()
        self.watch.close()
        self.socket.close()
        self.context.term()


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


def test_a_message_that_never_ends_is_cut_off(watched: Watched) -> None:
    peer = watched.peer()
    peer.send(PART * (STRANGER.pending_bytes // len(PART) + 1))
    (cut,) = watched.looks_until_cut()
    assert cut == (None, f"more than {STRANGER.pending_bytes} bytes came that are no complete message")
    assert peer.send_until_cut(itertools.repeat(PART, 100_000)) < 100_000 * len(PART)


def test_messages_that_end_are_not_however_many_there_are(watched: Watched) -> None:
    """The negative control: ten times as many bytes, and empty parts, whose frames are all that comes of them."""
    peer = watched.peer()
    for _ in range(10):
        for message in (PART * (STRANGER.pending_bytes // len(PART) - 1) + LAST, zmtp_message([b""] * 5000)):
            peer.send(message)
            watched.read()
            assert watched.look() == []


def test_commands_between_messages_do_not_add_up(watched: Watched) -> None:
    """Heartbeats of a connection are bytes that no message accounts for."""
    peer = watched.peer()
    commands = zmtp_frame(b"\x05OTHER" + bytes(200), command=True) * 100
    for _ in range(2 * STRANGER.pending_bytes // len(commands)):
        peer.send(commands)
        while watched.look() == [] and next(iter(watched.watch._connections.values())).pending < len(commands):
            pass
        peer.send(LAST)
        watched.read()
        assert watched.look() == []


def test_who_has_a_seat_may_send_what_its_seat_allows(watched: Watched) -> None:
    peer = watched.peer()
    peer.send(LAST)
    identity = watched.read()
    watched.seated[identity] = Allowance(10 * STRANGER.pending_bytes, 10_000, 100)
    peer.send(PART * (9 * STRANGER.pending_bytes // len(PART)))
    connection = next(iter(watched.watch._connections.values()))
    while connection.pending < 8 * STRANGER.pending_bytes:
        assert watched.look() == []
    peer.send(PART * (2 * STRANGER.pending_bytes // len(PART)))
    assert [cut.identity for cut in watched.looks_until_cut()] == [identity]


def test_strangers_together_have_a_limit_and_the_greediest_goes(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_watch, "_STRANGERS_PENDING_BYTES", 100_000)
    modest, greedy = watched.peer(), watched.peer()
    modest.send(PART * 40)
    greedy.send(PART * 80)
    (cut,) = watched.looks_until_cut()
    assert "together" in cut.reason
    modest.send(LAST)
    watched.read()


def test_the_oldest_strangers_go_when_there_are_too_many(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_watch, "MOST_STRANGERS", 3)
    seated = watched.peer()
    seated.send(LAST)
    watched.seated[watched.read()] = STRANGER
    peers = [watched.peer() for _ in range(5)]
    assert 1 <= len(watched.looks_until_cut()) <= 2
    for peer in (peers[-1], seated):
        peer.send(LAST)
        watched.read()


def test_who_is_named_is_hung_up_on_and_no_other(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_watch, "_FAREWELL_S", 0.0)
    named, other = watched.peer(), watched.peer()
    named.send(LAST)
    watched.watch.cut(watched.read())
    assert watched.look() == []
    assert named.send_until_cut(itertools.repeat(LAST, 1_000_000)) < 1_000_000 * len(LAST)
    while watched.socket.poll(0):
        watched.read()
    other.send(LAST)
    watched.read()


def test_who_comes_and_goes_cannot_pile_up_messages(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete messages outlive their connection; by coming back a sender could leave any number of them."""
    monkeypatch.setattr(connection_watch, "_LEFT_BYTES", 200_000)
    connections = watched.watch._connections
    cuts: list[Cut] = []

    def looked() -> bool:
        cuts.extend(watched.look())
        return bool(cuts)

    for _ in range(10):
        with suppress(OSError):
            peer = RawPeer(watched.address)
            peer.send(zmtp_message([bytes(50_000)]))
            wait_for(lambda: looked() or any(one.pending > 50_000 for one in connections.values()))
            peer.die()
        wait_for(lambda: looked() or not connections)
        if cuts:
            break
    assert "have left too much" in cuts[0].reason
    n_read = 0
    while watched.socket.poll(200):
        watched.read()
        n_read += 1
    assert n_read == 5  # those that were let in
    assert watched.look() == []
    late = watched.peer()
    late.send(LAST)
    watched.read()


def test_who_is_hung_up_on_at_once_is_told_of_even_where_its_end_is_read_first(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut_down_and_wait(descriptor: int, *, at_once: bool = False) -> None:
        shut_down(descriptor, at_once=at_once)
        assert watched.watch.monitor.poll(PATIENCE_MS), "the end of the connection"

    monkeypatch.setattr(connection_watch, "_LEFT_BYTES", -1)
    monkeypatch.setattr(connection_watch, "shut_down", shut_down_and_wait)
    with suppress(OSError):
        watched.peer()
    (cut,) = watched.looks_until_cut()
    assert "have left too much" in cut.reason
    assert watched.look() == []
