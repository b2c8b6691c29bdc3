"""`/metrics` for Prometheus and `/healthz` for supervisors that restart what hangs, over plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer

from ...contracts import ConfigError
from .counts import Counts

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: One visitor at a time, so that visitors cannot fill the memory; none may stay for longer.
_VISIT_S = 2.0


class MetricsPage:
    """A small web server in a thread of its own.

    Args:
        address: HOST:PORT, or PORT on loopback; port 0 takes a free one.
        counts: to show.
        is_alive: whether the server still turns.

    Attributes:
        address: HOST:PORT in use.

    Raises:
        ConfigError: it is no address, or taken.
    """

    def __init__(self, address: str, counts: Counts, is_alive: Callable[[], bool]) -> None:
        host, port = _split(address)

        class Page(BaseHTTPRequestHandler):
            timeout = _VISIT_S

            def do_GET(self) -> None:
                status, text = _answer(self.path, counts, is_alive)
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named there
                """Say nothing: the page is read every few seconds."""

        try:
            self._server = _QuietServer((host, port), Page)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"--metrics {address} cannot be used ({error}); give another HOST:PORT") from None
        self.address = f"{self._server.server_address[0]!s}:{self._server.server_address[1]}"
        # The interval bounds how long `close` waits.
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _answer(path: str, counts: Counts, is_alive: Callable[[], bool]) -> tuple[int, str]:
    where = path.partition("?")[0]
    if where == "/metrics":
        return 200, counts.page()
    if where == "/healthz":
        # 503 makes supervisors restart the process; the page's own thread still answers when the server hangs.
        return (200, "ok\n") if is_alive() else (503, "the server does not turn\n")
    return 404, "see /metrics and /healthz\n"


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise ConfigError(f"--metrics must be HOST:PORT, or PORT on this machine only, got {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


class _QuietServer(HTTPServer):
    def server_bind(self) -> None:
        """Without looking up the host's full name, for which a device without a network would wait."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: visitors may break off."""
