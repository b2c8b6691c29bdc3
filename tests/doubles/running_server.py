"""A real server of a bundle, in a thread of its own, for as long as a test needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.serving.background_server import serve
from sheafedge.emulator.edge.serving.serving_settings import ServingSettings
from sheafedge.emulator.network.transport.curve_keys import CurveKeys


@contextmanager
def running_server(
    bundle: Path, settings: ServingSettings | None = None, keys: CurveKeys | None = None
) -> Iterator[str]:
    """Serve a bundle on a free port of this host; yields the address."""
    with serve(load_bundle(bundle, trial=None), settings=settings, keys=keys) as server:
        yield server.address
