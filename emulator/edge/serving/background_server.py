"""`serve`: a server of a bundle in a thread of this process, for notebooks, tests and programs around it."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...network.transport.curve_keys import CurveKeys
from ..bundle import Bundle, load_bundle
from .server import Server
from .serving_settings import ServingSettings

#: Longest wait of a turn for packets, after which it is seen whether the server should stop.
_TURN_S = 0.05


class BackgroundServer:
    """A server in a thread of its own, from the moment it is made until `close`; also a context.

    Args:
        bundle: loaded and found whole.
        address: tcp://HOST:PORT, port * for a free one, or ipc://FILE.
        settings: bounds of streams, requests and times; None: the defaults.
        keys: keys of this end; needed beyond this host.

    Attributes:
        address: address with the port in use.
        bundle: what is served.

    Raises:
        ConfigError: no such address, one beyond this host and there are no keys, or a bundle that cannot be served.
        TransportError: the address is taken.
    """

    def __init__(
        self, bundle: Bundle, address: str, settings: ServingSettings | None = None, keys: CurveKeys | None = None
    ) -> None:
        self.bundle = bundle
        self._ends = threading.Event()
        self._made: queue.Queue[Server | Exception] = queue.Queue()
        # a daemon: a program that forgets to close it can still end
        self._thread = threading.Thread(
            target=self._serve, args=(address, settings, keys), name="sheafedge-serve", daemon=True
        )
        self._thread.start()
        made = self._made.get()
        if isinstance(made, Exception):
            self._thread.join()
            raise made
        self.address, self._counts = made.address, made.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"BackgroundServer({self.bundle.manifest.name} at {self.address})"

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted so far: frames, questions, answers, refusals."""
        return self._counts.report()

    def close(self) -> None:
        """Answer what has arrived, send farewells, free the socket; a second call does nothing."""
        self._ends.set()
        self._thread.join()

    def _serve(self, address: str, settings: ServingSettings | None, keys: CurveKeys | None) -> None:
        try:
            # here, because sockets belong to the thread that made them
            server = Server(self.bundle, address, settings, keys=keys)
        except Exception as error:  # noqa: BLE001 - raised again in the thread of the caller
            self._made.put(error)
            return
        self._made.put(server)
        try:
            while not self._ends.is_set():
                server.turn(_TURN_S)
            server.finish()
        finally:
            server.close()


def serve(
    bundle: Bundle | str | os.PathLike[str],
    address: str = "tcp://127.0.0.1:*",
    *,
    settings: ServingSettings | None = None,
    keys: CurveKeys | None = None,
    cuda: bool = False,
    threads: int = 1,
) -> BackgroundServer:
    """Serve a bundle in the background: receive sensor frames over ZeroMQ, and answer with predictions.

    Needs no more than an edge device has. The command `sheafedge serve` also watches for new bundles and has a page of
    metrics.

    Args:
        bundle: a loaded bundle, or the path of its folder or `.zip`.
        address: tcp://HOST:PORT, port * for a free one, or ipc://FILE.
        settings: bounds of streams, requests and times; None: the defaults.
        keys: keys of this end; needed beyond this host.
        cuda, threads: where a bundle given by path runs, as for `load_bundle`.

    Returns:
        The server, at work; leave its `with` block or call `close()` to stop it.

    Raises:
        BundleError: the bundle is damaged, or does not answer here as it should.
        ConfigError: no such address, or one beyond this host and there are no keys.
        TransportError: the address is taken.

    Examples:
        >>> from sheafedge import FrameClient, load_run, serve
        >>> (made,) = load_run("runs/digits").export([0])  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> with serve(made.folder) as server, FrameClient(server.address) as client:
        ...     sample = server.bundle.samples["table"][0]
        ...     client.send("somebody", 0, 0.0, {"table": sample})
        ...     answer = client.receive(timeout_s=60.0)
        >>> answer.label in server.bundle.manifest.output.labels
        True
    """
    loaded = bundle if isinstance(bundle, Bundle) else load_bundle(Path(bundle), cuda=cuda, threads=threads)
    return BackgroundServer(loaded, address, settings, keys)
