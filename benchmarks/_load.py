"""A served bundle in a process of its own, and sensors that ask it at a steady rate whether it keeps up or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.bundle_files import SAMPLES_FILE
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer, Dropped, Healthy, Refused, Reply
from sheafedge.emulator.edge.golden_samples import INPUT_PREFIX
from sheafedge.emulator.edge.manifest import Manifest
from sheafedge.emulator.edge.manifest_reader import read_manifest

LIMIT_S = 60.0
_SERVE = "from sheafedge.scenarios.entry import main; main()"
Frames = dict[Modality, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class ServedProcess:
    """`sheafedge serve`, on one core where the system allows that."""

    pid: int
    address: str
    manifest: Manifest
    frames: Sequence[Frames]  # of instants that follow each other, to be sent in turn

    def cpu_s(self) -> float:
        """CPU time of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        """Memory that it holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def serving(bundle: Path, *options: str) -> Iterator[ServedProcess]:
    """Serve a bundle for as long as the block lasts."""
    command = [sys.executable, "-P", "-c", _SERVE, "serve", str(bundle), "--bind", "tcp://127.0.0.1:*", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        ExitStack() as stack,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process,  # noqa: S603
    ):
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            if not said:
                raise RuntimeError(f"{bundle} is not served")
            stack.enter_context(pinned(process.pid))
            manifest = read_manifest((bundle / "manifest.json").read_bytes())
            yield ServedProcess(process.pid, said.split(" at ")[1].split(";")[0], manifest, _frames(bundle, manifest))
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
    if process.returncode != 0:
        raise RuntimeError(f"sheafedge serve ended with {process.returncode}")


@contextmanager
def pinned(pid: int) -> Iterator[None]:
    """A process gets the last core, what asks it the others."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    *others, last = sorted(before)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {last})
    os.sched_setaffinity(0, set(others) or {last})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _frames(bundle: Path, manifest: Manifest) -> list[Frames]:
    """Frames of the bundle's first sample, in their order; they are sent again and again."""
    with np.load(bundle / SAMPLES_FILE, allow_pickle=False) as arrays:
        samples = {spec.modality: arrays[INPUT_PREFIX + spec.modality][0] for spec in manifest.inputs}
    return [
        {
            spec.modality: samples[spec.modality]
            if spec.window.axis is None
            else samples[spec.modality].take(instant % spec.window.frames, axis=spec.window.axis)
            for spec in manifest.inputs
        }
        for instant in range(max(spec.window.frames for spec in manifest.inputs))
    ]


@dataclass(slots=True)
class Heard:
    """What became of the questions.

    Attributes:
        n_sent: questions.
        latency_s: of every question that was answered, from the instant at which it should have been sent.
        n_dropped, n_refused: the others.
    """

    n_sent: int = 0
    latency_s: list[float] = field(default_factory=list)
    n_dropped: int = 0
    n_refused: int = 0

    @property
    def n_ended(self) -> int:
        """Questions that are settled."""
        return len(self.latency_s) + self.n_dropped + self.n_refused

    def quantile_ms(self, share: float) -> float:
        """Of the latency of all questions; one without an answer waits for ever."""
        waits = sorted(self.latency_s)
        place = int(np.ceil(share * self.n_sent)) - 1
        return 1000.0 * waits[place] if 0 <= place < len(waits) else float("inf")


class Sensors:
    """So many streams with one connection, which send whether answers come or not.

    Args:
        served: where to.
        n_streams: each with all sensors of the model.
    """

    def __init__(self, served: ServedProcess, n_streams: int) -> None:
        self._served, self._names = served, [f"bs{number:03d}" for number in range(n_streams)]
        self._client = FrameClient(served.address, timeout_s=LIMIT_S)
        self._instant = 0
        self._due_s: dict[tuple[str, int], float] = {}

    def fill_windows(self) -> None:
        """Send what is before the first question."""
        for _ in range(max(spec.window.frames + spec.window.lag for spec in self._served.manifest.inputs)):
            for name in self._names:
                self._send(name, ask=False)
            self._instant += 1
            # answered after all that went before: a connection with too much that is not taken yet is cut off
            self._client.ask_health()
            if self._client.receive(LIMIT_S) is None:
                raise RuntimeError(f"{self._served.address} did not take the frames before the first question")

    def ask(self, questions_per_s: float, seconds: float, watch: list[tuple[float, float]] | None = None) -> Heard:
        """Ask at this rate, streams one after the other, and wait until every question is settled.

        Args:
            watch: given (second, MiB of the server) about once a second, and in a short time ten times.
        """
        heard, begin_s, look_s = Heard(), time.perf_counter(), min(1.0, 0.1 * seconds)
        for number in range(max(1, round(questions_per_s * seconds))):
            due_s = begin_s + number / questions_per_s
            self._hear_until(due_s, heard)
            name = self._names[number % len(self._names)]
            self._due_s[name, self._instant] = due_s
            self._send(name, ask=True)
            heard.n_sent += 1
            if name == self._names[-1]:
                self._instant += 1
            if watch is not None and (not watch or due_s - begin_s - watch[-1][0] >= look_s):
                watch.append((due_s - begin_s, self._served.resident_mib()))
        self._instant += 1
        limit_s = time.perf_counter() + LIMIT_S
        while heard.n_ended < heard.n_sent and time.perf_counter() < limit_s:
            self._hear_until(time.perf_counter() + 0.05, heard)
        if heard.n_ended != heard.n_sent:
            raise RuntimeError(f"{heard.n_sent - heard.n_ended} questions were never settled")
        return heard

    def report(self) -> dict[str, object]:
        """What the server has counted; all must be settled."""
        self._client.ask_health()
        healthy = self._client.receive(LIMIT_S)
        assert isinstance(healthy, Healthy), healthy
        names = ("questions", "answers", "refused_questions", "dropped", "unsent", "streams_evicted", "streams")
        return {name: healthy.report[name] for name in names}

    def close(self) -> None:
        """Free the socket."""
        self._client.close()

    def _send(self, name: str, *, ask: bool) -> None:
        frames = self._served.frames[self._instant % len(self._served.frames)]
        self._client.send(name, self._instant, self._instant / 10, frames, ask=ask)

    def _hear_until(self, due_s: float, heard: Heard) -> None:
        while True:
            reply = self._client.receive(max(0.0, due_s - time.perf_counter()))
            if reply is not None:
                self._settle(reply, heard)
            elif time.perf_counter() >= due_s - 5e-4:  # ZeroMQ waits in milliseconds
                return

    def _settle(self, reply: Reply, heard: Heard) -> None:
        now_s = time.perf_counter()
        if isinstance(reply, Answer):
            heard.latency_s.append(now_s - self._due_s.pop((reply.stream, reply.index)))
        elif isinstance(reply, Dropped):
            del self._due_s[reply.stream, reply.index]
            heard.n_dropped += 1
        elif isinstance(reply, Refused):
            heard.n_refused += 1
