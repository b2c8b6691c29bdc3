"""A worker process: takes a seat at the engine, builds its clients, and replies to calls until the engine stops it.

Its main thread keeps the socket and sends heartbeats; a second one builds and computes, however long that takes.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from ..contracts import NodeId
from ..network.transport.curve_keys import CurveKeys, use_keys
from ..network.transport.errors import TransportError, WireError, describe_error
from ..network.transport.packets import MOST_FRAME_BYTES, Packet, pack_packet, unpack_packet
from .worker_calls import CALL_TYPES, LearnerCalls
from .worker_seat import WorkerLimits

_TICK_MS = 200
_LINGER_MS = 500
_PATIENCE_S = 1.0  # for the call that is being executed when the worker is to end

#: Scenario and clients -> their learners behind calls, and digests of the states in which they start.
BuildLearners = Callable[[str, Sequence[NodeId]], tuple[LearnerCalls, list[str]]]


class ParentGoneError(TransportError):
    """The process that started this worker has ended, for whatever reason."""


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Address of the engine, and what a worker needs to join.

    Attributes:
        address: `ipc://FILE` or `tcp://HOST:PORT` at which the engine listens.
        release: release of this program.
        name: name of this worker, for people.
        seat: index of the seat to take; None: any.
        keys: keys of the workers; needed beyond loopback.
        parent: file descriptor that ends when the process that started this one does; None: it was started by hand.
        limits: limits of waits; the engine's welcome replaces those of silence and heartbeats.
    """

    address: str
    release: str
    name: str
    seat: int | None = None
    keys: CurveKeys | None = None
    parent: int | None = None
    limits: WorkerLimits = field(default_factory=WorkerLimits)


class WorkerClient:
    """The worker's end of a `WorkerServer`.

    Args:
        engine: address of the engine, and what is needed to join.
        build: builds its clients.

    Attributes:
        n_refused: number of malformed packets.

    Raises:
        TransportError: the address cannot be used.
    """

    def __init__(self, engine: EngineAddress, build: BuildLearners) -> None:
        self._engine, self._build = engine, build
        # Until the engine's first packet the limit of joining counts: it may still be starting.
        self._silence_s, self._beat_s = engine.limits.join_s, engine.limits.beat_s
        self._heard_s, self._is_connected = time.monotonic(), False
        self._inbox: queue.SimpleQueue[Packet | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Packet] = queue.SimpleQueue()
        # A daemon: a computation that goes on must not keep the process alive when the engine is gone.
        self._work = threading.Thread(target=self._work_loop, name="work", daemon=True)
        self.n_refused = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._wake_sender, self._wake_receiver = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._wake_receiver.bind("inproc://wake")
        self._wake_sender.connect("inproc://wake")
        self._socket = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.MAXMSGSIZE, MOST_FRAME_BYTES),
            (zmq.RCVHWM, 0),  # at most one request per client waits here
            (zmq.SNDHWM, 0),
            (zmq.LINGER, _LINGER_MS),
        ):
            self._socket.setsockopt(option, value)
        if engine.keys is not None:
            use_keys(self._socket, engine.keys, "worker")
        try:
            self._socket.connect(engine.address)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise TransportError(f"worker cannot connect to {engine.address!r} ({error})") from None

    def serve(self) -> None:
        """Execute calls until the engine stops this worker.

        Raises:
            TransportError: the engine did not answer, refused this worker, or is gone.
        """
        reason = "it was interrupted"
        try:
            engine = self._engine
            self._send(Packet("hello", {"release": engine.release, "name": engine.name, "seat": engine.seat}))
            self._serve_socket()
            reason = ""
        except TransportError as error:
            reason = str(error)
            raise
        finally:
            if reason:
                self._send(Packet("leaving", {"sentence": reason}))
            self._close()

    def _serve_socket(self) -> None:
        """Keep the socket until the engine stops this worker."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake_receiver, zmq.POLLIN)
        if self._engine.parent is not None:
            poller.register(self._engine.parent, zmq.POLLIN)  # nothing is ever written to it: readable means its end
        beat_at_s = time.monotonic() + self._beat_s
        while True:
            events = dict(poller.poll(_TICK_MS))
            # Packets first: a stop that has arrived counts more than a parent that is gone.
            if self._has_stopped():
                return
            self._send_replies()
            now_s = time.monotonic()
            if now_s >= beat_at_s:
                self._send(Packet("alive", {}))
                beat_at_s = now_s + self._beat_s
            if self._engine.parent in events:
                raise ParentGoneError("the process that started this worker is gone")
            if now_s - self._heard_s > self._silence_s:
                raise TransportError(self._silence_sentence())

    def _has_stopped(self) -> bool:
        """Read all packets that have arrived; returns whether the engine has stopped this worker."""
        while self._socket.poll(0):
            parts = [frame.buffer for frame in self._socket.recv_multipart(copy=False)]
            try:
                packet = unpack_packet(parts)
            except WireError:
                self.n_refused += 1
                continue
            self._heard_s = time.monotonic()
            if not self._is_connected:
                self._is_connected, self._silence_s = True, self._engine.limits.silence_s
            if packet.type == "stop":
                return True
            self._take(packet)
        return False

    def _take(self, packet: Packet) -> None:
        if packet.type == "refused":
            raise TransportError(f"the engine refuses this worker: {packet.fields['sentence']}")
        if packet.type == "welcome" and not self._work.is_alive():
            self._silence_s, self._beat_s = packet.fields["silence_s"], packet.fields["beat_s"]
            self._work.start()
            self._inbox.put(packet)
        elif packet.type in CALL_TYPES:
            self._inbox.put(packet)
        # Also a second welcome: clients are built once.
        elif packet.type != "alive":
            self.n_refused += 1

    def _send_replies(self) -> None:
        while self._wake_receiver.poll(0):
            self._wake_receiver.recv()
        while not self._outbox.empty():
            self._send(self._outbox.get())

    def _send(self, packet: Packet) -> None:
        try:
            self._socket.send_multipart(pack_packet(packet), zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # no connection: the limit of silence reports it

    def _silence_sentence(self) -> str:
        engine = self._engine
        if self._is_connected:
            return f"the engine at {engine.address} has been silent for {self._silence_s:g} s"
        keys = "that --keys are those of the engine" if engine.keys else "that it uses no --keys either"
        return (
            f"no engine answered at {engine.address} within {self._silence_s:g} s; check that it runs (sheafedge run"
            f" SCENARIO --workers N --hub ADDRESS), that the address is right, and {keys}"
        )

    def _close(self) -> None:
        # Ends the other thread's loop after its present call.
        self._inbox.put(None)
        self._socket.close()
        self._wake_receiver.close()
        # A short wait lets a call that is nearly done end before the context is freed.
        if self._work.is_alive():
            self._work.join(_PATIENCE_S)
        if not self._work.is_alive():  # else it may still use its socket, and the process is about to end anyway
            self._wake_sender.close()
            self._context.term()

    # --- the thread that works ------------------------------------------------------------------------------------

    def _work_loop(self) -> None:
        calls: LearnerCalls | None = None
        while (packet := self._inbox.get()) is not None:
            if packet.type == "welcome":
                calls = self._built(packet)
            elif calls is not None:
                self._queue_reply(calls.execute(packet))

    def _built(self, welcome: Packet) -> LearnerCalls | None:
        clients = welcome.fields["clients"]
        try:
            calls, starts = self._build(welcome.fields["scenario"], clients)
        except Exception as error:  # noqa: BLE001 - sent to the engine, which raises it
            name, sentence = describe_error(error)
            self._queue_reply(Packet("failed", {"ticket": None, "error": name, "sentence": sentence}))
            return None
        self._queue_reply(Packet("ready", {"clients": clients, "starts": starts}))
        return calls

    def _queue_reply(self, packet: Packet) -> None:
        self._outbox.put(packet)
        try:
            self._wake_sender.send(b"", zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # a wake-up is pending already, or the worker ends


def process_name() -> str:
    """Name of this process, for people: its process id and host."""
    return f"pid {os.getpid()} on {socket.gethostname()}"


def forget_address(address: str, beside: Sequence[str] = ()) -> None:
    """Remove the file of an `ipc://` address, and its folder where nothing else is in it.

    For workers whose engine was killed and could not do it.

    Args:
        address: of the engine.
        beside: files; those in the folder of the address, where the engine has written them, are removed too.
    """
    if not address.startswith("ipc://"):
        return
    path = Path(address.removeprefix("ipc://"))
    try:
        for file in (path, *map(Path, beside)):
            if file.parent == path.parent:
                file.unlink(missing_ok=True)
        # Fails where anything else is in it.
        path.parent.rmdir()
    except OSError:
        return  # another worker was faster, or the folder is not ours
