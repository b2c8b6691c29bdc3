"""Somebody throws bad frames at a run that goes on: it goes on, and ends as it would have ended."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zmq
from doubles.carried import frames_of
from doubles.meddler import Meddler
from doubles.mutated_frames import EnvelopeMutator
from doubles.waiting import wait_for
from integration.tiny import tiny, walk, wired
from sheafedge.emulator.contracts import SheafedgeError
from sheafedge.emulator.network.transport import wire, zmq_transport
from sheafedge.emulator.network.transport.envelope import Envelope
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import Worker, ZmqTransport
from sheafedge.scenarios.wiring import emulation
from sheafedge.scenarios.wiring.emulation import emulate

#: Lossy, so that headers which list lost packets cross as well.
RUN = {"rounds": 2, "link.loss_probability": 0.2, "network.missing": "skip"}
#: Envelopes of this run to the worker; all that is on air crosses with the first that arrives.
FORWARDED = 4
A_FEW, ALL = 6_000, 100_000
SIZES = [A_FEW, pytest.param(ALL, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
Captured = list[list[bytes]]  # frames of envelopes
GIVE_UP_S = 240.0  # only broken code, on a very busy machine, ever waits so long


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a while is not what is tested here."""
    monkeypatch.setattr(emulation, "ZmqTransport", partial(ZmqTransport, timeout_s=GIVE_UP_S))


@pytest.fixture(scope="module")
def undisturbed() -> tuple[str, Captured]:
    """Trace hash of the run, and every envelope that was sent in it."""
    captured: Captured = []
    send = Worker.send

    def noted(self: Worker, envelope: Envelope) -> None:
        captured.append(frames_of(envelope))
        send(self, envelope)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "send", noted)
        trace_hash = walk(tiny({**RUN, "network.transport": "zmq"})).trace_hash
    assert trace_hash == walk(tiny(RUN)).trace_hash, "no frames, same run"
    return trace_hash, captured


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="se-") as short:  # pytest's own paths can be too long for a socket
        yield Path(short)


@contextmanager
def meddled_with(mutator: EnvelopeMutator, n_each: Mapping[str, int]) -> Iterator[list[Meddler]]:
    """Every worker that is made now meets a meddler in the place of its hub."""
    meddlers: list[Meddler] = []

    def connected(context: Any, address: str, wire: Wire, identity: bytes, timeout_s: float) -> Worker:
        meddlers.append(Meddler(context, address, identity, mutator.next, n_each))
        return Worker(context, meddlers[-1].address, wire, identity, timeout_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zmq_transport, "Worker", connected)
        yield meddlers


def run_with_a_meddler(folder: Path, captured: Captured, n_frames: int) -> tuple[str, Any, Meddler]:
    n_each = {"hub": -(-n_frames // len(captured)), "worker": n_frames // FORWARDED}
    scenario = tiny({**RUN, "network.transport": "zmq", "network.address": f"ipc://{folder}/hub"})
    with meddled_with(EnvelopeMutator(captured, seed=1), n_each) as meddlers:
        walked = wired(scenario)
        try:
            emulate(walked.emulation, scenario.rounds)
        finally:
            for meddler in meddlers:
                meddler.close()
            walked.emulation.close()
    return walked.trace_hash, walked.emulation.transport, meddlers[0]


@pytest.mark.parametrize("n_frames", SIZES)
def test_bad_frames_in_the_name_of_hub_and_worker_change_nothing(
    n_frames: int, folder: Path, undisturbed: tuple[str, Captured]
) -> None:
    trace_hash, captured = undisturbed
    found, transport, meddler = run_with_a_meddler(folder, captured, n_frames)
    assert found == trace_hash
    assert meddler.n_thrown["hub"] >= n_frames
    assert meddler.n_thrown["worker"] >= n_frames / 2  # what is on air together is forwarded together
    # Those behind the last message are never read, and a replay of what was to come is no bad frame.
    assert transport.hub.n_refused > 0.9 * n_frames
    assert transport.worker.n_refused > 0.9 * meddler.n_thrown["worker"]


def test_without_checksums_the_same_frames_do_change_the_run(
    folder: Path, undisturbed: tuple[str, Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: what is thrown is bad enough."""
    _, captured = undisturbed
    monkeypatch.setattr(wire, "xxhash", SimpleNamespace(xxh3_64_intdigest=lambda _: 0))
    trace_hash = walk(tiny(RUN)).trace_hash  # has the checksums in it
    try:
        found, _, _ = run_with_a_meddler(folder, captured, A_FEW)
    except (SheafedgeError, ValueError):  # damaged numbers can also end a run
        return
    assert found != trace_hash


@contextmanager
def stranger(address: str, identity: bytes, mutator: EnvelopeMutator) -> Iterator[list[int]]:
    """Somebody who connects to the hub under a name and throws frames for as long as the block lasts."""
    context = zmq.Context()
    end = context.socket(zmq.DEALER)
    end.setsockopt(zmq.IDENTITY, identity)
    end.setsockopt(zmq.LINGER, 0)
    end.setsockopt(zmq.SNDTIMEO, 50)
    end.connect(address)
    stop, thrown = threading.Event(), [0]

    def throw() -> None:
        while not stop.is_set():
            try:
                end.send_multipart(mutator.of_the_captured())
            except zmq.Again:  # nobody reads; the hub's queue is full, and stays of that length
                continue
            thrown[0] += 1

    thread = threading.Thread(target=throw, daemon=True)
    thread.start()
    try:
        yield thrown
    finally:
        stop.set()
        thread.join()
        end.close()
        context.term()


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
@pytest.mark.parametrize("name", ["unknown", "forged"])
def test_a_flood_from_a_stranger_neither_stops_nor_changes_a_run(
    kind: str, name: str, folder: Path, undisturbed: tuple[str, Captured]
) -> None:
    """Nobody but the worker stays connected, whatever name is given."""
    trace_hash, captured = undisturbed
    address = f"ipc://{folder}/hub" if kind == "ipc" else "tcp://127.0.0.1:*"
    scenario = tiny({**RUN, "network.transport": "zmq", "network.address": address})
    walked = wired(scenario)
    transport: Any = walked.emulation.transport
    identity = transport._identity if name == "forged" else b"worker-0"
    try:
        with stranger(transport.address, identity, EnvelopeMutator(captured, seed=2)) as thrown:
            wait_for(lambda: thrown[0] > 0 and transport.hub.n_hung_up > 0)
            n_before = transport.hub.n_hung_up
            emulate(walked.emulation, scenario.rounds)
            wait_for(lambda: transport.hub.n_hung_up > n_before)  # ZeroMQ connects again and again
    finally:
        walked.emulation.close()
    assert walked.trace_hash == trace_hash


def test_bytes_that_are_not_even_zeromq_change_nothing(
    undisturbed: tuple[str, Captured],
) -> None:
    """Greetings cut short, frames that announce exabytes, and noise, straight on the port."""
    trace_hash, _ = undisturbed
    scenario = tiny({**RUN, "network.transport": "zmq", "network.address": "tcp://127.0.0.1:*"})
    walked = wired(scenario)
    transport: Any = walked.emulation.transport
    port = int(transport.address.rpartition(":")[2])
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0")
    draws = np.random.default_rng(3)
    rude = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        greeting[:30],
        greeting + b"\x02" + b"\x7f" * 8,
        greeting + b"\x01\xff" * 50,
    ]
    rude += [greeting + draws.bytes(500) for _ in range(20)] + [draws.bytes(200) for _ in range(20)]
    ends = []
    try:
        for content in rude:
            # the hub of one process disconnects whoever is not its own worker, at times before the stranger is through
            with suppress(ConnectionError):
                end = socket.create_connection(("127.0.0.1", port), timeout=5)
                ends.append(end)
                end.sendall(content)
        emulate(walked.emulation, scenario.rounds)
    finally:
        for end in ends:
            end.close()
        walked.emulation.close()
    assert walked.trace_hash == trace_hash
