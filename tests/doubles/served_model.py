"""A served model and its clients in one thread, so that a test decides whose turn it is; no wait is endless."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Reply
from sheafedge.emulator.edge.manifest import InputSpec, Manifest
from sheafedge.emulator.edge.serving.server import Server
from sheafedge.emulator.edge.serving.serving_settings import ServingSettings

#: Far longer than anything takes here, on however busy a machine.
LIMIT_S = 120.0
ANYWHERE = "tcp://127.0.0.1:*"


@contextmanager
def served(path: Path, address: str = ANYWHERE, **options: Any) -> Iterator[Server]:
    """A server of a bundle; keywords of `ServingSettings` make its settings, others are the server's own."""
    own = ("keys", "reloader", "say", "warn", "tensors")
    server_options = {name: options.pop(name) for name in own if name in options}
    server = Server(load_bundle(path, trial=None), address, ServingSettings(**options), **server_options)
    try:
        yield server
    finally:
        server.close()


def replies(server: Server, client: FrameClient, n: int) -> list[Reply]:
    """The next n things that a client hears, while the server turns."""
    heard: list[Reply] = []
    limit_s = time.monotonic() + LIMIT_S
    while len(heard) < n:
        assert time.monotonic() < limit_s, f"{len(heard)} of {n} replies: {heard[-3:]}"
        server.turn(wait_s=0.005)
        while (reply := client.receive()) is not None:
            heard.append(reply)
    return heard


def turn_until_taken(server: Server, n_packets: int) -> None:
    """Turn until so many packets have come since the beginning."""
    limit_s = time.monotonic() + LIMIT_S
    while server.counts.total("packets") < n_packets:
        assert time.monotonic() < limit_s
        server.turn(wait_s=0.005)


def take_without_a_run(server: Server, n_packets: int) -> None:
    """As above, while the model has no turn: the device is busy."""
    limit_s = time.monotonic() + LIMIT_S
    while server.counts.total("packets") < n_packets:
        assert time.monotonic() < limit_s
        if server._arrived(0.1):
            server._take()


def raw_frames(manifest: Manifest, n: int, seed: int = 0) -> dict[Modality, NDArray[np.float32]]:
    """What sensors of a stream see at n instants: modality -> [n, *frame_shape]."""
    draws = np.random.default_rng(seed)
    return {one.modality: draws.normal(size=(n, *one.frame_shape)).astype(np.float32) for one in manifest.inputs}


def at(raw: Mapping[Modality, NDArray[Any]], index: int) -> dict[Modality, NDArray[Any]]:
    """Frames of one instant."""
    return {modality: frames[index] for modality, frames in raw.items()}


def plain_window(spec: InputSpec, frames: NDArray[np.float32], now: int) -> NDArray[np.float32]:
    """A training window by slicing, with nothing of the server's in it: [n, *frame_shape] -> spec.shape."""
    stop = now - spec.window.lag + 1
    window = frames[stop - spec.window.frames : stop]
    assert len(window) == spec.window.frames
    return window[0] if spec.window.axis is None else np.stack(list(window), axis=spec.window.axis)
