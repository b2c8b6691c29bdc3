"""Somebody who plays a client from outside, frame by frame, well or badly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import zmq
from sheafedge.emulator.network.transport.curve_keys import CurveKeys, use_keys
from sheafedge.emulator.network.transport.packets import Frame, Packet, pack_packet, unpack_packet

#: Far more than loopback takes; what does not come fails a test after it.
PATIENCE_MS = 10_000


class OutsidePlayer:
    """A socket that says what it is told to say."""

    def __init__(self, address: str, keys: CurveKeys | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        if keys is not None:
            use_keys(self._socket, keys, "worker")
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._socket.connect(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.destroy(linger=0)

    def say(self, kind: str, fields: Mapping[str, Any], frames: Sequence[Frame] = ()) -> None:
        self.say_parts(pack_packet(Packet(kind, fields, frames)))

    def say_parts(self, parts: Sequence[Frame]) -> None:
        self._socket.send_multipart(parts)

    def join(self, client: int, name: str = "player") -> None:
        self.say("join", {"name": name, "client": client})

    def hung_up(self) -> bool:
        """Whether the other end closes the connection."""
        return bool(self._monitor.poll(PATIENCE_MS))

    def hear(self, *kinds: str) -> Packet:
        """The next packet, which must be of these types; signs of life are not worth mentioning."""
        while True:
            assert self._socket.poll(PATIENCE_MS), f"nothing of {kinds} has come"
            packet = unpack_packet(self._socket.recv_multipart())
            if packet.type in kinds:
                return packet
            assert packet.type == "alive", packet
