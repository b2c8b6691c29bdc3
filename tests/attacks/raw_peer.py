"""A ZeroMQ peer that speaks ZMTP 3.1 (RFC 37) over a plain TCP socket, and can break it where libzmq would not.

Only the NULL mechanism: a peer without keys. What a keyed peer can do wrong is sent through libzmq itself.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Sequence

_GREETING = b"\xff" + 8 * b"\0" + b"\x7f" + bytes([3, 1]) + b"NULL".ljust(20, b"\0") + bytes(32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_LIMIT_S = 20.0


def zmtp_frame(content: bytes, *, more: bool = False, command: bool = False) -> bytes:
    """One frame as it goes over the wire."""
    flags = (_MORE if more else 0) | (_COMMAND if command else 0)
    if len(content) > 255:
        return struct.pack(">BQ", flags | _LONG, len(content)) + content
    return bytes([flags, len(content)]) + content


def zmtp_message(parts: Sequence[bytes]) -> bytes:
    """All frames of a message."""
    return b"".join(zmtp_frame(part, more=place < len(parts) - 1) for place, part in enumerate(parts))


def zmtp_ping(ttl_ds: int = 0) -> bytes:
    """A heartbeat, which libzmq answers at once from its own thread.

    Args:
        ttl_ds: after so many tenths of a second without a further one the other end may hang up; 0: never.
    """
    return zmtp_frame(b"\x04PING" + struct.pack(">H", ttl_ds), command=True)


class RawPeer:
    """A connected DEALER without libzmq.

    Args:
        address: tcp://HOST:PORT of a ROUTER.
        greets: whether the handshake is done; without, nothing has been sent yet.
    """

    def __init__(self, address: str, *, greets: bool = True) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_LIMIT_S)
        if greets:
            try:
                self._shake_hands()
            except OSError:
                self._socket.close()
                raise

    def send(self, raw: bytes) -> bool:
        """Send bytes as they are; whether the other end still takes them."""
        try:
            self._socket.sendall(raw)
        except (OSError, TimeoutError):
            return False
        return True

    def send_until_cut(self, chunks: Iterable[bytes]) -> int:
        """Send until the other end hangs up or the chunks end; the bytes that were sent."""
        n_bytes = 0
        for chunk in chunks:
            if not self.send(chunk):
                break
            n_bytes += len(chunk)
        return n_bytes

    def die(self) -> None:
        """Break off as a killed process does: with unread replies the kernel resets the connection."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _receive_exactly(self, n_bytes: int) -> bytes:
        received = b""
        while len(received) < n_bytes:
            chunk = self._socket.recv(n_bytes - len(received))
            if not chunk:
                raise ConnectionError(f"the other end hung up after {len(received)} of {n_bytes} bytes")
            received += chunk
        return received

    def _shake_hands(self) -> None:
        self._socket.sendall(_GREETING)
        self._receive_exactly(len(_GREETING))
        self._socket.sendall(zmtp_frame(b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER", command=True))
        # libzmq takes a frame that comes before its own READY has gone for a wrong part of the handshake.
        _, n_bytes = self._receive_exactly(2)
        self._receive_exactly(n_bytes)
