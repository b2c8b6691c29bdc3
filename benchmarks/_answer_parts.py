"""What the parts of one served answer cost the processor: the server's own functions, called one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sheafedge.benchmarks._load import Frames
from sheafedge.benchmarks._repeats import spread
from sheafedge.emulator.edge.bundle import Bundle
from sheafedge.emulator.edge.drift_watch import DriftWatch
from sheafedge.emulator.edge.frame_packets import TO_CLIENT, TO_SERVER, pack_frames, unpack_frames
from sheafedge.emulator.edge.input_summaries import input_summaries
from sheafedge.emulator.edge.serving.stream_windows import StreamWindows
from sheafedge.emulator.network.transport.packets import Packet, pack_packet, unpack_packet

HOLD = 2


def parts_us(bundle: Bundle, frames: Sequence[Frames], answer: Packet, calls: int, repeats: int) -> dict[str, Any]:
    """Part of an answer -> µs of this thread per call: median, smallest and largest of repeats that take turns.

    Args:
        bundle: bundle that is served.
        frames: frames of instants that follow one another.
        answer: an answer that the server gave.
        calls: calls of a repeat.
        repeats: after one that is thrown away.
    """
    parts = _parts(bundle, frames, answer)
    found: dict[str, list[float]] = {name: [] for name in parts}
    for repeat in range(-1, repeats):
        for name, part in parts.items():
            begun_s = time.thread_time()
            for _ in range(calls):
                part()
            if repeat >= 0:
                found[name].append(1e6 * (time.thread_time() - begun_s) / calls)
    return {name: spread(values) for name, values in found.items()}


def _parts(bundle: Bundle, frames: Sequence[Frames], answer: Packet) -> dict[str, Callable[[], object]]:
    manifest = bundle.manifest
    packed = pack_packet(pack_frames("bs00", 0, 0.0, frames[0]), TO_SERVER)
    packet = unpack_packet(packed, TO_SERVER)
    windows = StreamWindows(manifest.inputs, HOLD)
    for index, one in enumerate(frames):
        windows.put(index, index / 10, one)
    newest = [len(frames) - 1]

    def put() -> None:
        newest[0] += 1
        windows.put(newest[0], newest[0] / 10, frames[newest[0] % len(frames)])

    inputs = {str(name): rows[:1] for name, rows in bundle.samples.items()}
    parts: dict[str, Callable[[], object]] = {
        "header and checksum": lambda: unpack_packet(packed, TO_SERVER),
        "frames": lambda: unpack_frames(packet),
        "into windows": put,
        "sample": lambda: windows.sample(newest[0], newest[0] / 10),
        "model": lambda: bundle.session.answer(inputs),
        "answer": lambda: pack_packet(answer, TO_CLIENT),
    }
    if manifest.drift is None:
        return parts
    watch, seen = DriftWatch(manifest.drift, manifest.inputs, 1), [0]
    figures = {spec.modality: input_summaries(inputs[spec.modality], spec)[0] for spec in manifest.inputs}

    def judge() -> None:
        seen[0] += 1
        watch.judge("bs00", seen[0], figures, 0)

    for spec in manifest.inputs:
        values = np.ascontiguousarray(inputs[spec.modality])
        parts[f"figures of {spec.modality}"] = lambda spec=spec, values=values: input_summaries(values, spec)  # type: ignore[misc]
    return parts | {"comparison with training": judge}
