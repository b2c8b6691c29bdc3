"""A real server of a bundle, in a thread of its own, for as long as a test needs it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.serving.server import Server
from sheafedge.emulator.edge.serving.serving_settings import ServingSettings
from sheafedge.emulator.network.transport.curve_keys import CurveKeys

LIMIT_S = 60.0


@contextmanager
def running_server(
    bundle: Path, settings: ServingSettings | None = None, keys: CurveKeys | None = None
) -> Iterator[str]:
    """Serve a bundle on a free port of this host; yields the address."""
    said: queue.Queue[str | BaseException] = queue.Queue()
    ends = threading.Event()

    def serve() -> None:
        try:
            server = Server(load_bundle(bundle, trial=None), "tcp://127.0.0.1:*", settings, keys=keys)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            said.put(error)
            return
        said.put(server.address)
        try:
            while not ends.is_set():
                server.turn(0.01)
            server.finish()
        finally:
            server.close()

    thread = threading.Thread(target=serve, name="server")
    thread.start()
    try:
        address = said.get(timeout=LIMIT_S)
        if isinstance(address, BaseException):
            raise address
        yield address
    finally:
        ends.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
