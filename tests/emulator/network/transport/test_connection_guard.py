"""Bytes of a connection that nobody takes are bounded, whatever they are; who is taken from is never cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import zmq
from attacks.raw_peer import RawPeer, zmtp_frame, zmtp_message, zmtp_ping
from doubles.waiting import LIMIT_S, wait_for
from sheafedge.emulator.network.transport.connection_descriptors import descriptor_of
from sheafedge.emulator.network.transport.connection_guard import ConnectionGuard, can_guard
from sheafedge.emulator.network.transport.curve_keys import KeyAuthenticator, make_keys, read_keys, use_keys

pytestmark = pytest.mark.skipif(not can_guard("tcp://127.0.0.1:1"), reason="this system does not count bytes")

MOST_BYTES = 100_000
#: Of the handshake and of a greeting, which are nobody's message.
HANDSHAKE_BYTES = 1_000
SIZES = (0, 1, 221, 222, 223, 254, 255, 256, 257, 5_000)


@contextmanager
def guarded(
    keys_folder: Path | None = None, in_all: int = 10 * MOST_BYTES, socket_class: type[zmq.Socket] = zmq.Socket
) -> Iterator[tuple[zmq.Socket, ConnectionGuard]]:
    """A bound ROUTER and its guard."""
    with zmq.Context() as context, context.socket(zmq.ROUTER, socket_class=socket_class) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.RCVTIMEO, round(1000 * LIMIT_S))
        if keys_folder is not None:
            use_keys(router, read_keys(keys_folder, "engine"), "engine")
        guard = ConnectionGuard(
            router, most_bytes=MOST_BYTES, most_bytes_in_all=in_all, encrypted=keys_folder is not None
        )
        router.bind("tcp://127.0.0.1:*")
        try:
            yield router, guard
        finally:
            guard.close()


def address_of(router: zmq.Socket) -> str:
    return router.getsockopt_string(zmq.LAST_ENDPOINT)


def known(guard: ConnectionGuard) -> list[Any]:
    """Connections that the guard takes for open."""
    return list(guard._connections.values())


def take(router: zmq.Socket, guard: ConnectionGuard) -> int:
    """Take a message; the descriptor of its connection."""
    client, *parts = router.recv_multipart(copy=False)
    guard.took(client.bytes, parts[-1], [len(part) for part in parts])
    return int(parts[-1].get(zmq.SRCFD))


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_was_taken_is_what_the_kernel_counted(is_encrypted: bool, tmp_path: Path) -> None:
    """To the byte, with and without encryption; or honest senders would be cut off after some hours."""
    folder = tmp_path / "keys" if is_encrypted else None
    if folder is not None:
        make_keys(folder)
    with guarded(folder) as (router, guard), router.context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        authenticator = None
        if folder is not None:
            authenticator = KeyAuthenticator(router.context, read_keys(folder, "engine"))
            use_keys(dealer, read_keys(folder, "worker"), "worker")
        dealer.connect(address_of(router))
        dealer.send_multipart([b"x" * size for size in SIZES])
        if authenticator is not None:
            assert authenticator.socket.poll(round(1000 * LIMIT_S))
            authenticator.answer()
        connection = take(router, guard)
        wait_for(lambda: connection in guard._connections)
        after_first = guard._connections[connection].inside()
        assert abs(after_first) < HANDSHAKE_BYTES
        for _ in range(200):
            dealer.send_multipart([b"x" * size for size in SIZES])
            take(router, guard)
        # Every look forgives a byte, and the last message may be credited before the kernel is asked.
        assert guard._connections[connection].inside() == pytest.approx(after_first, abs=200)
        assert guard.n_cut == 0
        if authenticator is not None:
            authenticator.close()


ENDLESS = {
    "one message without an end": zmtp_frame(b"x" * 1000, more=True),
    "empty parts": zmtp_frame(b"", more=True) * 100,
    "messages that nobody takes": zmtp_message([b"x" * 1000]),
    "heartbeats": zmtp_ping() * 100,
    "commands that nobody knows": zmtp_frame(b"\x03ABC" + bytes(100), command=True),
    "nothing but noise before the handshake": None,
}


@pytest.mark.parametrize("chunk", ENDLESS.values(), ids=ENDLESS.keys())
def test_who_never_ends_is_cut_off_and_others_are_not(chunk: bytes | None) -> None:
    with guarded() as (router, guard):
        honest, hostile = RawPeer(address_of(router)), RawPeer(address_of(router), greets=chunk is not None)
        n_chunks = 3 * MOST_BYTES // len(chunk or bytes(1000))
        hostile.send_until_cut((chunk or b"\x00" * 1000) for _ in range(n_chunks))
        if chunk is not None:  # ZeroMQ itself hangs up on noise
            wait_for(lambda: guard.n_cut == 1)
        hostile.die()
        assert honest.send(zmtp_message([b"honest"]))
        while router.recv_multipart()[-1] != b"honest":
            pass
        assert guard.n_cut == (1 if chunk is not None else 0)
        honest.die()


def test_many_with_little_each_are_bounded_together() -> None:
    with guarded(in_all=2 * MOST_BYTES) as (router, guard):
        peers = [RawPeer(address_of(router)) for _ in range(5)]
        for number, peer in enumerate(peers):
            peer.send(zmtp_frame(b"x" * (MOST_BYTES // 2 + 1000 * number), more=True))
        wait_for(lambda: guard.n_cut == 2)  # of those with the most
        for peer in peers:
            peer.die()


def test_who_is_taken_from_may_send_for_ever_and_nothing_is_kept_of_who_has_gone() -> None:
    with guarded() as (router, guard):
        for _ in range(3):
            peer = RawPeer(address_of(router))
            for _ in range(40):
                peer.send(zmtp_message([b"x" * (MOST_BYTES // 10)]))
                take(router, guard)
            peer.die()
        wait_for(lambda: not guard._connections)
        assert guard.n_cut == 0


def test_who_leaves_messages_and_comes_back_is_not_let_in_until_they_are_taken() -> None:
    """Complete messages outlive their connection; by coming back a sender could pile up any number of them."""
    with guarded(in_all=2 * MOST_BYTES) as (router, guard):
        message, n_left = zmtp_message([b"x" * (MOST_BYTES // 2)]), 0
        while guard.n_cut == 0:
            n_left += 1
            assert n_left < 100
            with suppress(OSError):
                peer = RawPeer(address_of(router))
                peer.send(message)
                wait_for(lambda: guard.n_cut or any(one.inside() >= len(message) for one in known(guard)))
                peer.die()
            wait_for(lambda: not known(guard))
        assert n_left > 4 * 2 * 2  # not before far too much is left
        wanted = []
        while router.poll(200):
            client, *parts = router.recv_multipart(copy=False)
            wanted.append(guard.took(client.bytes, parts[-1], [len(part) for part in parts]))
        assert not wanted[0]  # the first of many are thrown away
        assert wanted[-1]
        guard.took_all()
        n_cut = guard.n_cut
        peer = RawPeer(address_of(router))
        peer.send(zmtp_message([b"back"]))
        assert router.recv_multipart()[1:] == [b"back"]
        peer.die()
        assert guard.n_cut == n_cut


def test_a_message_of_an_unknown_connection_is_taken() -> None:
    """Where the other end was gone before libzmq had looked who it was, no message tells its connection."""
    with guarded() as (_router, guard):
        assert descriptor_of(zmq.Frame(b"x")) is None
        assert guard.took(b"client", zmq.Frame(b"x"), [1])


# --- the end ----------------------------------------------------------------------------------------------------------


class LateSocket(zmq.Socket):
    """One whose monitor ends late, so that connections end before."""

    def disable_monitor(self) -> None:
        time.sleep(0.2)
        super().disable_monitor()


def end_while_peers_leave() -> None:
    with zmq.Context() as others, guarded(socket_class=LateSocket) as (router, _):
        peers = [others.socket(zmq.DEALER) for _ in range(5)]
        for peer in peers:
            peer.connect(address_of(router))
            peer.send(b"here")
        for _ in peers:
            router.recv_multipart()
        leaving = threading.Timer(0.1, lambda: [peer.close(linger=0) for peer in peers])
        leaving.start()
    leaving.join()


def test_it_ends_while_connections_end() -> None:
    """libzmq tells of them in between; with nobody left to hear of it, it would wait, and the end with it."""
    ending = threading.Thread(target=end_while_peers_leave, daemon=True)  # what hangs must not hold up the other tests
    ending.start()
    ending.join(LIMIT_S)
    assert not ending.is_alive()
