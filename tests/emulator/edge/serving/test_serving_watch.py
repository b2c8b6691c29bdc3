"""A model that never returns: its questions are refused, the server serves on, and SIGTERM ends it whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from doubles.hostile_models import LARGE, MANIFEST, hostile_bundle, loop_on_large_inputs
from doubles.served_model import LIMIT_S, at, raw_frames, served
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer, Bye, Refused
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.edge.serving.serving_watch import ServingWatch

FRAMES = 4
ENTRY = "import sys; sys.argv[0] = 'sheafedge'; from sheafedge.scenarios.entry import main; main()"
#: A session whose runs nothing stops, as a single large product of matrices does not stop.
NEVER_STOPPED = (
    "from sheafedge.emulator.edge.onnx_session import OnnxSession as S; S.stop_longer_than = lambda *_: None; "
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return hostile_bundle(tmp_path / "b", loop_on_large_inputs())


@pytest.fixture
def ends() -> Iterator[list[str]]:
    """What a watch said instead of ending this process; signals do nothing here meanwhile."""
    said: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield said
    finally:
        signal.signal(signal.SIGTERM, before)


def waited(is_true: Callable[[], object]) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < limit_s
        time.sleep(0.01)


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_run_is_stopped_from_another_thread_and_the_session_answers_on() -> None:
    session = OnnxSession(loop_on_large_inputs())
    small = {str(one.modality): np.zeros((1, *one.shape), np.float32) for one in MANIFEST.inputs}
    session.stop_longer_than(0.0)  # nothing runs
    assert session.run(small) == 0.0
    stopper = threading.Timer(0.2, session.stop_longer_than, (0.0,))
    stopper.start()
    with pytest.raises(Exception, match="terminate flag"):
        session.run({name: values + 2 * LARGE for name, values in small.items()})
    stopper.join()
    assert session.run(small) == 0.0


def test_a_stopped_model_refuses_its_questions_and_answers_the_next_ones(path: Path) -> None:
    raw = raw_frames(MANIFEST, FRAMES)
    with served(path) as server, FrameClient(server.address) as client:
        for stream, offset in (("endless", 2 * LARGE), ("plain", 0.0)):
            for index in range(FRAMES):
                frames = {name: values + np.float32(offset) for name, values in at(raw, index).items()}
                client.send(stream, index, index / 10, frames, ask=index == FRAMES - 1)
            threading.Timer(0.5, server.session.stop_longer_than, (0.1,)).start()
            limit_s, heard = time.monotonic() + LIMIT_S, None
            while heard is None and time.monotonic() < limit_s:
                server.turn(0.01)
                heard = client.receive()
            assert isinstance(heard, Refused if offset else Answer)
            if isinstance(heard, Refused):
                assert heard.code == "failed"


def test_the_watch_ends_what_does_not_end_itself(ends: list[str]) -> None:
    watch = ServingWatch(0.0, end=ends.append)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        waited(lambda: ends)
        assert ends == ["the server was ended, because it took more than 3 s to stop"]
    finally:
        watch.close()


def test_a_server_that_ends_in_time_is_let_be(ends: list[str]) -> None:
    watch = ServingWatch(30.0, end=ends.append)
    os.kill(os.getpid(), signal.SIGTERM)
    watch.close()
    assert ends == []
    assert signal.set_wakeup_fd(-1) == -1, "what it set is set back"


@pytest.mark.parametrize(
    "is_stopped",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["stopped by the runtime", "not stopped by anything"],
)
def test_sigterm_ends_a_server_whose_model_hangs(path: Path, tmp_path: Path, is_stopped: bool) -> None:
    address, raw = f"ipc://{tmp_path}/s.ipc", raw_frames(MANIFEST, FRAMES)
    command = [sys.executable, "-P", "-c", ("" if is_stopped else NEVER_STOPPED) + ENTRY]
    with subprocess.Popen(
        [*command, "serve", str(path), "--bind", address, "--finish", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            assert process.stdout.readline().startswith("serving tiny")
            with FrameClient(address) as client:
                for index in range(FRAMES):
                    frames = {name: values + np.float32(2 * LARGE) for name, values in at(raw, index).items()}
                    client.send("s", index, index / 10, frames, ask=index == FRAMES - 1)
                client.send("t", 0, 0.0, at(raw, 0), ask=False)
                begun_s = processor_s(process.pid)
                waited(lambda: processor_s(process.pid) > begun_s + 0.5)  # an idle server computes next to nothing
                process.send_signal(signal.SIGTERM)
                assert process.wait(LIMIT_S) == (0 if is_stopped else 1)
                if is_stopped:
                    assert [type(client.receive(1.0)) for _ in range(2)] == [Refused, Bye]
            assert ("was ended, because it took more than 3.2 s" in process.stderr.read()) is not is_stopped
        finally:
            process.kill()
