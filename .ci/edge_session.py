"""Serve a bundle on a device that has the edge set and nothing else, and hold its answers against the promised ones.

    python edge_session.py BUNDLE MODULE...      none of the modules may be importable here

Run by wheel_check.py in a clean environment; prints one sentence, or fails.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from sheafedge.emulator.edge.bundle import Bundle, load_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer

LIMIT_S = 60.0


def main() -> None:
    bundle = load_bundle(Path(sys.argv[1]))
    there = [name for name in sys.argv[2:] if importlib.util.find_spec(name)]
    assert not there, f"{', '.join(there)} can be imported, so this is no edge device"
    command = [Path(sys.executable).with_name("sheafedge"), "serve", sys.argv[1], "--bind", "tcp://127.0.0.1:*"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split(" at ")[1].split(";")[0]
            n_answers = compare(address, bundle)
        finally:
            server.send_signal(signal.SIGTERM)
            last_words = server.stdout.read().strip()
    assert server.returncode == 0, f"sheafedge serve ended with {server.returncode}"
    print(f"{n_answers} golden answers from a served bundle, without {', '.join(sys.argv[2:])}; {last_words}")


def compare(address: str, bundle: Bundle) -> int:
    """Send every golden sample frame by frame."""
    with np.load(bundle.path / "samples.npz", allow_pickle=False) as golden:
        arrays = dict(golden)
    manifest = bundle.manifest
    span = max(spec.window.frames + spec.window.lag for spec in manifest.inputs)
    with FrameClient(address, timeout_s=LIMIT_S) as client:
        for row, expected in enumerate(arrays["logits"]):
            for index in range(span):
                frames = {}
                for spec in manifest.inputs:
                    place = index - (span - spec.window.frames - spec.window.lag)
                    if 0 <= place < spec.window.frames:
                        sample = arrays[f"input_{spec.modality}"][row]
                        frames[spec.modality] = (
                            sample if spec.window.axis is None else sample.take(place, axis=spec.window.axis)
                        )
                if frames or index == span - 1:
                    client.send(f"row {row}", index, index / 10, frames, ask=index == span - 1)
            answer = client.receive(LIMIT_S)
            assert isinstance(answer, Answer), answer
            assert not answer.missing
            assert np.abs(np.array(answer.logits) - expected).max() <= manifest.golden.tolerance
            ahead = manifest.output.forecast
            assert tuple(answer.forecast) == (() if ahead is None else ahead.series)
        return len(arrays["logits"])


if __name__ == "__main__":
    main()
