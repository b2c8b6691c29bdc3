"""The clients of examples/clients are compiled or started as their pages say, and get the answers of the model."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from doubles.bundles import GOLDEN_ROWS, tiny_bundle, tiny_inputs
from doubles.running_server import running_server
from sheafedge.emulator.edge.bundle import Bundle, load_bundle
from sheafedge.emulator.edge.label_probabilities import (
    decided_labels,
    forecast_probabilities,
    label_probabilities,
)

pytestmark = pytest.mark.checkout  # examples are not shipped

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "clients"
BROWSER = Path(__file__).resolve().parents[1] / "doubles" / "page_in_node.mjs"
HEADER = Path(__file__).resolve().parents[1] / "doubles" / "libzmq_header"
LIMIT_S = 120.0
FRAMES, N_INSTANTS = 4, 7
#: Three digits are printed, of numbers that are summed in another order.
PRINTED = 0.0011

Command = list[str]


def python_client(_folder: Path) -> Command:
    return [sys.executable, str(FOLDER / "client.py")]


def c_client(folder: Path) -> Command:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(FOLDER / "client.c"), *libzmq()]
    subprocess.run([*command, "-o", str(folder / "client")], check=True)
    return [str(folder / "client")]


def libzmq() -> list[str]:
    """Options of the compiler for the libzmq of this system, or else for the one in the wheel of pyzmq."""
    config = shutil.which("pkg-config")
    if config and subprocess.run([config, "--exists", "libzmq"], check=False).returncode == 0:
        return subprocess.run(
            [config, "--cflags", "--libs", "libzmq"], check=True, capture_output=True, text=True
        ).stdout.split()
    bundled = Path(zmq.__file__).parent.parent / "pyzmq.libs"
    found = sorted(bundled.glob("libzmq-*.so*"))
    if not found:
        pytest.skip("there is no libzmq for C: apt-get install libzmq3-dev pkg-config")
    # the wheel has no headers
    return [f"-I{HEADER}", str(found[0]), f"-Wl,-rpath,{bundled}"]


def javascript_client(_folder: Path) -> Command:
    node = shutil.which("node")
    packages = [FOLDER / "node_modules" / name for name in ("zeromq", "@msgpack/msgpack")]
    if node is None or not all(map(Path.exists, packages)):
        pytest.skip("Node.js or its packages are not installed: npm install in examples/clients")
    return [node, str(FOLDER / "client.mjs")]


@pytest.fixture(scope="module", params=[python_client, c_client, javascript_client])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Command:
    make: Callable[[Path], Command] = request.param
    return make(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny", frames=FRAMES)
    return load_bundle(folder, trial=None)


@pytest.fixture(scope="module")
def address(bundle: Bundle) -> Iterator[str]:
    with running_server(bundle.path) as address:
        yield address


def lines_of(command: Command, *arguments: str) -> list[str]:
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def expected_answer(bundle: Bundle, inputs: dict[str, Any]) -> tuple[str, float]:
    logits = bundle.session.run(inputs)
    label = int(decided_labels(logits, bundle.manifest.output)[0])
    return bundle.manifest.output.labels[label], float(label_probabilities(logits, bundle.manifest.output)[0, label])


def test_a_client_is_refused_until_its_windows_are_whole_and_answered_from_then_on(
    client: Command, address: str, bundle: Bundle
) -> None:
    replies = [line.split(maxsplit=2) for line in lines_of(client, address, str(N_INSTANTS)) if line[0].isdecimal()]
    assert [int(index) for index, *_ in replies] == list(range(N_INSTANTS))
    assert [kind for _, kind, _ in replies] == ["refused"] * (FRAMES - 1) + ["answer"] * (N_INSTANTS - FRAMES + 1)
    assert all(said.startswith("not_ready no whole window yet") for _, kind, said in replies if kind == "refused")
    for index, _, said in replies[FRAMES - 1 :]:
        instants = np.arange(int(index) - FRAMES + 1, int(index) + 1, dtype=np.float32) % 10
        label, probability = expected_answer(
            bundle,
            {
                "lidar": np.broadcast_to(instants[:, None], (1, 2, FRAMES, 6)),
                "rf": np.broadcast_to(instants[:, None], (1, FRAMES, 8)),
            },
        )
        found = re.fullmatch(r"(.+) (\d\.\d+) *", said)
        assert found, said
        assert found[1] == label
        assert float(found[2]) == pytest.approx(probability, abs=PRINTED)


def test_a_client_prints_a_forecast_by_time_ahead(client: Command, tmp_path: Path) -> None:
    bundle = load_bundle(tiny_bundle(tmp_path / "ahead", kind="forecast", frames=FRAMES), trial=None)
    with running_server(bundle.path) as address:
        answer, *ahead = lines_of(client, address, str(FRAMES))[-4:]
    instants = np.arange(FRAMES, dtype=np.float32)
    inputs = {
        "lidar": np.broadcast_to(instants[:, None], (1, 2, FRAMES, 6)),
        "rf": np.broadcast_to(instants[:, None], (1, FRAMES, 8)),
    }
    label, _ = expected_answer(bundle, inputs)
    assert f"answer {label} " in answer
    odds = forecast_probabilities(bundle.session.run(inputs), bundle.manifest.output)
    expected = {"ahead_s": [0.1, 0.2, 0.3], "own": odds["own"][0], "neighbor": odds["neighbor"][0]}
    assert [line.split()[0] for line in ahead] == list(expected)
    for line, values in zip(ahead, expected.values(), strict=True):
        assert [float(number) for number in line.split()[1:]] == pytest.approx(list(values), abs=PRINTED)


def test_a_client_that_starts_again_is_answered_at_once(client: Command, address: str) -> None:
    """Its stream counts from 0 again, at the server of before, which no window's time has passed for."""
    for _ in range(2):
        assert " answer " in lines_of(client, address, str(N_INSTANTS))[-1]


def test_a_client_ends_well_when_the_server_leaves(client: Command, bundle: Bundle) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(ExitStack())
        address = server.enter_context(running_server(bundle.path))
        process = stack.enter_context(subprocess.Popen([*client, address, "100000"], stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:  # until it is known to the server
            socket.connect(address)
            report: dict[str, Any] = {}
            while not report.get("questions"):
                socket.send(msgpack.packb({"version": 1, "type": "health", "checksum": 0}))
                assert socket.poll(round(1000 * LIMIT_S))
                report = msgpack.unpackb(socket.recv())["report"]
        server.close()
        said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert said.splitlines()[-1].startswith("bye the server stops")


@pytest.mark.slow  # waits
def test_a_client_says_that_nobody_is_there(client: Command) -> None:
    done = subprocess.run([*client, "tcp://127.0.0.1:1"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("no answer within 5 s")
    assert len(done.stderr.splitlines()) == 1


def test_the_python_client_sends_the_samples_of_a_bundle(address: str, bundle: Bundle) -> None:
    said = lines_of(python_client(FOLDER), address, str(FRAMES), str(bundle.path / "samples.npz"))[-1]
    samples = tiny_inputs(bundle.manifest, GOLDEN_ROWS)
    label, probability = expected_answer(bundle, {name: values[:1] for name, values in samples.items()})
    assert said.split()[:2] == [str(FRAMES - 1), "answer"]
    assert label in said
    assert float(said.split()[-1]) == pytest.approx(probability, abs=PRINTED)


def shown_page(bundle: Bundle, folder: Path) -> dict[str, Any]:
    """Element -> its text; the page's script runs in Node.js, because headless browsers differ in what they need."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules" / "onnxruntime-web").exists():
        pytest.skip("Node.js or onnxruntime-web is not installed: npm install in examples/clients")
    command = [node, str(BROWSER), str(FOLDER / "browser" / "index.html"), str(bundle.path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    page: dict[str, Any] = json.loads(done.stdout)
    assert "error" not in page
    return page


def test_the_page_for_browsers_answers_the_samples_of_a_bundle(bundle: Bundle, tmp_path: Path) -> None:
    page = shown_page(bundle, tmp_path)
    assert page["name"] == bundle.manifest.name
    samples = tiny_inputs(bundle.manifest, GOLDEN_ROWS)
    assert len(page["rows"]) == GOLDEN_ROWS
    for row, (number, label, probability, *shares, off) in enumerate(page["rows"]):
        expected = expected_answer(bundle, {name: values[row : row + 1] for name, values in samples.items()})
        assert (number, label) == (row, expected[0])
        assert float(probability) == pytest.approx(expected[1], abs=PRINTED)
        assert shares == ["0.500", "0.500"]
        assert float(off) <= bundle.manifest.golden.tolerance


def test_the_page_for_browsers_shows_a_forecast_by_time_ahead(tmp_path: Path) -> None:
    bundle = load_bundle(tiny_bundle(tmp_path / "ahead", kind="forecast", frames=FRAMES), trial=None)
    page = shown_page(bundle, tmp_path)
    inputs = tiny_inputs(bundle.manifest, GOLDEN_ROWS)
    odds = forecast_probabilities(bundle.session.run(inputs), bundle.manifest.output)
    for row, (_, label, probability, *_, ahead, _) in enumerate(page["rows"]):
        one = {name: values[row : row + 1] for name, values in inputs.items()}
        expected = expected_answer(bundle, one)
        assert (label, float(probability)) == (expected[0], pytest.approx(expected[1], abs=PRINTED))
        for line, name in zip(ahead.splitlines(), ("own", "neighbor"), strict=True):
            assert line.startswith(f"{name}: 0.1 s ")
            shown = [float(part.split()[-1]) for part in line.split(",")]
            assert shown == pytest.approx(list(odds[name][row]), abs=PRINTED)


@pytest.mark.parametrize("name", ["client.c", "client.mjs", "client.py"])
def test_a_client_is_read_in_one_sitting(name: str) -> None:
    assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) < 150
