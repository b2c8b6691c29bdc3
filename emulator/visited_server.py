"""A small HTTP server in threads, whose visitors are bounded: whoever is slow, hangs or floods keeps nobody out."""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer, ThreadingMixIn
from typing import Any


class VisitedServer(ThreadingMixIn, HTTPServer):
    """HTTP server with a thread per visitor. Where all places are taken the longest visit ends.

    Args:
        address: host and port to listen at; port 0 takes a free one.
        page: handler of requests; its `timeout` bounds how long a visitor may be silent.
        n_places: number of visitors at once.
        listening: socket that listens already; None: one is opened at the address.

    Raises:
        OSError, OverflowError: the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        page: type[BaseHTTPRequestHandler],
        n_places: int,
        listening: socket.socket | None = None,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._n_places = n_places
        self._visits: OrderedDict[socket.socket, None] = OrderedDict()  # the longest first
        self._lock = threading.Lock()
        super().__init__(address, page, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
            self.server_address = listening.getsockname()

    def server_bind(self) -> None:
        """Without looking up the host's full name, for which a device without a network would wait."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread; who has been here the longest goes where there is no place left."""
        with self._lock:
            self._visits[request] = None
            if len(self._visits) > self._n_places:
                _hang_up(self._visits.popitem(last=False)[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The visit ends."""
        with self._lock:  # no descriptor may be closed, and given to another, between the choice of a visit and its end
            self._visits.pop(request, None)
            super().shutdown_request(request)

    def server_close(self) -> None:
        """Also all visits."""
        super().server_close()
        with self._lock:
            for visit in self._visits:
                _hang_up(visit)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: clients may break off."""


def _hang_up(visit: socket.socket) -> None:
    with suppress(OSError):  # the visitor may have been faster
        visit.shutdown(socket.SHUT_RDWR)
