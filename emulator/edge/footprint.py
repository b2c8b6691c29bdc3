"""Memory and start time of a model, measured in a process of its own, where nothing else has filled the memory.

`python -m sheafedge.emulator.edge.footprint MODEL SAMPLES THREADS CUDA` prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ..contracts import SheafedgeError

_LONGEST_S = 120.0


class FootprintError(SheafedgeError, RuntimeError):
    """The process that was to load a model ended without saying what it found."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Cost of a model that is loaded once.

    Attributes:
        start_s: time from the file's content to a session that can answer.
        first_answer_s: time of the first batch, which includes what the runtime puts off.
        load_bytes: growth of resident memory by the session and its first answer; None where it is unknown.
        peak_bytes: largest resident memory of the whole process, interpreter and libraries included.
    """

    start_s: float
    first_answer_s: float
    load_bytes: int | None
    peak_bytes: int | None


def footprint_of(
    model: bytes, inputs: dict[str, NDArray[np.float32]], *, threads: int = 1, cuda: bool = False
) -> Footprint:
    """Load a model in a new process and run it once.

    Args:
        model: content of the ONNX file.
        inputs: one batch.

    Raises:
        FootprintError: the process failed or took too long.
    """
    with TemporaryDirectory() as folder:
        place, samples = Path(folder) / "model.onnx", Path(folder) / "batch.npz"
        # As files, so that the new process holds nothing else of this one.
        place.write_bytes(model)
        np.savez(samples, allow_pickle=False, **inputs)
        # -P: a file of the current folder, which may be a stranger's bundle, must not stand in for a module.
        command = [sys.executable, "-P", "-m", __name__, str(place), str(samples), str(threads), str(int(cuda))]
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                command, capture_output=True, text=True, timeout=_LONGEST_S, check=False
            )
            # The last line, since libraries may print before it.
            return Footprint(**json.loads(done.stdout.splitlines()[-1]))
        except (OSError, ValueError, TypeError, IndexError, subprocess.TimeoutExpired) as error:
            raise FootprintError(
                f"memory cannot be measured: a process that loads the model ended without an answer ({error}); try"
                " --no-memory"
            ) from None


def resident_bytes() -> int | None:
    """Resident memory of this process now; None where the system does not report it."""
    return _status_bytes("VmRSS:")


def peak_bytes() -> int | None:
    """Largest resident memory of this process so far, in bytes.

    Not of `getrusage`, whose maximum survives exec and would be that of the process that started this one.
    """
    return _status_bytes("VmHWM:")


def virtual_bytes() -> int | None:
    """Address space of this process now; None where the system does not report it."""
    return _status_bytes("VmSize:")


def _status_bytes(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    # /proc states kB of 1024 bytes.
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)


def _main(model: str, samples: str, threads: str, cuda: str) -> None:
    from .onnx_session import OnnxSession  # noqa: PLC0415 - what it imports is there before anything is measured

    with np.load(samples, allow_pickle=False) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    content = Path(model).read_bytes()
    before = resident_bytes()  # after all imports, so that only the model counts
    started_s = time.perf_counter()
    session = OnnxSession(content, cuda=bool(int(cuda)), threads=int(threads))
    ready_s = time.perf_counter()
    session.run(inputs)
    answered_s, after = time.perf_counter(), resident_bytes()
    found = Footprint(
        start_s=ready_s - started_s,
        first_answer_s=answered_s - ready_s,
        load_bytes=None if before is None or after is None else after - before,
        peak_bytes=peak_bytes(),
    )
    sys.stdout.write(json.dumps({field: getattr(found, field) for field in Footprint.__slots__}) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
