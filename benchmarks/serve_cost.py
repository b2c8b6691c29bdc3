"""What a served answer costs over a bare loop of ZeroMQ and onnxruntime: prints JSON.

    python benchmarks/serve_cost.py [--bundle DIR/a] [--questions 1000] [--repeats 7]

Without --bundle it runs `blockage` for two rounds and exports its first client. Both get the same packets of one
client, which waits for each answer before it sends the next frames, and run the same model with one thread on one
core, the client on the others. The bare loop receives, unpacks, shifts a window in place, runs, packs a label with
its probability and sends. It checks nothing, counts nothing, holds no lost frames and knows one stream; `sheafedge
serve` does all of what docs/serving.md promises. They take turns. CPU time is that of all threads of the process that
answers, round trips are those of the client, who computes the same in both. `parts_us` has the parts of an answer,
called one by one in this process, with the caches to themselves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import onnxruntime
import zmq
from sheafedge.benchmarks._answer_parts import parts_us
from sheafedge.benchmarks._load import LIMIT_S, ServedProcess, pinned, serving
from sheafedge.benchmarks._repeats import spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.benchmarks.serve import exported
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.frame_packets import TO_CLIENT, TO_SERVER, pack_frames
from sheafedge.emulator.edge.label_probabilities import decided_labels, label_probabilities
from sheafedge.emulator.edge.manifest_reader import read_manifest
from sheafedge.emulator.network.transport.packets import Packet, pack_packet, unpack_packet


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="folder of a bundle")
    parser.add_argument("--questions", type=int, default=1000, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--calls", type=int, default=500, help="of every part, in a repeat")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)  # the process of the bare loop
    chosen = parser.parse_args(arguments)
    if chosen.bare:
        answer_barely(chosen.bundle)
        return
    machine = machine_facts()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="serve-cost-")))
        bundle = chosen.bundle or exported(folder)[0]
        served = stack.enter_context(serving(bundle))
        bare = stack.enter_context(bare_loop(bundle, served))
        figures = compared({"bare": bare, "served": served}, chosen.questions, chosen.repeats)
        given = one_answer(served)
        parts = parts_us(load_bundle(bundle), served.frames, given, chosen.calls, chosen.repeats)
        figures = {**figures, "calls": chosen.calls, "parts_us": parts}
    print_report("serve_cost", machine, {"bundle": bundle.name, "questions": chosen.questions, **figures})


@contextmanager
def bare_loop(bundle: Path, served: ServedProcess) -> Iterator[ServedProcess]:
    """The bare loop in a process of its own, on the core of the server."""
    command = [sys.executable, "-P", __file__, "--bundle", str(bundle), "--bare"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            with pinned(process.pid):
                yield ServedProcess(process.pid, address, served.manifest, served.frames)
        finally:
            process.kill()


def answer_barely(bundle: Path) -> None:
    """Answer for ever: receive, unpack, run, pack, send."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(bundle / "model.onnx", options, providers=["CPUExecutionProvider"])
    manifest = read_manifest((bundle / "manifest.json").read_bytes())
    inputs = {str(spec.modality): np.zeros((1, *spec.shape), np.float32) for spec in manifest.inputs}
    # [frames, ...]: views of the inputs along the axis of their frames
    windows = {
        str(spec.modality): None
        if spec.window.axis is None
        else np.moveaxis(inputs[spec.modality][0], spec.window.axis, 0)
        for spec in manifest.inputs
    }
    if len(inputs) > 1:
        inputs["present"] = np.ones((1, len(windows)), np.float32)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind("tcp://127.0.0.1:*")
        print(socket.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)
        while True:
            client, header, *raw = socket.recv_multipart()
            fields = msgpack.unpackb(header)
            for reading, numbers in zip(fields["readings"], raw, strict=True):
                frame = np.frombuffer(numbers, reading["dtype"]).reshape(reading["shape"])
                window = windows[reading["modality"]]
                if window is None:
                    inputs[reading["modality"]][0] = frame
                else:
                    window[:-1] = window[1:]
                    window[-1] = frame
            if not fields["ask"]:
                continue
            logits = session.run(None, inputs)[0]
            label = int(decided_labels(logits, manifest.output)[0])
            probabilities = label_probabilities(logits, manifest.output)[0].tolist()
            answer = {"type": "answer", "index": fields["index"], "label": manifest.output.labels[label]}
            socket.send_multipart([client, msgpack.packb(answer | {"probability": probabilities[label]})])


def compared(arms: dict[str, ServedProcess], n_questions: int, repeats: int) -> dict[str, Any]:
    """Both again and again in turns, after a repeat that is thrown away."""
    round_trip_ms: dict[str, list[float]] = {name: [] for name in arms}
    cpu_ms: dict[str, list[float]] = {name: [] for name in arms}
    with zmq.Context() as context, ExitStack() as stack:
        sockets = {name: stack.enter_context(context.socket(zmq.DEALER)) for name in arms}
        for name, arm in arms.items():
            sockets[name].setsockopt(zmq.LINGER, 0)
            sockets[name].connect(arm.address)
        for repeat in range(-1, repeats):
            for name, arm in arms.items():
                before_s = busy_s(arm.pid)
                ms = asked(sockets[name], arm, (repeat + 1) * n_questions, n_questions)
                if repeat >= 0:
                    round_trip_ms[name].append(ms)
                    cpu_ms[name].append(1000.0 * (busy_s(arm.pid) - before_s) / n_questions)
                    say(f"repeat {repeat + 1}/{repeats}: {name} {ms:.3f} ms, {cpu_ms[name][-1]:.3f} ms CPU")
    figures = {"round_trip_ms": round_trip_ms, "cpu_ms_per_answer": cpu_ms}
    ratios = {
        f"{kind}_ratio": spread([mine / theirs for mine, theirs in zip(of["served"], of["bare"], strict=True)])
        for kind, of in (("round_trip", round_trip_ms), ("cpu", cpu_ms))
    }
    return ratios | {kind: {name: spread(values) for name, values in of.items()} for kind, of in figures.items()}


def one_answer(arm: ServedProcess) -> Packet:
    """An answer of the server."""
    n_frames = max(spec.window.frames + spec.window.lag for spec in arm.manifest.inputs)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(arm.address)
        for index in range(n_frames):
            frames = arm.frames[index % len(arm.frames)]
            asks = index == n_frames - 1
            socket.send_multipart(pack_packet(pack_frames("parts", index, index / 10, frames, ask=asks), TO_SERVER))
        if not socket.poll(round(1000 * LIMIT_S)):
            raise RuntimeError(f"{arm.address} gave no answer")
        return unpack_packet(socket.recv_multipart(), TO_CLIENT)


def busy_s(pid: int) -> float:
    """CPU time of all threads of a process; `/proc/PID/stat` counts hundredths of a second only."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def asked(socket: zmq.Socket[bytes], arm: ServedProcess, first: int, n_questions: int) -> float:
    """Median round trip of so many questions, one after the other, in ms."""
    trips_ms = []
    n_frames = max(spec.window.frames + spec.window.lag for spec in arm.manifest.inputs)
    for index in range(first, first + n_questions):
        frames = arm.frames[index % len(arm.frames)]
        parts = pack_packet(pack_frames("bs00", index, index / 10, frames, ask=index >= n_frames), TO_SERVER)
        begun_s = time.perf_counter()
        socket.send_multipart(parts)
        if index < n_frames:
            continue
        if not socket.poll(round(1000 * LIMIT_S)):
            raise RuntimeError(f"{arm.address} gave no answer")
        reply = msgpack.unpackb(socket.recv())
        trips_ms.append(1000.0 * (time.perf_counter() - begun_s))
        if reply["type"] != "answer":
            raise RuntimeError(f"{arm.address} said {reply}")
    return statistics.median(trips_ms)


if __name__ == "__main__":
    main()
