"""Serves one bundle: takes frames from any number of sensors, runs the model, answers, and counts all of it.

One thread does everything, in turns: take what has arrived, then run the model once for the requests that wait. While
the model runs ZeroMQ keeps on receiving; what does not fit there waits at the sender, so nothing is lost on the way in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ...contracts import ConfigError
from ...network.transport.curve_keys import CurveKeys, check_address
from ...network.transport.errors import WireError
from ...network.transport.packets import Packet, unpack_packet
from ..bundle import Bundle
from ..frame_packets import LONGEST_STREAM, TO_SERVER, FrameRefused, check_stream, unpack_frames
from ..manifest import BundleError, InputSpec, Manifest
from ..onnx_session import OnnxSession
from .answering import InferenceRequest, ModelAnswer, RequestQueue, ServedModel
from .drift_reports import DriftReports
from .inference_protocol import ModelInterface
from .metrics import Counts
from .reloading import BundleReloader
from .serving_settings import ServingSettings
from .serving_socket import ServingSocket
from .stream_windows import Streams, stream_bytes
from .tensor_requests import ModelOutputs, TensorRequests, settle
from .version_trial import VersionTrial

#: Packets taken before the model runs again, so that senders cannot keep it from running.
_MOST_TAKEN = 256
_WIDEST_NUMBER_BYTES = 8
_WAIT_S = 0.1
_LONGEST_SENTENCE = 300  # a refusal may quote what an unknown client sent
#: A server whose loop has not turned for so long hangs.
_HANGS_AFTER_S = 10.0


class Server:
    """A bundle behind a socket; belongs to the thread that made it.

    Args:
        bundle: loaded and found whole.
        address: tcp://HOST:PORT, port * for a free one, or ipc://FILE.
        settings: bounds of streams, requests and times; None: the defaults.
        keys: keys of this end; needed beyond this host.
        reloader: source of new bundles; None: there are none.
        tensors: source of requests with whole inputs; None: there are none.
        say: called with events that an operator should know, one sentence each.
        warn: called with sentences about streams that are not like training.

    Attributes:
        address: address with the port in use.
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
        tensors: TensorRequests | None = None,
        say: Callable[[str], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_address(address, keys, "server")
        _check_rates(bundle.manifest)
        self.settings = chosen = settings or ServingSettings()
        self.counts = Counts()
        self._reloader, self._tensors, self._say, self._warn = reloader, tensors, say, warn
        self._model = ServedModel(bundle)
        self._drift = self._new_drift()
        self._trial = VersionTrial(chosen.trial_s)
        self._trial.begin(time.monotonic())
        inputs = bundle.manifest.inputs
        self._streams = Streams(inputs, chosen.hold, chosen.streams, chosen.idle_s)
        self._requests = RequestQueue(chosen.waiting, chosen.waiting_in_all)
        self._turned_s = time.monotonic()
        # Frames may come as any of `DTYPES`, float64 being the widest.
        frame_bytes = [int(np.prod(spec.frame_shape)) * _WIDEST_NUMBER_BYTES for spec in inputs]
        self._socket = ServingSocket(
            address, keys, frame_bytes=frame_bytes, n_connections=chosen.streams, timeout_s=_WAIT_S
        )
        if tensors is not None:
            self._socket.wake_by(tensors.fileno())
        self.address = self._socket.address
        self._show_model()

    @property
    def window_bytes(self) -> int:
        """Memory of all windows, if every stream and sensor is there."""
        return self.settings.streams * stream_bytes(self._model.manifest.inputs, self.settings.hold)

    @property
    def session(self) -> OnnxSession:
        """Session of the model that is served now."""
        return self._model.bundle.session

    @property
    def interface(self) -> ModelInterface:
        """Inputs and outputs of the model that is served now; any thread may ask for it."""
        return self._model.interface

    def is_alive(self) -> bool:
        """Whether its loop still turns; any thread may call this."""
        return time.monotonic() - self._turned_s < _HANGS_AFTER_S

    def serve(self, stops: Callable[[], bool]) -> None:
        """Serve until `stops` returns True, then finish what was taken and send farewells."""
        while not stops():
            self.turn()
        self.finish()

    def turn(self, wait_s: float = _WAIT_S) -> None:
        """Take what has arrived, answer one batch.

        Args:
            wait_s: longest wait for a packet, where no request waits.
        """
        # Once per turn, so that `is_alive` notices a model that never returns.
        self._turned_s = time.monotonic()
        self._reload()
        # Waiting requests must not wait for packets.
        if self._arrived(0.0 if self._requests or self._tensors else wait_s):
            self._take()
        self._answer()
        self._answer_tensors()
        self._show_gauges()

    def finish(self) -> None:
        """Answer what has arrived, within `finish_s`; drop the other requests, and send a farewell to all clients."""
        limit_s = time.monotonic() + self.settings.finish_s
        # Answers in between, because the queues drop the oldest where too much is taken at once.
        while time.monotonic() < limit_s:
            self._turned_s = time.monotonic()  # a server that finishes is alive
            if self._arrived(0.0):
                self._take()
            elif not self._requests and not self._tensors:
                break
            self._answer()
            self._answer_tensors()
        if self._tensors is not None:
            self._tensors.stop()
        for request in self._requests.take(len(self._requests)):
            self._drop(request, "leaving")
        for client in list(self._socket.clients):
            self._send(client, Packet("bye", {"sentence": "the server stops; all questions that it took are settled"}))
        self._show_gauges()

    def close(self) -> None:
        """Free the sockets; what was sent has a second to leave."""
        self._socket.close()

    # --- in ----------------------------------------------------------------------------------------------------------

    def _arrived(self, wait_s: float) -> bool:
        is_there = self._socket.arrived(wait_s)
        self.counts.set_total("strangers", self._socket.n_refused)
        self.counts.set_total("cut_off", self._socket.n_cut)
        self.counts.set_total("abandoned", self._socket.n_abandoned)
        return is_there

    def _take(self) -> None:
        for _ in range(_MOST_TAKEN):
            received = self._socket.received()
            if received is None:
                return
            self._take_packet(*received)

    def _take_packet(self, client: bytes, parts: Sequence[memoryview]) -> None:
        self.counts.add("packets")
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
            self._show_gauges()
            self._send(client, Packet("healthy", {"report": self.counts.report()}))

    def _take_frames(self, client: bytes, packet: Packet) -> None:
        # Before unpacking, whose time is part of what a client waits.
        arrived_s = time.monotonic()
        stream, index, time_s, ask = (packet.fields[name] for name in ("stream", "index", "time_s", "ask"))
        time_s = float(time_s)  # which may come as a whole number
        # Counted before it can be refused, so that the sums of `counts.py` stay equal.
        if ask:
            self.counts.add("questions")
        frames = unpack_frames(packet)
        windows = self._streams.of(stream, arrived_s)
        # Taken also where the answer is refused later, such as with `not_ready`.
        windows.put(index, time_s, frames, arrived_s, packet.fields.get("boot"))
        self._streams.keep(stream, windows, arrived_s)
        for modality in frames:
            self.counts.add("frames", modality)
        if not ask:
            return
        # the sample is cut now, so that frames which come while the request waits do not change it
        sample = windows.sample(index, time_s)
        self._model.check_ready(sample)
        if lost := self._requests.put(InferenceRequest(client, stream, index, time_s, sample, arrived_s)):
            self._drop(*lost)

    # --- out ---------------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        requests = self._requests.take(self.settings.batch)
        if not requests:
            return
        begun_s = time.monotonic()
        try:
            answers = self._model.answer([request.sample for request in requests])
        except FrameRefused as failure:
            for request in requests:
                self._refuse_request(request, failure)
            return
        model_s = time.monotonic() - begun_s
        self.counts.ran(model_s)
        for request, answer in zip(requests, answers, strict=True):
            self._reply(request, answer, begun_s, model_s)

    def _answer_tensors(self) -> None:
        """Run the model for one request with whole inputs; streams have their turn before the next one."""
        taken = None if self._tensors is None else self._tensors.take()
        if taken is None:
            return
        inputs, future = taken
        begun_s = time.monotonic()
        try:
            outputs: ModelOutputs | FrameRefused = self._model.run(inputs)
            self.counts.ran(time.monotonic() - begun_s)
        except FrameRefused as failure:
            outputs = failure
        settle(future, outputs)

    def _reply(self, request: InferenceRequest, answer: ModelAnswer, begun_s: float, model_s: float) -> None:
        sample, manifest = request.sample, self._model.manifest
        now_s = time.monotonic()
        total_s = now_s - request.arrived_s
        self.counts.answered(total_s)
        for modality in sample.missing:
            self.counts.add("answers_without", modality)
        verdict = self._drift.take(request, answer, now_s)
        if self._trial.fails(request.stream, verdict, now_s):
            self._roll_back(request.stream)
        fields: dict[str, Any] = {
            "stream": request.stream,
            "index": request.index,
            "time_s": request.time_s,
            "label": manifest.output.labels[answer.label_index],
            "label_index": answer.label_index,
            "probability": answer.probabilities[answer.label_index],
            "probabilities": answer.probabilities,
            "logits": answer.logits,
            "attention": answer.attention,
            "missing": list(sample.missing),
            "stale_s": dict(sample.stale_s),
            "held": dict(sample.held),
            "spent_s": {"queued": begun_s - request.arrived_s, "model": model_s, "total": total_s},
            "bundle": manifest.name,
            "digest": self._model.digest,
            **self._model.ahead(answer),
            **verdict.fields(),
        }
        self._send(request.client, Packet("answer", fields))

    def _refuse(self, client: bytes, packet: Packet | None, code: str, sentence: str) -> None:
        fields = {} if packet is None else packet.fields
        if fields.get("ask"):
            self.counts.add("refused_questions")
        stream = fields.get("stream")
        self._send_refusal(
            client, None if stream is None else stream[:LONGEST_STREAM], fields.get("index"), code, sentence
        )

    def _refuse_request(self, request: InferenceRequest, refusal: FrameRefused) -> None:
        self.counts.add("refused_questions")
        self._send_refusal(request.client, request.stream, request.index, refusal.code, str(refusal))

    def _send_refusal(self, client: bytes, stream: str | None, index: int | None, code: str, sentence: str) -> None:
        self.counts.add("refused", code)
        fields = {"stream": stream, "index": index, "code": code, "sentence": sentence[:_LONGEST_SENTENCE]}
        self._send(client, Packet("refused", fields))

    def _drop(self, request: InferenceRequest, reason: str) -> None:
        self.counts.add("dropped", reason)
        fields = {"stream": request.stream, "index": request.index, "time_s": request.time_s, "reason": reason}
        self._send(request.client, Packet("dropped", fields))

    def _send(self, client: bytes, packet: Packet) -> None:
        if (result := self._socket.send(client, packet)) != "sent":
            self.counts.add("unsent", result)

    # --- the model ---------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Go on with a new bundle, if there is one that fits; between two batches, so that no request is lost."""
        loaded = None if self._reloader is None else self._reloader.loaded()
        if loaded is None:
            return
        result, sentence = self._reloaded(loaded)
        self.counts.add("reloads", result)
        self._say(sentence)

    def _reloaded(self, loaded: Bundle | BundleError) -> tuple[str, str]:
        """Outcome of a new bundle, one of `RELOADS`, and a sentence about it."""
        name = self._model.manifest.name
        if isinstance(loaded, BundleError):
            return "refused", f"reload refused, {name} is served on: {loaded}"
        model = ServedModel(loaded)
        if model.digest == self._model.digest:
            return "same", f"reload: {name} is the same as before"
        # Windows that are being filled, and samples that wait, go on with the new model.
        if _forms(model.manifest.inputs) != _forms(self._model.manifest.inputs):
            return "refused", (
                f"reload refused, {name} is served on: {model.manifest.name} takes other inputs, and no window of now"
                " would fit; start a server of its own for it"
            )
        self._trial.begin(time.monotonic(), self._drift.watch.drifted)
        self._model = model
        self._drift = self._new_drift()
        self._show_model()
        return "swapped", f"reload: {model.manifest.name} is served from now on, digest {model.digest[:12]}"

    def _roll_back(self, stream: str) -> None:
        """Give the place of this version to the newest other one; until that is loaded, this one serves on."""
        self._trial.end()
        if self._reloader is None:
            return
        version = self._model.bundle.path
        self.counts.add("reloads", "rolled_back")
        self._warn(f"version {version.name} is given up, because stream {stream} drifts since it came")
        self._reloader.reject(version)

    def _new_drift(self) -> DriftReports:
        return DriftReports(self._model.manifest, self.settings.streams, self.counts, self._warn)

    def _show_model(self) -> None:
        manifest, session = self._model.manifest, self._model.bundle.session
        self.counts.set_model(
            {
                "name": manifest.name,
                "digest": self._model.digest,
                "precision": manifest.precision,
                "provider": session.provider,
                "version": self._model.bundle.path.name,
                "drift": "known" if manifest.drift is not None else "unknown",
            }
        )

    def _show_gauges(self) -> None:
        self.counts.set_gauge("waiting", "Questions that wait for the model.", len(self._requests))
        self._drift.show_gauge()
        self.counts.set_gauge("streams", "Streams with a window.", len(self._streams))
        self.counts.set_total("streams_evicted", self._streams.n_evicted)


def _forms(inputs: Sequence[InputSpec]) -> list[InputSpec]:
    """Parts of inputs that decide whether windows fit: all but words for people."""
    return [replace(spec, meaning="") for spec in inputs]


def _check_rates(manifest: Manifest) -> None:
    rates = {spec.rate_hz for spec in manifest.inputs}
    if len(rates) > 1:
        raise ConfigError(
            f"bundle {manifest.name} has inputs of {len(rates)} rates; sensors of a stream count the same instants, so"
            " only bundles of one rate can be served"
        )
