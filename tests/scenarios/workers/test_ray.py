"""Ray starts workers and makes runs; the results are those of any other run, and nothing of Ray is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

#: Real patience with a program that starts Ray, which takes a busy machine half a minute.
PATIENCE_S = 240.0
PROGRAM = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()"]

#: Batches, which workers do not make, round differently.
ALONE = {"compute.executor": "serial"}

with_ray = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-ray"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are counted in /proc"),
]


# --- a Ray of this machine -------------------------------------------------------------------------------------------


def marked(mark: str) -> dict[int, str]:
    """Process id -> command line of all processes that were started, over whatever, with this mark around them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it is gone, or not ours
    return found


@contextmanager
def started(arguments: list[str], mark: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SHEAFEDGE_TEST_MARK": mark, "OMP_NUM_THREADS": "1"}
    environment.pop("RAY_ADDRESS", None)
    command = [*PROGRAM, *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def seen_until(process: subprocess.Popen[str], mark: str, wanted: str) -> int:
    """The first process of that mark with this on its command line."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for pid, command in marked(mark).items():
            if wanted in command and pid != process.pid:
                return pid
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    raise AssertionError(f"no {wanted} was seen")


def nothing_left(mark: str) -> dict[int, str]:
    """What is left once the dying are dead."""
    until = time.monotonic() + 20.0
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def options(edits: dict[str, Any]) -> list[str]:
    return [part for key, value in edits.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def trace(folder: Path) -> str:
    return str(json.loads((folder / "summary.json").read_text())["trace_hash"])


class TestOnThisMachine:
    pytestmark = with_ray

    def test_a_run_has_the_trace_of_any_other_and_leaves_no_process(
        self, tiny_edits: dict[str, Any], tmp_path: Path
    ) -> None:
        mark = uuid.uuid4().hex
        run = ["run", "beam_tracking", *options({**tiny_edits, "algorithm": "dsgd", **ALONE}), "--out"]
        subprocess.run([*PROGRAM, *run, str(tmp_path / "usual")], check=True, capture_output=True, timeout=PATIENCE_S)
        with started([*run, str(tmp_path / "ray"), "--workers", "2", "--engine", "ray"], mark) as process:
            assert seen_until(process, mark, "raylet"), "the mark would find what is left"
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
        assert trace(tmp_path / "ray") == trace(tmp_path / "usual")
        assert nothing_left(mark) == {}

    def test_a_worker_that_is_killed_ends_the_run_with_a_sentence(
        self, tiny_edits: dict[str, Any], tmp_path: Path
    ) -> None:
        mark, edits = uuid.uuid4().hex, {**tiny_edits, "algorithm": "dsgd", "rounds": 1_000_000}
        run = ["run", "beam_tracking", *options(edits), "--out", str(tmp_path / "run")]
        with started([*run, "--workers", "1", "--engine", "ray"], mark) as process:
            os.kill(seen_until(process, mark, "ray::RayWorker"), signal.SIGKILL)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2
        assert "worker 0" in errors
        assert "Traceback" not in errors
        assert nothing_left(mark) == {}

    def test_a_comparison_makes_the_same_runs(self, tiny_edits: dict[str, Any], tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        compare = ["compare", "beam_tracking", "--algorithms", "dsgd,local", "--seeds", "1", *options(tiny_edits)]
        usual, ray = [*compare, "--out", str(tmp_path / "usual")], [*compare, "--out", str(tmp_path / "ray")]
        subprocess.run([*PROGRAM, *usual], check=True, capture_output=True, timeout=PATIENCE_S)
        with started([*ray, "--engine", "ray", "--jobs", "2"], mark) as process:
            assert seen_until(process, mark, "raylet")
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
        names = sorted(path.name for path in (tmp_path / "usual" / "runs").iterdir())
        assert len(names) == 2
        for name in names:
            assert trace(tmp_path / "ray" / "runs" / name) == trace(tmp_path / "usual" / "runs" / name)
        assert nothing_left(mark) == {}
