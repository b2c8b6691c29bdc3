"""The one connection of a socket that needs no other: whoever else connects is hung up on at once."""

from __future__ import annotations

import threading

import zmq
from zmq.utils.monitor import recv_monitor_message

from .connection_descriptors import open_monitor, shut_down


class SingleConnection:
    """Closes all connections of a socket but one; else ZeroMQ would keep what the others send, without a limit.

    A thread waits for new connections, because the thread of the socket may compute for long.

    Args:
        context: of the socket.
        socket: the socket, before it binds.

    Attributes:
        n_closed: connections of others that were closed.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED
        self._monitor = open_monitor(context, socket, events)
        self._thread: threading.Thread | None = None
        self.n_closed = 0

    def keep(self, frame: zmq.Frame) -> None:
        """Close all connections but the one that a frame came from, from now on and those that exist."""
        self._thread = threading.Thread(
            target=self._close_others, args=(int(frame.get(zmq.SRCFD)),), name="single connection", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Free the monitor and end the thread; the socket must still be open."""
        self._socket.disable_monitor()
        if self._thread is not None:
            self._thread.join()
        self._monitor.close()

    def _close_others(self, kept: int) -> None:
        while True:
            event = recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_MONITOR_STOPPED:
                return
            descriptor = int(event["value"])
            if event["event"] == zmq.EVENT_ACCEPTED and descriptor != kept:
                self.n_closed += 1  # first, or the other end may learn of it before it is counted
                shut_down(descriptor, at_once=True)
            elif event["event"] == zmq.EVENT_DISCONNECTED and descriptor == kept:
                kept = -1  # whoever gets this descriptor next is another one
