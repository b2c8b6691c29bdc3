"""`sheafedge serve` as a device runs it: started, asked, told to load anew, and stopped, without anything but four."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from doubles.bundles import tiny_bundle, tiny_manifest
from doubles.served_model import LIMIT_S, at, raw_frames
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.commands.device_commands import COMMANDS, run_command
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer, Bye

FRAMES = 4
#: What a device does not have. `None` in `sys.modules` makes an import fail as if it were not there.
ABSENT = ["torch", "onnx", "onnxscript", "typer", "click", "rich", "pydantic", "simpy", "networkx", "h5py", "xxhash"]
ABSENT += ["safetensors", "matplotlib", "tomli_w", "scipy", "PIL"]
ON_A_DEVICE = (
    f"import sys; sys.modules.update(dict.fromkeys({ABSENT}));"
    " from sheafedge.scenarios.entry import main; sys.argv[0] = 'sheafedge'; main()"
)


@contextmanager
def started(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_DEVICE, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    said = process.stdout.readline()
    if not said:
        assert process.stderr
        pytest.fail(f"it ended with {process.wait(LIMIT_S)}: {process.stderr.read()}")
    return said


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_device_serves_reloads_and_stops_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    path = tiny_bundle(tmp_path / "b", frames=FRAMES)
    new = tiny_bundle(tmp_path / "new", frames=FRAMES, gain=2.0, name="better")
    raw = raw_frames(tiny_manifest(frames=FRAMES), FRAMES + 2)
    address = f"ipc://{tmp_path}/s.ipc"
    with started("serve", path, "--bind", address, "--metrics", "0", cwd=tmp_path) as process:
        assert line(process).startswith(f"serving tiny (float32, CPUExecutionProvider) at {address}; windows of 256")
        page = re.fullmatch(r"metrics at (http://127.0.0.1:\d+/metrics)\n", line(process))
        assert page
        with FrameClient(address) as client:
            for index in range(FRAMES):
                client.send("s", index, index / 10, at(raw, index), ask=index == FRAMES - 1)
            first = client.receive(LIMIT_S)
            assert isinstance(first, Answer)
            path.rename(tmp_path / "old")
            new.rename(path)
            process.send_signal(signal.SIGHUP)
            assert line(process).startswith("reload: better is served from now on")
            client.send("s", FRAMES, 0.4, at(raw, FRAMES))
            second = client.receive(LIMIT_S)
            assert isinstance(second, Answer)
            assert second.bundle == "better"
            assert second.digest != first.digest
            with urllib.request.urlopen(page[1], timeout=LIMIT_S) as response:  # noqa: S310 - our own page
                assert b'sheafedge_reloads_total{result="swapped"} 1' in response.read()
            process.send_signal(stop)
            assert isinstance(client.receive(LIMIT_S), Bye)
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
        assert out == "stopped: 2 requests, 2 answers, 0 refused, 0 dropped, 0 unsent\n"
        assert err == ""
    assert {one.name for one in tmp_path.iterdir()} == {"b", "old"}


def test_with_watch_a_new_bundle_needs_no_signal(tmp_path: Path) -> None:
    path, new = tiny_bundle(tmp_path / "b"), tiny_bundle(tmp_path / "new", name="better")
    with started("serve", path, "--bind", "tcp://127.0.0.1:*", "--watch", "0.05", cwd=tmp_path) as process:
        line(process)
        path.rename(tmp_path / "old")
        new.rename(path)
        said = line(process)
        while "refused" in said:  # looked at between the two renames
            said = line(process)
        assert said.startswith("reload: better is served from now on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def ended(*arguments: str | Path, cwd: Path) -> tuple[int, str, str]:
    with started(*arguments, cwd=cwd) as process:
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err


def test_a_device_verifies_a_bundle_and_says_what_it_does_not_know(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "b")
    code, out, err = ended("verify", path, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "is valid: tiny, 3 files" in out
    (path / "model.onnx").write_bytes(b"")
    code, out, err = ended("verify", path, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: bundle ")
    assert err.count("\n") == 1
    code, out, err = ended("run", "blockage", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err == (
        f"error: this installation has the edge set only, which knows {', '.join(COMMANDS)}, not 'run'; it needs"
        " all dependencies of sheafedge: install the wheel again without --no-deps\n"
    )


def test_a_device_measures_a_bundle_without_torch(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "b")
    code, out, err = ended("bench", path, "--repeats", "50", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith("tiny: ")
    assert "torch: not installed" in out.splitlines()
    code, out, err = ended("bench", path, "--threads", "0", cwd=tmp_path)
    assert (code, out, err) == (2, "", "error: --threads must be from 1 to 256, got 0\n")


def test_help_and_version_need_no_more_than_the_edge_set(tmp_path: Path) -> None:
    code, out, _ = ended("--version", cwd=tmp_path)
    assert code == 0
    assert re.fullmatch(r"sheafedge \d+\.\d+\.\d+\n", out)
    code, out, _ = ended("serve", "--help", cwd=tmp_path)
    assert code == 0
    assert "--metrics" in out


MISTAKES: dict[str, tuple[list[Any], str]] = {
    "no command": ([], "give one of the commands serve, bench, verify"),
    "no bundle": (["serve"], "bundle"),
    "a bundle that is none": (["serve", "nowhere"], "no bundle at nowhere"),
    "a word for a number": (
        ["serve", "b", "--batch", "many"],
        "--batch: invalid int value: 'many'; see sheafedge serve",
    ),
    "no room": (["serve", "b", "--batch", "0"], "batch must be at least 1, got 0"),
    "an unknown option": (["serve", "b", "--fast"], "--fast"),
    "half an option": (["serve", "b", "--bat", "3"], "--bat"),
    "no threads": (["serve", "b", "--threads", "0"], "--threads must be from 1 to 256, got 0"),
    "no time to watch": (["serve", "b", "--watch", "0"], "--watch must be a time in seconds above 0"),
    "never to watch": (["serve", "b", "--watch", "nan"], "--watch must be a time in seconds above 0"),
    "everybody's address": (["serve", "b", "--bind", "tcp://*:5570"], "needs keys"),
    "no address": (["serve", "b", "--bind", "here"], "server address must be tcp://HOST:PORT"),
    "no keys": (["serve", "b", "--keys", "k"], "k/engine.public cannot be read"),
    "a page at no port": (["serve", "b", "--bind", "tcp://127.0.0.1:*", "--metrics", "x"], "--metrics must be"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    tiny_bundle(tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with pytest.raises(Exception, match=re.escape(sentence)) as caught:
        run_command(arguments, "1.2.3")
    assert isinstance(caught.value, ConfigError | ValueError)
    assert "\n" not in str(caught.value)
    assert {number: signal.getsignal(number) for number in before} == before
