"""The HTTP server of a live page: one page, on loopback, for a bounded number of visitors."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from ...emulator.contracts import ConfigError
from ...emulator.visited_server import VisitedServer
from .drawings import Drawings

LOOPBACK = "127.0.0.1"
#: Visitors at once, a thread each.
MOST_VISITORS = 32
#: Longest silence of a visitor, and longest wait for a reader that takes nothing, in s.
SILENCE_S = 2.0
#: Longest wait for a newer drawing in s; who has waited in vain asks again.
PATIENCE_S = 10.0
#: The same for the first drawing, before which there is nothing to look at.
FIRST_PATIENCE_S = 60.0
#: Names of this host in the `Host` of a request. A page of elsewhere whose name is made to lead here has another.
_HOSTS = frozenset({LOOPBACK, "localhost"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


def open_port(port: int) -> socket.socket:
    """Socket that listens on loopback.

    Args:
        port: its port; 0: any that is free.

    Raises:
        ConfigError: the port cannot be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(MOST_VISITORS)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"--live-port {port} cannot be used ({reason}); give another between 1024 and 65535, or 0 for a free one"
        ) from None
    return listening


class PageServer:
    """Serves drawings in threads, from the start until `close`.

    Args:
        listening: socket from `open_port`.
        drawings: what is served.
    """

    def __init__(self, listening: socket.socket, drawings: Drawings) -> None:
        class Page(BaseHTTPRequestHandler):
            timeout = SILENCE_S
            server_version, sys_version = "sheafedge", ""

            def do_GET(self) -> None:
                with drawings.visit():
                    self._answer()

            def _answer(self) -> None:
                where = urlsplit(self.path)
                if self.headers.get("Host", "").partition(":")[0].lower() not in _HOSTS:
                    self._say(403, b"this page is for browsers on this host: open it at its address on 127.0.0.1\n")
                elif where.path != "/":
                    self._say(404, b"see /\n")
                else:
                    after = parse_qs(where.query).get("after", [""])[0]
                    version = int(after) if after.isascii() and after.isdecimal() and len(after) < 10 else None
                    drawing = drawings.newer(version, PATIENCE_S if version is not None else FIRST_PATIENCE_S)
                    if drawing is not None:
                        self._say(200, drawing.page)
                    elif version is not None:
                        self._say(204, b"")
                    else:
                        self._say(503, b"not drawn yet: try again\n")

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                for name, value in _HEADERS.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named there
                """Log nothing: the page is asked for all the time."""

        self._server = VisitedServer((LOOPBACK, 0), Page, MOST_VISITORS, listening)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="live page", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Free the port, and end all visits."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
