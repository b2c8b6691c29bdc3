"""Serves one bundle: takes frames from any number of sensors, asks the model, answers, and counts all of it.

One thread does everything, in turns: take what has arrived, then run the model once for the questions that wait. While
the model runs ZeroMQ keeps on receiving; what does not fit there waits at the sender, so nothing is lost on the way in.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from ...contracts import ConfigError
from ...network.transport.curve_keys import CurveKeys, KeyAuthenticator, check_address, use_keys
from ...network.transport.errors import TransportError, WireError
from ...network.transport.packets import Packet, pack_packet, unpack_packet
from ...network.transport.sockets import allow_connections, open_socket
from ..bundle import Bundle
from ..frame_packets import (
    LONGEST_STREAM,
    MOST_HEADER_BYTES,
    TO_CLIENT,
    TO_SERVER,
    check_stream,
    unpack_frames,
)
from ..manifest import BundleError, Manifest
from .answering import Outcome, ServedModel
from .counts import Counts
from .questions import Question, Questions
from .refusals import FrameRefused
from .reloading import BundleReloader
from .stream_windows import stream_bytes
from .streams import Streams

#: Packets taken before the model runs again, so that senders cannot keep it from running.
_MOST_TAKEN = 256
_MOST_PARTS = 6  # identity, header, and a frame of every modality
_WIDEST_NUMBER_BYTES = 8
#: Packets of one client that wait inside ZeroMQ; more wait at the client.
_QUEUED_OF_A_CLIENT = 64
_BEAT_MS = 5000
_WAIT_S = 0.1
#: Clients that are said goodbye to.
_MOST_CLIENTS = 4096
_LONGEST_SENTENCE = 300  # a refusal may quote what a stranger sent
#: A server whose loop has not turned for so long hangs.
_HANGS_AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """How a server serves.

    Attributes:
        batch: most answers of one run of the model.
        waiting: most questions of one stream that wait; the oldest gives way.
        waiting_in_all: of all streams.
        streams: most of them at once.
        idle_s: a stream that was silent for so long gives its place to a new one.
        hold: instants at which a lost frame's predecessor may stand in for it.
        finish_s: longest time for what waits when the server stops.
    """

    batch: int = 8
    waiting: int = 2
    waiting_in_all: int = 256
    streams: int = 256
    idle_s: float = 10.0
    hold: int = 2
    finish_s: float = 5.0

    def __post_init__(self) -> None:
        for name, low in (("batch", 1), ("waiting", 1), ("waiting_in_all", 1), ("streams", 1), ("hold", 0)):
            if getattr(self, name) < low:
                raise ConfigError(f"{name} must be at least {low}, got {getattr(self, name)}")
        for name in ("idle_s", "finish_s"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ConfigError(f"{name} must be a time of at least 0 s, got {getattr(self, name)}")


class Server:
    """A bundle behind a socket; belongs to the thread that made it.

    Args:
        bundle: loaded and found whole.
        address: tcp://HOST:PORT, port * for a free one, or ipc://FILE.
        settings: see there.
        keys: of this end; needed beyond this host.
        reloader: where new bundles come from; None: nowhere.
        say: told what an operator should know, one sentence each.

    Attributes:
        address: with the port in use.
        counts: all that was counted.

    Raises:
        ConfigError: no such address, one beyond this host and there are no keys, or a bundle that cannot be served.
        TransportError: the address is taken.
    """

    def __init__(
        self,
        bundle: Bundle,
        address: str,
        settings: ServingSettings | None = None,
        *,
        keys: CurveKeys | None = None,
        reloader: BundleReloader | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_address(address, keys, "server")
        _check_rates(bundle.manifest)
        self.settings = settings or ServingSettings()
        self.counts = Counts()
        self._reloader, self._say = reloader, say
        self._model = ServedModel(bundle)
        chosen, inputs = self.settings, bundle.manifest.inputs
        self._streams = Streams(inputs, chosen.hold, chosen.streams, chosen.idle_s)
        self._questions = Questions(chosen.waiting, chosen.waiting_in_all)
        self._clients: OrderedDict[bytes, None] = OrderedDict()
        self._turned_s = time.monotonic()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._door: KeyAuthenticator | None = None
        self._open(address, keys, bundle.manifest)
        self._tell_model()

    @property
    def window_bytes(self) -> int:
        """Memory of all windows, if every stream and sensor is there."""
        return self.settings.streams * stream_bytes(self._model.manifest.inputs, self.settings.hold)

    def is_alive(self) -> bool:
        """Whether it still turns; can be asked by any thread."""
        return time.monotonic() - self._turned_s < _HANGS_AFTER_S

    def serve(self, stops: Callable[[], bool]) -> None:
        """Serve until somebody wants it to stop, then finish what was taken and say goodbye."""
        while not stops():
            self.turn()
        self.finish()

    def turn(self, wait_s: float = _WAIT_S) -> None:
        """Take what has arrived, answer one batch.

        Args:
            wait_s: for something to arrive, where no question waits.
        """
        self._turned_s = time.monotonic()
        self._swap()
        if self._arrived(0.0 if self._questions else wait_s):
            self._take()
        self._answer()
        self._tell_gauges()

    def finish(self) -> None:
        """Answer what has arrived, within `finish_s`; tell who gets no answer, and say goodbye."""
        limit_s = time.monotonic() + self.settings.finish_s
        while self._arrived(0.0) and time.monotonic() < limit_s:
            self._take()
            self._answer()
        while self._questions and time.monotonic() < limit_s:
            self._answer()
        for question in self._questions.take(len(self._questions)):
            self._drop(question, "leaving")
        for client in list(self._clients):
            self._send(client, Packet("bye", {"sentence": "the server stops; all questions that it took are settled"}))
        self._tell_gauges()

    def close(self) -> None:
        """Free the sockets; what was sent has a second to leave."""
        self._socket.close(linger=1000)
        if self._door is not None:
            self._door.close()
        self._context.term()
        if self.address.startswith("ipc://"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

    def _open(self, address: str, keys: CurveKeys | None, manifest: Manifest) -> None:
        largest = max(int(np.prod(spec.frame_shape)) for spec in manifest.inputs) * _WIDEST_NUMBER_BYTES
        allow_connections(self.settings.streams)
        self._socket = open_socket(self._context, zmq.ROUTER, _WAIT_S, max(largest, MOST_HEADER_BYTES))
        self._socket.setsockopt(zmq.RCVHWM, _QUEUED_OF_A_CLIENT)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, _BEAT_MS)  # whoever lost power never hangs up
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 4 * _BEAT_MS)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # replies that cannot be sent are errors, which are counted
        try:
            if keys is not None:
                self._door = KeyAuthenticator(self._context, keys)
                use_keys(self._socket, keys, "engine")
            self._socket.bind(address)
        except (zmq.ZMQError, TransportError) as error:
            self._socket.close()
            if self._door is not None:
                self._door.close()
            self._context.term()
            raise TransportError(f"{address} cannot be bound ({error}); choose another address") from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        if self._door is not None:
            self._poller.register(self._door.socket, zmq.POLLIN)

    # --- in ----------------------------------------------------------------------------------------------------------

    def _arrived(self, wait_s: float) -> bool:
        """Whether a packet is there; strangers at the door are seen to on the way."""
        ready = dict(self._poller.poll(round(1000 * wait_s)))
        if self._door is not None and self._door.socket in ready:
            self._door.answer()
            self.counts.set_total("strangers", self._door.n_refused)
        return self._socket in ready

    def _take(self) -> None:
        for _ in range(_MOST_TAKEN):
            try:
                client, parts = self._received()
            except zmq.Again:
                return
            self._take_packet(client, parts)

    def _received(self) -> tuple[bytes, list[memoryview]]:
        """Client, and what it sent; of a message with too many parts only as many as show that."""
        client = self._socket.recv(zmq.NOBLOCK)
        parts: list[memoryview] = []
        while self._socket.getsockopt(zmq.RCVMORE):
            part = self._socket.recv(zmq.NOBLOCK, copy=False).buffer
            if len(parts) < _MOST_PARTS:
                parts.append(part)
        return client, parts

    def _take_packet(self, client: bytes, parts: Sequence[memoryview]) -> None:
        self.counts.add("packets")
        self._clients[client] = None
        self._clients.move_to_end(client)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        packet: Packet | None = None
        try:
            packet = unpack_packet(parts, TO_SERVER)
            self._take_kind(client, packet)
        except WireError as error:
            self._refuse(client, packet, "malformed", str(error))
        except FrameRefused as refusal:
            self._refuse(client, packet, refusal.code, str(refusal))

    def _take_kind(self, client: bytes, packet: Packet) -> None:
        if packet.type == "frames":
            self._take_frames(client, packet)
        elif packet.type == "forget":
            check_stream(packet.fields["stream"])
            self._streams.forget(packet.fields["stream"])
            self._send(client, Packet("forgotten", dict(packet.fields)))
        elif packet.type == "describe":
            model = self._model
            fields = {"manifest": model.manifest.as_json(), "digest": model.digest, "settings": asdict(self.settings)}
            self._send(client, Packet("description", fields))
        else:
            self._tell_gauges()
            self._send(client, Packet("healthy", {"report": self.counts.report()}))

    def _take_frames(self, client: bytes, packet: Packet) -> None:
        arrived_s = time.monotonic()
        stream, index, time_s, ask = (packet.fields[name] for name in ("stream", "index", "time_s", "ask"))
        if ask:
            self.counts.add("questions")
        frames = unpack_frames(packet)
        windows = self._streams.of(stream, arrived_s)
        windows.put(index, time_s, frames)
        for modality in frames:
            self.counts.add("frames", modality)
        if not ask:
            return
        sample = windows.sample(index, time_s)
        self._model.check_ready(sample)
        if lost := self._questions.put(Question(client, stream, index, time_s, sample, arrived_s)):
            self._drop(*lost)

    # --- out ---------------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        questions = self._questions.take(self.settings.batch)
        if not questions:
            return
        begun_s = time.monotonic()
        try:
            outcomes = self._model.answer([question.sample for question in questions])
        except FrameRefused as failure:
            for question in questions:
                self._refuse_question(question, failure)
            return
        model_s = time.monotonic() - begun_s
        self.counts.ran(model_s)
        for question, outcome in zip(questions, outcomes, strict=True):
            self._tell(question, outcome, begun_s, model_s)

    def _tell(self, question: Question, outcome: Outcome, begun_s: float, model_s: float) -> None:
        sample, manifest = question.sample, self._model.manifest
        total_s = time.monotonic() - question.arrived_s
        self.counts.answered(total_s)
        for modality in sample.missing:
            self.counts.add("answers_without", modality)
        fields: dict[str, Any] = {
            "stream": question.stream,
            "index": question.index,
            "time_s": question.time_s,
            "label": manifest.output.labels[outcome.label_index],
            "label_index": outcome.label_index,
            "probability": outcome.probabilities[outcome.label_index],
            "probabilities": outcome.probabilities,
            "logits": outcome.logits,
            "attention": outcome.attention,
            "missing": list(sample.missing),
            "stale_s": dict(sample.stale_s),
            "held": dict(sample.held),
            "spent_s": {"queued": begun_s - question.arrived_s, "model": model_s, "total": total_s},
            "bundle": manifest.name,
            "digest": self._model.digest,
        }
        self._send(question.asker, Packet("answer", fields))

    def _refuse(self, client: bytes, packet: Packet | None, code: str, sentence: str) -> None:
        said = {} if packet is None else packet.fields
        if said.get("ask"):
            self.counts.add("refused_questions")
        stream = said.get("stream")
        self._tell_refusal(
            client, None if stream is None else stream[:LONGEST_STREAM], said.get("index"), code, sentence
        )

    def _refuse_question(self, question: Question, refusal: FrameRefused) -> None:
        self.counts.add("refused_questions")
        self._tell_refusal(question.asker, question.stream, question.index, refusal.code, str(refusal))

    def _tell_refusal(self, client: bytes, stream: str | None, index: int | None, code: str, sentence: str) -> None:
        self.counts.add("refused", code)
        fields = {"stream": stream, "index": index, "code": code, "sentence": sentence[:_LONGEST_SENTENCE]}
        self._send(client, Packet("refused", fields))

    def _drop(self, question: Question, reason: str) -> None:
        self.counts.add("dropped", reason)
        fields = {"stream": question.stream, "index": question.index, "time_s": question.time_s, "reason": reason}
        self._send(question.asker, Packet("dropped", fields))

    def _send(self, client: bytes, packet: Packet) -> None:
        """A client that is gone, or that reads nothing, must not hold up the others; it is counted."""
        try:
            self._socket.send_multipart([client, *pack_packet(packet, TO_CLIENT)], zmq.NOBLOCK)
        except zmq.Again:
            self.counts.add("unsent", "full")
        except zmq.ZMQError:
            self.counts.add("unsent", "gone")
            self._clients.pop(client, None)

    # --- the model ---------------------------------------------------------------------------------------------------

    def _swap(self) -> None:
        """Go on with a new bundle, if there is one that fits; between two batches, so no question notices."""
        loaded = None if self._reloader is None else self._reloader.loaded()
        if loaded is None:
            return
        result, sentence = self._swapped(loaded)
        self.counts.add("reloads", result)
        self._say(sentence)

    def _swapped(self, loaded: Bundle | BundleError) -> tuple[str, str]:
        name = self._model.manifest.name
        if isinstance(loaded, BundleError):
            return "refused", f"reload refused, {name} is served on: {loaded}"
        model = ServedModel(loaded)
        if model.digest == self._model.digest:
            return "same", f"reload: {name} is the same as before"
        if [_form(one) for one in model.manifest.inputs] != [_form(one) for one in self._model.manifest.inputs]:
            return "refused", (
                f"reload refused, {name} is served on: {model.manifest.name} takes other inputs, and no window of now"
                " would fit; start a server of its own for it"
            )
        self._model = model
        self._tell_model()
        return "swapped", f"reload: {model.manifest.name} is served from now on, digest {model.digest[:12]}"

    def _tell_model(self) -> None:
        manifest, session = self._model.manifest, self._model.bundle.session
        self.counts.set_model(
            {
                "name": manifest.name,
                "digest": self._model.digest,
                "precision": manifest.precision,
                "provider": session.provider,
            }
        )

    def _tell_gauges(self) -> None:
        self.counts.set_gauge("waiting", "Questions that wait for the model.", len(self._questions))
        self.counts.set_gauge("streams", "Streams with a window.", len(self._streams))
        self.counts.set_total("streams_evicted", self._streams.n_evicted)


def _form(spec: Any) -> dict[str, Any]:
    """What of an input decides whether a window fits: all but words for people."""
    return {name: value for name, value in asdict(spec).items() if name != "meaning"}


def _check_rates(manifest: Manifest) -> None:
    rates = {spec.rate_hz for spec in manifest.inputs}
    if len(rates) > 1:
        raise ConfigError(
            f"bundle {manifest.name} has inputs of {len(rates)} rates; sensors of a stream count the same instants, so"
            " only bundles of one rate can be served"
        )
