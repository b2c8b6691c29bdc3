"""Somebody between the hub and its worker: passes on what both say, and adds what they did not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import zmq

#: Longest wait of the meddler for anything; it only ends a test that has failed already.
PATIENCE_MS = 20_000


class Meddler:
    """A proxy that throws frames in both directions, before and after every real envelope.

    To the hub it is the worker, under its name; to the worker it is the hub.

    Args:
        context: of the transport.
        hub_address: where the real hub listens.
        identity: of the worker.
        bad_frames: makes something bad of the frames of an envelope.
        n_each: thrown per real envelope that goes to the hub, and to the worker.

    Attributes:
        address: where the worker has to connect.
        n_thrown: at the hub and at the worker, so far.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        hub_address: str,
        identity: bytes,
        bad_frames: Callable[[Sequence[bytes]], Sequence[bytes]],
        n_each: Mapping[str, int],
    ) -> None:
        self._bad_frames, self._n_each = bad_frames, n_each
        self.n_thrown = {"hub": 0, "worker": 0}
        self._to_worker = self._opened(context, zmq.ROUTER)
        self._to_worker.bind(f"inproc://meddler-{id(self):x}")
        self.address = f"inproc://meddler-{id(self):x}"
        self._to_hub = self._opened(context, zmq.DEALER)
        self._to_hub.setsockopt(zmq.IDENTITY, identity)
        self._to_hub.connect(hub_address)
        self._identity = identity
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._meddle, name="meddler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and free the sockets."""
        self._stop.set()
        self._thread.join(PATIENCE_MS / 1000)

    def _opened(self, context: zmq.Context[Any], kind: int) -> zmq.Socket[Any]:
        socket = context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)  # never blocks: else either end could wait for what it holds back
        return socket

    def _meddle(self) -> None:
        poller = zmq.Poller()
        poller.register(self._to_worker, zmq.POLLIN)
        poller.register(self._to_hub, zmq.POLLIN)
        try:
            while not self._stop.is_set():
                for socket, _ in poller.poll(50):
                    if socket is self._to_worker:
                        _, *frames = self._to_worker.recv_multipart()
                        self._pass_on("hub", self._to_hub, [], frames)
                    else:
                        self._pass_on("worker", self._to_worker, [self._identity], self._to_hub.recv_multipart())
        finally:
            self._to_worker.close()
            self._to_hub.close()

    def _pass_on(self, end: str, socket: zmq.Socket[Any], first: list[bytes], frames: Sequence[bytes]) -> None:
        if not frames[0]:  # the worker's greeting, which is there before anybody could meddle
            socket.send_multipart([*first, *frames])
            return
        # Most of them before, where the other end is waiting; what comes behind piles up until it waits again.
        self._throw(end, socket, first, frames, self._n_each[end] - 1)
        socket.send_multipart([*first, *frames])
        self._throw(end, socket, first, frames, 1)

    def _throw(self, end: str, socket: zmq.Socket[Any], first: list[bytes], frames: Sequence[bytes], n: int) -> None:
        for _ in range(n):
            socket.send_multipart([*first, *self._bad_frames(frames)])
            self.n_thrown[end] += 1
