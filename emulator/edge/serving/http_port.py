"""A port for HTTP in threads of its own, beside the socket for sensors: metrics, and whole inputs of the model."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler

from ...contracts import ConfigError
from ...visited_server import VisitedServer


class HttpPort:
    """A small web server, from the moment it is made until `close`.

    Args:
        option: the option of the command line that names the address, for errors.
        address: HOST:PORT, or PORT on loopback; port 0 takes a free one.
        page: handler of requests.
        n_visitors: visitors at once.

    Attributes:
        address: HOST:PORT in use.

    Raises:
        ConfigError: it is no address, or taken.
    """

    def __init__(self, option: str, address: str, page: type[BaseHTTPRequestHandler], n_visitors: int) -> None:
        host, port = _split(option, address)
        try:
            self._server = VisitedServer((host, port), page, n_visitors)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{option} {address} cannot be used ({error}); give another HOST:PORT") from None
        self.address = _joined(*self._server.server_address[:2])
        # The interval bounds how long `close` waits.
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name=option.strip("-"), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _split(option: str, address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise ConfigError(f"{option} must be HOST:PORT, or PORT on this machine only, got {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _joined(host: object, port: object) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host!s}:{port}"
