"""A client that does nothing wrong, in a process of its own: what it gets is what attacks may not change.

Its frames are constant, so that the tiny bundle's answer is the mean of the last four constants, and a window that lost
or gained a frame shows. Reads no more than the edge set; run as a script by `AttackedServer`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer
from sheafedge.emulator.network.transport.curve_keys import read_keys

WINDOW, STREAM = 4, "honest"
PERIOD_S, LIMIT_S = 0.02, 30.0
#: Of a mean over some dozens of float32.
ROUNDING = 1e-4


def constant(index: int) -> float:
    """What all sensors see at an instant; the first twenty differ."""
    return float(np.sin(0.7 * index))


def ask(client: FrameClient, index: int) -> tuple[float, str]:
    """One question; the time that its answer took in s, and what was wrong with it, if anything."""
    lidar, rf = np.full((2, 6), constant(index), np.float32), np.full(8, constant(index), np.float32)
    begun_s = time.monotonic()
    client.send(STREAM, index, index / 10, {"lidar": lidar, "rf": rf})
    reply = client.receive(LIMIT_S)
    took_s = time.monotonic() - begun_s
    if index < WINDOW - 1:
        return took_s, ""
    if not isinstance(reply, Answer) or reply.index != index:
        return took_s, f"question {index} got {str(reply)[:200]}"
    expected = np.mean([constant(one) for one in range(index - WINDOW + 1, index + 1)])
    if reply.missing or reply.held or abs(reply.logits[0] - expected) > ROUNDING:
        return (
            took_s,
            f"question {index} got {reply.logits}, missing {reply.missing}, held {reply.held}: {expected:.4f}",
        )
    return took_s, ""


def main(address: str, keys_folder: str) -> None:
    """Ask until standard input ends, then print what came of it."""
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    times_s, wrong = [], []
    keys = read_keys(Path(keys_folder), "worker") if keys_folder else None
    with FrameClient(address, keys=keys) as client:
        while not ends.wait(PERIOD_S) and not wrong:
            took_s, sentence = ask(client, len(times_s))
            times_s.append(took_s)
            if sentence:
                wrong.append(sentence)
            if len(times_s) == WINDOW:
                sys.stdout.write("served\n")
                sys.stdout.flush()
    p50, p99 = np.percentile(times_s, (50, 99))
    found = {"asked": len(times_s), "p50_ms": 1000 * p50, "p99_ms": 1000 * p99, "longest_ms": 1000 * max(times_s)}
    sys.stdout.write(json.dumps({**found, "wrong": wrong}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
