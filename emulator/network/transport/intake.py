"""Receiving side of a socket: takes well-formed messages, counts and drops everything else, and gives up in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import zmq

from .errors import TransportError, WireError

_Taken = TypeVar("_Taken")
_SHOWN_LENGTH = 300  # of a refusal, which may quote what an unknown process sent


class Intake:
    """Receiving side of a socket that any process may send frames to.

    Args:
        socket: socket whose receives give up after `timeout_s`.
        n_of_sender: number of frames that the socket itself puts before each message, such as the name of its sender.
        silence: begins the sentence about a wait in vain, such as "worker got nothing from the hub".
        timeout_s: longest wait for a message that can be taken; with frames that cannot, at most twice that.

    Attributes:
        n_refused: messages that were dropped.
        last_refusal: why the latest of them was; empty when none was.
    """

    def __init__(self, socket: zmq.Socket[bytes], n_of_sender: int, silence: str, timeout_s: float) -> None:
        self._socket, self._n_of_sender = socket, n_of_sender
        self._silence, self._timeout_s = silence, timeout_s
        self.n_refused = 0
        self.last_refusal = ""

    def next(self, n_frames: int, take: Callable[[list[zmq.Frame]], _Taken]) -> _Taken:
        """The first of the coming messages that `take` does not refuse.

        Args:
            n_frames: number of frames that the message was sent as.
            take: function of these frames, behind those of the socket; refuses them with a `WireError`.

        Raises:
            TransportError: none came in time, or the socket is gone.
        """
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                frames = self._received(n_frames)
            except zmq.Again:
                raise self._timeout_error() from None
            except zmq.ZMQError as error:
                raise TransportError(f"{self._silence}: its socket is gone ({error})") from None
            try:
                return take(frames)
            except WireError as refusal:
                self._refuse(str(refusal))
            # Checked only after a refusal: a flood of bad messages would otherwise renew the socket's own limit for
            # ever.
            if time.monotonic() > deadline_s:
                raise self._timeout_error()

    def _received(self, n_sent: int) -> list[zmq.Frame]:
        """Frames of the next message that has as many as it should."""
        n_wanted = self._n_of_sender + n_sent
        while True:
            frames = [self._socket.recv(copy=False)]
            n_found = 1
            while frames[-1].more:
                frame = self._socket.recv(copy=False)
                n_found += 1
                if n_found <= n_wanted:
                    frames.append(frame)
                else:
                    frames = [frame]  # a million of them are not kept
            if n_found == n_wanted:
                return frames
            self._refuse(f"{n_sent} frames were to come, got {n_found - self._n_of_sender}")

    def _refuse(self, reason: str) -> None:
        self.n_refused += 1
        self.last_refusal = reason[:_SHOWN_LENGTH]

    def _timeout_error(self) -> TransportError:
        refused = f"; {self.n_refused} refused, last: {self.last_refusal}" if self.n_refused else ""
        return TransportError(f"{self._silence} within {self._timeout_s} s{refused}")
