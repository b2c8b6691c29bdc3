"""Attackers of the engine's port, whoever listens there: packets of every kind, connections of every kind, no reader.

They run in processes beside the one that is attacked, and stop when the attack has done what it was to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgpack
import numpy as np
import zmq
from attacks.frame_attacks import FrameAttacks
from attacks.raw_peer import RawPeer, zmtp_frame, zmtp_message, zmtp_ping
from sheafedge.emulator.network.transport.curve_keys import CurveKeys, read_keys, use_keys

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
#: Frames that are sent on one connection; a part of the storm is over a limit, and ends its connection.
_FRAMES_OF_A_CONNECTION = 40
_GREETING = b"\xff" + 8 * b"\0" + b"\x7f"
_READY = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
#: Bytes that an endless sender has; far more than any limit, so that it ends only because it is cut off.
_ENDLESS_BYTES = 400_000_000


#: Calls a function of this module in a process of its own.
_CHILD = """
import sys, msgpack
sys.path.insert(0, sys.argv[1])
from attacks import engine_attacks
name, *given = msgpack.load(sys.stdin.buffer)
getattr(engine_attacks, name)(*given)
"""
_TESTS = str(Path(__file__).parents[1])
#: After an error in the attackers' own libzmq: 4.3.5 aborts a sender that closes while it is cut off.
_ABORTED = -signal.SIGABRT


class Attackers:
    """Processes that attack, as strangers are in other processes: they would hold up the engine's threads in its own.

    Args:
        address: of the port.
        captured: valid packets, see `FrameAttacks`; none: no packets are sent.
        is_enough: whether the other end has refused enough of them.
        n_times: number of times that every way to misuse a connection is tried.
        n_crowd: number of connections at once that say nothing.
        keys_folder: where the attackers' keys are; None: they have none.
        joins: a request for a seat, with which half of the connections begin; None: none does.
    """

    def __init__(
        self,
        address: str,
        captured: Sequence[Sequence[bytes]],
        is_enough: Callable[[], bool],
        *,
        n_times: int,
        n_crowd: int,
        keys_folder: Path | None = None,
        joins: Sequence[bytes] | None = None,
    ) -> None:
        self._is_enough = is_enough
        keys = None if keys_folder is None else str(keys_folder)
        self._storm = ("storm", address, captured, keys, joins) if captured else None
        self._misuse = ("misuse", address, n_times, n_crowd)
        self._processes: list[subprocess.Popen[bytes]] = []
        #: Tries below the level of packets.
        self.n_tried = n_times * len(_WAYS) + n_crowd

    def __enter__(self) -> Self:
        self._processes.append(_started(self._misuse))
        if self._storm is not None:
            self._processes.append(_started(self._storm))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        misuse, *storms = self._processes
        for storm in storms:
            storm.kill()
            storm.wait()
        if error is not None:
            misuse.kill()
        assert misuse.wait() == 0 or error is not None, "an endless sender was not cut off, or an attacker failed"

    @property
    def are_busy(self) -> bool:
        """Whether any of them goes on; one that was aborted is started again."""
        misuse, *storms = self._processes
        if storms and storms[0].poll() is not None:
            assert storms[0].returncode == _ABORTED
            assert self._storm is not None
            self._processes[1] = _started(self._storm)
        return misuse.poll() is None or (bool(storms) and not self._is_enough())


def _started(call: Sequence[Any]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-P", "-c", _CHILD, _TESTS], stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as given:
        msgpack.dump(list(call), given)
    return process


@contextlib.contextmanager
def peer(address: str, keys: CurveKeys | None = None) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER of libzmq, with keys where there are any; it gives up after a second in which nobody takes anything."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.SNDTIMEO, 1000)
    socket.setsockopt(zmq.SNDHWM, _FRAMES_OF_A_CONNECTION)
    if keys is not None:
        use_keys(socket, keys, "worker")
    socket.connect(address)
    try:
        yield socket
    finally:
        context.destroy(linger=100)


def storm(
    address: str, captured: Sequence[Sequence[bytes]], keys_folder: str | None, joins: Sequence[bytes] | None
) -> None:
    """Hostile packets, a few on every connection, until the process is killed; replies are never read."""
    keys = None if keys_folder is None else read_keys(Path(keys_folder), "worker")
    # Another seed for every process: one that was aborted does not begin again with the same packets.
    attacks = FrameAttacks(captured, seed=os.getpid())
    for count in itertools.count():
        packets = [attacks.packet() for _ in range(_FRAMES_OF_A_CONNECTION)]
        if joins is not None and count % 2:
            packets.insert(0, list(joins))
        with contextlib.suppress(OSError, zmq.Again), peer(address, keys) as socket:
            for packet in packets:
                socket.send_multipart(packet)


def misuse(address: str, n_times: int, n_crowd: int) -> None:
    """Every way to misuse a connection below the level of packets so many times, and a silent crowd beside it."""
    draws = np.random.default_rng(7)
    crowd = []
    for count in range(n_crowd):
        # The other end may hang up at any time, in the middle of a handshake too.
        with contextlib.suppress(OSError):
            crowd.append(RawPeer(address, greets=bool(count % 2)))
    order = [name for name in _WAYS for _ in range(n_times)]
    for place in draws.permutation(len(order)):
        with contextlib.suppress(OSError):
            _WAYS[order[place]](address, draws)
    for each in crowd:
        each.die()


def _endless(address: str, chunk: bytes) -> None:
    attacker = RawPeer(address)
    n_chunks = _ENDLESS_BYTES // len(chunk)
    n_bytes = attacker.send_until_cut(itertools.repeat(chunk, n_chunks))
    attacker.die()
    assert n_bytes < n_chunks * len(chunk), "an endless sender was not cut off"


def _endless_parts(address: str, draws: np.random.Generator) -> None:
    _endless(address, zmtp_frame(bytes(int(draws.integers(300, 300_000))), more=True))


def _endless_empty_parts(address: str, _draws: np.random.Generator) -> None:
    _endless(address, zmtp_frame(b"", more=True) * 50_000)


def _endless_pings(address: str, _draws: np.random.Generator) -> None:
    _endless(address, zmtp_ping(1) * 5_000)


def _endless_frame(address: str, draws: np.random.Generator) -> None:
    """One frame, below and above the largest that may be announced."""
    attacker = RawPeer(address)
    announced = int(draws.choice([1 << 20, 900 << 20, (1 << 30) + 1, (1 << 63) - 1]))
    attacker.send(struct.pack(">BQ", 2, announced))
    attacker.send_until_cut(itertools.repeat(bytes(100_000), 100))
    attacker.die()


def _wrong_greeting(address: str, draws: np.random.Generator) -> None:
    greetings = (
        draws.bytes(64),
        b"GET / HTTP/1.1\r\nHost: engine\r\n\r\n",
        b"\x01\x00",  # ZMTP 1.0: an anonymous peer
        _GREETING + b"\x01\x05" + zmtp_frame(b""),  # ZMTP 2.0
        _GREETING + b"\x09\x00" + b"NULL".ljust(20, b"\0") + bytes(32),  # a version that does not exist
        _GREETING + b"\x03\x01" + b"PLAIN".ljust(20, b"\0") + bytes(32) + zmtp_frame(b"\x05HELLO\0\0", command=True),
        _GREETING + b"\x03\x01" + draws.bytes(20) + bytes(32),
        _GREETING,
        b"",
    )
    attacker = RawPeer(address, greets=False)
    attacker.send(greetings[int(draws.integers(len(greetings)))])
    attacker.die()


def _wrong_handshake(address: str, draws: np.random.Generator) -> None:
    """A handshake of the right mechanism with forged, long or endless commands."""
    mechanism = (b"NULL", b"CURVE")[int(draws.integers(2))]
    attacker = RawPeer(address, greets=False)
    attacker.send(_GREETING + b"\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32))
    commands = (
        _READY + b"\x08Identity\0\0\0\x05\0" + draws.bytes(4),  # an identity as the other end makes them
        _READY + b"\x08Identity\xff\xff\xff\xff",
        _READY + bytes(int(draws.integers(1, 100_000))),
        b"\x05READY" + draws.bytes(50),
        b"\x05HELLO\x01\0" + draws.bytes(192),
        b"\x05HELLO" + bytes(100_000),
        b"\x08INITIATE" + draws.bytes(257),
        b"\x05ERROR\xff" + bytes(255),
        b"",
    )
    for _ in range(3):
        attacker.send(zmtp_frame(commands[int(draws.integers(len(commands)))], command=True))
    attacker.send(zmtp_message([draws.bytes(20), draws.bytes(20)]))
    attacker.die()


def _noise_behind_the_handshake(address: str, draws: np.random.Generator) -> None:
    attacker = RawPeer(address)
    attacker.send(draws.bytes(int(draws.integers(1, 5000))))
    attacker.die()


def _half_a_message(address: str, draws: np.random.Generator) -> None:
    attacker = RawPeer(address)
    whole = zmtp_message([draws.bytes(50), draws.bytes(500)])
    attacker.send(whole[: int(draws.integers(1, len(whole)))])
    attacker.die()


_WAYS: dict[str, Callable[[str, np.random.Generator], None]] = {
    "endless parts": _endless_parts,
    "endless empty parts": _endless_empty_parts,
    "endless pings": _endless_pings,
    "endless frame": _endless_frame,
    "wrong greeting": _wrong_greeting,
    "wrong handshake": _wrong_handshake,
    "noise": _noise_behind_the_handshake,
    "half a message": _half_a_message,
}


class ResidentPeak:
    """Resident memory of this process while something goes on.

    Attributes:
        before_mb: at the beginning.
    """

    def __init__(self) -> None:
        _CLEAR.write_text("5")  # resets the peak, see proc(5)
        self.before_mb = self._mb("VmRSS")

    @property
    def growth_mb(self) -> float:
        """The most since then beyond what it was."""
        return round(self._mb("VmHWM") - self.before_mb, 1)

    def _mb(self, name: str) -> float:
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1e3
