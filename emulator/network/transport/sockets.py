"""Options of the ZeroMQ sockets of transports: no endless wait, no endless queue, nothing left when closed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import zmq

from .errors import TransportError

if sys.platform != "win32":
    import resource

_QUEUED_MESSAGES = 1000  # bound on what waits in a socket
#: Below this pyzmq copies what it sends. Handing the memory over costs a bookkeeping thread about 15 us a frame,
#: more than copying 160 KB (measured 17 against 30 us); far larger frames are better not copied.
COPY_BELOW_BYTES = 1 << 20
_MORE = int(zmq.SNDMORE)  # a plain number: pyzmq's own flags are enumerations, and putting two together costs 1 us
#: Open files of a process that are no connections: torch, data, logs, ZeroMQ's own.
_OTHER_FILES = 256


def allow_connections(n_connections: int) -> None:
    """Let this process keep so many connections to other processes open; the usual limit of files is 1024.

    Only this process's own limit is raised, and only as far as the system lets it.

    Raises:
        TransportError: the system allows fewer.
    """
    if sys.platform == "win32":  # has no such limit
        return
    wanted = n_connections + _OTHER_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return
    if most != resource.RLIM_INFINITY and most < wanted:
        raise TransportError(
            f"{n_connections} connections need {wanted} open files, the system allows this process {most}; raise its"
            f" limit (ulimit -Hn {wanted}), or let fewer workers connect"
        )
    # The soft limit only; raising the hard one needs privileges.
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def open_socket(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, timeout_s: float, max_frame_bytes: int
) -> zmq.Socket[bytes]:
    """A socket whose sends and receives give up after `timeout_s` with `zmq.Again`.

    Args:
        max_frame_bytes: longest frame; ZeroMQ closes the connection of a sender that announces a longer one.
    """
    socket = context.socket(kind)
    wait_ms = max(1, round(1000 * timeout_s))
    for option, value in (
        (zmq.RCVTIMEO, wait_ms),
        (zmq.SNDTIMEO, wait_ms),
        (zmq.SNDHWM, _QUEUED_MESSAGES),
        (zmq.RCVHWM, _QUEUED_MESSAGES),
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, max_frame_bytes),
    ):
        socket.setsockopt(option, value)
    socket.copy_threshold = COPY_BELOW_BYTES
    return socket


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[Any]) -> None:
    """Send one message of these frames; `send_multipart` takes twice as long.

    Raises:
        zmq.ZMQError: the other end is gone, or takes nothing in time.
    """
    for frame in frames[:-1]:
        socket.send(frame, _MORE, copy=False)
    socket.send(frames[-1], copy=False)
