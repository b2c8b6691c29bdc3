"""`sheafedge serve` in a process of its own, as on a device, with an honest client beside whoever attacks it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attacks.conftest import Tally
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Healthy
from sheafedge.emulator.network.transport.curve_keys import CurveKeys, read_keys

LIMIT_S = 60.0
_ASK_AGAIN_S = 5.0
HERE = Path(__file__).resolve().parent
_SERVE = "import sys; from sheafedge.emulator.edge.commands.device_commands import main; main(sys.argv[1:], 'test')"
#: What docs/security.md promises: memory beyond that before the attack, in MB.
MOST_GROWTH_MB = 700.0


class AttackedServer:
    """A running server.

    Attributes:
        address: address of its socket.
        keys_folder: folder of its keys; "": none.
    """

    def __init__(self, bundle: Path, keys_folder: str) -> None:
        keys = ["--keys", keys_folder] if keys_folder else []
        command = [sys.executable, "-c", _SERVE, "serve", str(bundle), "--bind", "tcp://127.0.0.1:*", *keys]
        self._process = started(command)
        self.keys_folder = keys_folder
        found = re.search(r" at (tcp://\S+);", said_by(self._process))
        assert found
        self.address = found[1]

    @property
    def keys(self) -> CurveKeys | None:
        """Keys of a client."""
        return read_keys(Path(self.keys_folder), "worker") if self.keys_folder else None

    def peak_mb(self) -> float:
        """Most memory of the process so far; 0 where the system does not tell."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0.0
        found = re.search(r"VmHWM:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0

    def report(self) -> dict[str, Any]:
        """Counters of the server; asked again where far too much is left to let anybody in (docs/security.md)."""
        reply, limit_s = None, time.monotonic() + LIMIT_S
        while reply is None and time.monotonic() < limit_s and self._process.poll() is None:
            with FrameClient(self.address, keys=self.keys) as client:
                client.ask_health()
                reply = client.receive(_ASK_AGAIN_S)
        assert isinstance(reply, Healthy), f"no report, but {reply}; exit code {self._process.poll()}"
        return reply.report

    def stop(self) -> str:
        """End it; what was wrong, "" if nothing was."""
        self._process.send_signal(signal.SIGTERM)
        try:
            _, said = self._process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return "the server did not stop"
        code = self._process.returncode
        return "" if code == 0 else f"the server ended with {code}: {said[-300:]}"


@contextmanager
def attacked(bundle: Path, keys_folder: str, tally: Tally) -> Iterator[AttackedServer]:
    """A server under attack inside the block: it lives, stays small, and an honest client notices nothing."""
    server = AttackedServer(bundle, keys_folder)
    honest = started([sys.executable, str(HERE / "honest_client.py"), server.address, keys_folder])
    try:
        assert said_by(honest) == "served\n"
        before_mb = server.peak_mb()
        yield server
        found = json.loads(honest.communicate(timeout=LIMIT_S)[0].splitlines()[-1])
        for sentence in found.pop("wrong"):
            tally.lose(f"the honest client noticed: {sentence}")
        tally.figures |= {f"honest_{name}": value for name, value in found.items()}
        tally.figures |= {"resident_before_mb": before_mb, "resident_peak_mb": server.peak_mb()}
        if server.peak_mb() > before_mb + MOST_GROWTH_MB:
            tally.lose(f"the server grew from {before_mb:.0f} to {server.peak_mb():.0f} MB")
        counts = server.report()
        dropped = sum(counts["dropped"].values())
        if counts["questions"] != counts["answers"] + counts["refused_questions"] + dropped + counts["waiting"]:
            tally.lose(f"questions were lost: {counts}")
        tally.figures |= {"packets_taken": counts["packets"], "cut_off": counts["cut_off"]}
    finally:
        if wrong := server.stop():
            tally.lose(wrong)
        honest.kill()
        honest.communicate()


def started(command: list[str]) -> subprocess.Popen[str]:
    """A process that talks through its standard streams."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ)


def said_by(process: subprocess.Popen[str]) -> str:
    """The next line of a process."""
    assert process.stdout
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line
