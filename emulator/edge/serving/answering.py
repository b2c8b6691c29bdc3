"""Requests that wait for a served model, and its answers: one run for all that wait together.

Streams take turns, and old requests give way to new ones.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import PRESENT_NAME, Modality
from ..bundle import Bundle
from ..frame_packets import FrameRefused
from ..input_summaries import input_summaries
from ..label_probabilities import decided_labels, forecast_probabilities, label_probabilities
from ..manifest import InputSpec
from .inference_protocol import ModelInterface
from .stream_windows import Sample
from .tensor_requests import ModelOutputs, Tensors


@dataclass(frozen=True, slots=True, eq=False)
class InferenceRequest:
    """A request for one answer.

    Attributes:
        client: identity of the client's socket.
        stream, index, time_s: those of the frames that came with it.
        sample: inputs at the time of the request.
        arrived_s: instant at which it was taken from the socket, on the server's monotonic clock.
    """

    client: bytes
    stream: str
    index: int
    time_s: float
    sample: Sample
    arrived_s: float


class RequestQueue:
    """A bounded queue per stream, and a bound on all of them.

    An answer about an instant that has passed is worth less than one about now, so where too many wait the oldest of
    the same stream goes. Where too many of all streams wait, the stream with the most gives up its oldest:
    clients with many requests cannot take the place of others.

    Args:
        per_stream: requests of a stream that may wait.
        in_all: most waiting requests of all streams.
    """

    def __init__(self, per_stream: int, in_all: int) -> None:
        self._per_stream, self._in_all = per_stream, in_all
        self._waiting: OrderedDict[str, deque[InferenceRequest]] = OrderedDict()  # whose turn it is comes first
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def put(self, request: InferenceRequest) -> tuple[InferenceRequest, str] | None:
        """Let a request wait; if another must go for it, that one and why: `newer` or `full`."""
        own = self._waiting.setdefault(request.stream, deque())
        own.append(request)
        self._n += 1
        if len(own) > self._per_stream:
            return self._lost(request.stream), "newer"
        if self._n > self._in_all:
            # of equally long queues that of the new request gives way
            most = max(self._waiting, key=lambda name: (len(self._waiting[name]), name == request.stream))
            return self._lost(most), "full"
        return None

    def take(self, most: int) -> list[InferenceRequest]:
        """The next requests to be answered together, one of every stream in turn."""
        taken: list[InferenceRequest] = []
        while self._waiting and len(taken) < most:
            # a stream that was served goes to the back of the queue
            name, own = self._waiting.popitem(last=False)
            taken.append(own.popleft())
            if own:
                self._waiting[name] = own
        self._n -= len(taken)
        return taken

    def _lost(self, stream: str) -> InferenceRequest:
        own = self._waiting[stream]
        lost = own.popleft()
        if not own:
            del self._waiting[stream]
        self._n -= 1
        return lost


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Answer of the model about one sample.

    Attributes:
        label_index: chosen.
        probabilities: probabilities of all labels.
        logits: logits of the model.
        attention: modality -> share; empty where the model has none.
        figures: modality -> [n_figures] about its newest frame, see `input_summaries`.
        forecast: series -> probability at every time ahead; empty where the model forecasts nothing.
    """

    label_index: int
    probabilities: list[float]
    logits: list[float]
    attention: dict[Modality, float]
    figures: dict[Modality, NDArray[np.float64]]
    forecast: dict[str, list[float]] = field(default_factory=dict)


class ServedModel:
    """A loaded bundle that answers.

    Args:
        bundle: loaded and found whole.

    Attributes:
        bundle: this one.
        digest: digest of its manifest.
        interface: its inputs and outputs for the Open Inference Protocol.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.manifest = bundle, bundle.manifest
        self.digest = bundle.manifest.digest
        self._masks = PRESENT_NAME in bundle.session.optional_names
        shares = bundle.session.gives_shares
        self.interface = ModelInterface.of(bundle.manifest, masks=self._masks, shares=shares)

    def check_ready(self, sample: Sample) -> None:
        """Refuse a question that the model cannot answer.

        Raises:
            FrameRefused: no modality is there, or one is missing that it cannot do without.
        """
        if not sample.inputs or (sample.missing and not self._masks):
            needed = ", ".join(f"{spec.window.frames} of {spec.modality}" for spec in self.manifest.inputs)
            raise FrameRefused(
                "not_ready",
                f"no whole window yet of {', '.join(sample.missing)}; windows take so many frames in a row: {needed}",
            )

    def answer(self, samples: Sequence[Sample]) -> list[ModelAnswer]:
        """Answer all samples in one run.

        Raises:
            FrameRefused: the model failed.
        """
        # All samples of a batch have all inputs, whole or blank, because an ONNX input has one shape.
        inputs: dict[str, NDArray[np.float32]] = {
            spec.modality: _stacked([_window(sample, spec) for sample in samples]) for spec in self.manifest.inputs
        }
        # what is missing is given as a sensor that sees nothing, and masked where the model knows masks
        if self._masks:
            rows = [[modality in sample.inputs for modality in self.manifest.modalities] for sample in samples]
            inputs[PRESENT_NAME] = np.array(rows, dtype=np.float32)
        found = self.run(inputs)
        shares, figures = found.attention, self._figures(inputs)
        return [
            ModelAnswer(
                int(found.label_index[row]),
                found.probabilities[row].tolist(),
                found.logits[row].astype(np.float64).tolist(),
                {} if shares is None else dict(zip(self.manifest.modalities, map(float, shares[row]), strict=True)),
                {modality: rows[row] for modality, rows in figures.items()},
                {series: odds[row].tolist() for series, odds in found.forecast.items()},
            )
            for row in range(len(samples))
        ]

    def run(self, inputs: Tensors) -> ModelOutputs:
        """Outputs of the model for whole inputs [n, ...], `present` among them or not.

        Raises:
            FrameRefused: the model failed.
        """
        try:
            logits, shares = self.bundle.session.answer(inputs)
        except Exception as error:  # noqa: BLE001 - onnxruntime has a class of its own for every cause
            raise FrameRefused("failed", f"the model failed: {str(error).splitlines()[0][:200]}") from None
        if not np.isfinite(logits).all():
            raise FrameRefused("failed", "the model's logits are not finite; export it again")
        output = self.manifest.output
        return ModelOutputs(
            logits,
            label_probabilities(logits, output),
            decided_labels(logits, output),
            shares,
            forecast_probabilities(logits, output),
        )

    def ahead(self, answer: ModelAnswer) -> dict[str, Any]:
        """Fields of an answer that forecasts: the times ahead, and the probabilities at them; none of others."""
        forecast = self.manifest.output.forecast
        return {} if forecast is None else {"ahead_s": list(forecast.ahead_s), "forecast": answer.forecast}

    def _figures(self, inputs: Mapping[str, NDArray[np.float32]]) -> dict[Modality, NDArray[np.float64]]:
        if self.manifest.drift is None:  # nothing is known to compare them with
            return {}
        return {spec.modality: input_summaries(inputs[spec.modality], spec) for spec in self.manifest.inputs}


def _stacked(windows: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """[n, ...] of n windows; one alone, the usual case, is not copied."""
    return windows[0][np.newaxis] if len(windows) == 1 else np.stack(windows)


def _window(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    window = sample.inputs.get(spec.modality)
    return spec.blank if window is None else window
