"""Clients that send valid frames, read nothing, and are killed; a script, because it forks before any thread exists."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import zmq
from sheafedge.emulator.edge.frame_packets import TO_SERVER, pack_frames
from sheafedge.emulator.network.transport.curve_keys import read_keys, use_keys
from sheafedge.emulator.network.transport.packets import pack_packet


def send_and_wait(address: str, keys_folder: str, name: str, n_frames: int, beat_ms: int, says: int) -> None:
    """The life of one client, which writes a byte when it has sent all its frames; never returns."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        if beat_ms:
            dealer.setsockopt(zmq.HEARTBEAT_IVL, beat_ms)
        if keys_folder:
            use_keys(dealer, read_keys(Path(keys_folder), "worker"), "worker")
        dealer.connect(address)
        frames = {"lidar": np.ones((2, 6), np.float32), "rf": np.ones(8, np.float32)}
        for index in range(n_frames):
            dealer.send_multipart(pack_packet(pack_frames(name, index, index / 10, frames), TO_SERVER))
        os.write(says, b"x")
        time.sleep(3600.0)


def main(address: str, keys_folder: str, n_clients: int, n_frames: int, beat_ms: int, lives_s: float) -> None:
    """Start all, and kill all `lives_s` after the last has sent its frames; some of them are on their way then."""
    clients: list[int] = []
    hears, says = os.pipe()
    for number in range(n_clients):
        process = os.fork()
        if process == 0:
            send_and_wait(address, keys_folder, f"dying {number}", n_frames, beat_ms, says)
        clients.append(process)
    for _ in range(n_clients):
        os.read(hears, 1)
    time.sleep(lives_s)
    for process in clients:
        os.kill(process, signal.SIGKILL)
    for process in clients:
        os.waitpid(process, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), float(sys.argv[6]))
