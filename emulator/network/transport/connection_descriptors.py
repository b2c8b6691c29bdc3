"""Connections of a ZeroMQ socket by their file descriptors, as its monitor tells them: counted bytes, and their end.

ZeroMQ owns the descriptors and may close one at any time, hence nothing here keeps one.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys

import zmq

#: Bytes of a connection that the kernel should hold at most (twice that, by its count), for ZMQ_RCVBUF: libzmq still
#: reads them all after the connection was shut down, and they become 32 times as many where all parts are empty.
KERNEL_BYTES = 1 << 18
#: tcpi_bytes_received of the kernel's struct tcp_info (linux/tcp.h), since Linux 4.1.
_BYTES_RECEIVED = struct.Struct("@Q"), 128


def open_monitor(
    context: zmq.Context[zmq.Socket[bytes]], monitored: zmq.Socket[bytes], events: int
) -> zmq.Socket[bytes]:
    """A socket that receives events of another one's connections, in the order in which they happened.

    Args:
        context: of both.
        monitored: the other socket, before it binds.
        events: sum of the `zmq.EVENT_*` to receive.
    """
    address = f"inproc://monitor-{id(monitored):x}"
    monitored.monitor(address, events)
    monitor = context.socket(zmq.PAIR)
    # Without a limit: libzmq's thread would wait for room, and hold up all connections.
    monitor.setsockopt(zmq.RCVHWM, 0)
    monitor.connect(address)
    return monitor


def descriptor_of(frame: zmq.Frame) -> int | None:
    """Descriptor of the connection that a frame came from, which may be closed by now.

    None: libzmq does not know, because the other end was gone before libzmq had looked who it was.
    """
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return None


def bytes_received(descriptor: int) -> int | None:
    """Bytes that have arrived on a connection; 0 where the system does not tell, None where it is closed."""
    if sys.platform != "linux":
        return 0
    layout, at = _BYTES_RECEIVED
    borrowed = _borrowed(descriptor)
    if borrowed is None:
        return None
    try:
        found = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, at + layout.size)
        return int(layout.unpack_from(found, at)[0]) if len(found) == at + layout.size else 0
    except OSError as error:
        return None if error.errno in {errno.EBADF, errno.ENOTSOCK} else 0  # 0: an ipc connection
    finally:
        borrowed.detach()


def shut_down(descriptor: int, *, at_once: bool = True) -> None:
    """End a connection of ZeroMQ, which then closes it as if the other end had hung up.

    Args:
        descriptor: its file descriptor.
        at_once: the kernel forgets what was to be sent; else it is still sent.
    """
    borrowed = _borrowed(descriptor)
    if borrowed is None:
        return
    try:
        if at_once:
            # A reset when ZeroMQ closes it: the other end would go on trying to send, where its window was full.
            borrowed.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        borrowed.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other end was faster
    finally:
        borrowed.detach()


def _borrowed(descriptor: int) -> socket.socket | None:
    """A connection of ZeroMQ as a socket of Python, to be detached after use; None: it is closed."""
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:
        return None
