"""Manifest of a bundle: inputs, outputs, origin and scores of its model, and every file's hash.

Reading one is in `manifest_reader`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ..contracts import MODALITY_SPECS, InputWindow, Modality, SheafedgeError

FORMAT = "sheafedge-bundle"
VERSION = 1

OutputKind = Literal["binary", "classes", "forecast"]

#: Far above every model here, far below what hurts a device.
MOST_VALUES = 1 << 26
#: Of all files of a bundle together: a device must not be filled by a file that claims to be small.
MOST_BYTES = 1 << 28
#: Of a reading that stands for nothing seen; float32 holds it.
MOST_READING = 1e9
#: Of a forecast, all frames of all series; an answer has a number for each.
MOST_FORECASTS = 1 << 12


class BundleError(SheafedgeError, ValueError):
    """A bundle is damaged, incomplete or changed, or a file is no bundle; the message names the file or field."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of the model, and which frames of a sensor make it.

    Attributes:
        window: modality, which is also the name of the graph's input, and its frames in a sample.
        shape: shape of one sample, without the batch.
        rate_hz: rate of the sensor's frames when the model was trained.
        unit: unit of the values.
        meaning: meaning of the values, for people.
        nothing: reading where the sensor saw nothing, such as the reach of a LiDAR; None: no reading stands for that.

    Raises:
        BundleError: the frames of the window do not make a sample of this shape, or a size or reading is too large.
    """

    window: InputWindow
    shape: tuple[int, ...]
    rate_hz: float
    unit: str
    meaning: str
    nothing: float | None = None

    def __post_init__(self) -> None:
        axis = self.window.axis
        if axis is not None and (axis >= len(self.shape) or self.shape[axis] != self.window.frames):
            raise BundleError(
                f"input {self.modality}: {self.window.frames} frames along axis {axis} do not make a sample of shape"
                f" {list(self.shape)}"
            )
        # A server keeps all frames from the oldest of a sample to now.
        kept = math.prod(self.frame_shape) * (self.window.reach + 1)
        if max(math.prod(self.shape), kept) > MOST_VALUES:
            raise BundleError(
                f"input {self.modality}: a sample of shape {list(self.shape)} and lag {self.window.lag} is too large"
            )
        if self.nothing is not None and (not abs(self.nothing) <= MOST_READING or not self.shape):
            raise BundleError(f"input {self.modality}: {self.nothing:g} cannot stand for nothing seen")

    @property
    def modality(self) -> Modality:
        """Modality of the frames, and name of the graph's input."""
        return self.window.modality

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of what the sensor gives at one instant."""
        return self.window.frame_shape(self.shape)

    @property
    def blank(self) -> NDArray[np.float32]:
        """[*shape] what stands in the place of a lost sensor: nothing seen, and zeros where no reading says so."""
        value = np.zeros(self.shape, dtype=np.float32)
        if self.nothing is not None:
            value[MODALITY_SPECS[self.modality].readings] = self.nothing
        return value

    def as_dict(self) -> dict[str, Any]:
        """The object of `manifest.json`."""
        return {
            "modality": self.modality,
            "shape": self.shape,
            "frame_shape": self.frame_shape,
            "frames": self.window.frames,
            "frame_axis": self.window.axis,
            "lag": self.window.lag,
            "rate_hz": self.rate_hz,
            "unit": self.unit,
            "meaning": self.meaning,
            "nothing": self.nothing,
        }


@dataclass(frozen=True, slots=True)
class ForecastSpec:
    """Times ahead that the logits of a forecast of outage are about, for receivers of different strength.

    Logit `s * len(ahead_s) + k` is that of outage `ahead_s[k]` from now, of series s. `docs/edge.md` has an example.

    Attributes:
        series: name of every series, such as "own" and "neighbor".
        fades_db: per series, power so far below its median with a clear view, or further, is outage.
        ahead_s: times from the sample to the instants of the logits, ascending.
        warned: so many of the first times of the first series make the label: outage at any of them is warned of.
    """

    series: tuple[str, ...]
    fades_db: tuple[float, ...]
    ahead_s: tuple[float, ...]
    warned: int

    def __post_init__(self) -> None:
        if not self.series or len({*self.series}) != len(self.series) or len(self.fades_db) != len(self.series):
            raise BundleError(
                f"output.forecast: {len(self.series)} series with {len(self.fades_db)} fades; it needs different names"
                " of series, at least one, and a fade for each"
            )
        times_s = (0.0, *self.ahead_s)
        if len(times_s) < 2 or any(one >= later for one, later in pairwise(times_s)):
            raise BundleError("output.forecast: ahead_s must be times above 0 that ascend, at least one")
        if not 1 <= self.warned <= len(self.ahead_s):
            raise BundleError(f"output.forecast: warned must lie in 1 to {len(self.ahead_s)}, got {self.warned}")
        if self.n_outputs > MOST_FORECASTS:
            raise BundleError(f"output.forecast: {self.n_outputs} numbers are more than {MOST_FORECASTS}")

    @property
    def n_outputs(self) -> int:
        """Logits per sample."""
        return len(self.series) * len(self.ahead_s)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Meaning of the logits.

    Attributes:
        kind: binary: one logit, above `threshold` stands for the second label; classes: one logit per label; forecast:
            one per time ahead and series, the largest of those that are warned of above `threshold` likewise.
        labels: labels of the answers.
        meaning: meaning of the answers, for people.
        threshold: threshold of a binary logit, or of a warning.
        horizon_s: time from the sample to the instant that the answer is about; 0: it is about now.
        codebook: beam of the whole codebook that each label stands for; empty where labels are no beams.
        temperature: what logits are divided by before they become probabilities; above 0.
        prior_shift: what is added to the scaled logit of every label then, to undo weights of training; empty: nothing.
            `label_probabilities` has the formula.
        forecast: times ahead and series of a forecast; None: it is none.
    """

    kind: OutputKind
    labels: tuple[str, ...]
    meaning: str
    threshold: float = 0.0
    horizon_s: float = 0.0
    codebook: tuple[int, ...] = ()
    temperature: float = 1.0
    prior_shift: tuple[float, ...] = ()
    forecast: ForecastSpec | None = None

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or (self.kind != "classes" and len(self.labels) != 2):
            raise BundleError(f"output: kind {self.kind} does not go with {len(self.labels)} labels")
        if self.codebook and len(self.codebook) != len(self.labels):
            raise BundleError(f"output: {len(self.codebook)} beams of the codebook for {len(self.labels)} labels")
        if (self.kind == "forecast") != (self.forecast is not None):
            raise BundleError(f"output: kind {self.kind} does not go with forecast {self.forecast}")
        if self.prior_shift and len(self.prior_shift) != len(self.labels):
            raise BundleError(f"output: {len(self.prior_shift)} shifts for {len(self.labels)} labels")
        # weights of classes would stand in every frame's logit, and belong to none of the two labels
        if self.prior_shift and self.forecast is not None:
            raise BundleError("output: prior_shift does not go with kind forecast")

    @property
    def n_outputs(self) -> int:
        """Logits per sample."""
        if self.forecast is not None:
            return self.forecast.n_outputs
        return 1 if self.kind == "binary" else len(self.labels)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Software that the model needs.

    Attributes:
        opset: opset of ONNX.
        ir_version: version of the file's format.
        onnxruntime: oldest release that can run it, such as "1.20".
    """

    opset: int
    ir_version: int
    onnxruntime: str


@dataclass(frozen=True, slots=True)
class Golden:
    """Samples with the answers that they must get.

    Attributes:
        rows: number of samples in the file.
        tolerance: largest difference of a logit.
    """

    rows: int
    tolerance: float


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Hash and size of a file of a bundle."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class FigureBounds:
    """Values that one figure about an input had in training, see `input_summaries`.

    Attributes:
        low, high: of a single frame.
        window_low, window_high: of its mean over a window of answers.
    """

    low: float
    high: float
    window_low: float
    window_high: float

    def __post_init__(self) -> None:
        if self.low > self.high or self.window_low > self.window_high:
            raise BundleError(f"drift: bounds {self.low:g} to {self.high:g} or their windows' are in the wrong order")


@dataclass(frozen=True, slots=True)
class LabelShares:
    """How often a model answered every label in training.

    Attributes:
        shares: share of every label.
        window: answers that are compared with them together.
        distance: largest total variation distance of their shares to these, at the level of the test.
    """

    shares: tuple[float, ...]
    window: int
    distance: float


@dataclass(frozen=True, slots=True)
class DriftReference:
    """What inputs and answers looked like in training, by which a server sees that they changed.

    Attributes:
        stride: instants between two answers of a window; those in between are not independent of them.
        window: answers in a window of inputs.
        false_alarms: share of windows like those of training that a test calls drifted.
        inputs: modality -> figure of `summary_names` -> its bounds.
        answers: shares of the labels.
    """

    stride: int
    window: int
    false_alarms: float
    inputs: Mapping[str, Mapping[str, FigureBounds]]
    answers: LabelShares


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a bundle.

    Attributes:
        name: name of the bundle, such as "blockage-client-00".
        created_by: release that wrote it.
        task: name of the question.
        question: title of the task, for people.
        precision: that of the numbers inside the model, a name of `PRECISIONS`; inputs and outputs are float32 always.
        runtime: software that it needs.
        inputs: inputs in the order of the graph.
        output: meaning of the output.
        flops: operations of one answer, matrix work only.
        parameters: numbers in the model.
        trained: origin of the model: scenario, algorithm, seed, client and so on.
        metrics: scores as nested objects of numbers; `docs/edge.md` names them.
        golden: facts about `samples.npz`.
        files: name -> facts, of everything but the manifest.
        drift: what inputs and answers looked like in training; None: unknown, as in bundles of earlier releases.
    """

    name: str
    created_by: str
    task: str
    question: str
    precision: str
    runtime: Runtime
    inputs: tuple[InputSpec, ...]
    output: OutputSpec
    flops: float
    parameters: int
    trained: Mapping[str, str | int | float]
    metrics: Mapping[str, Any]
    golden: Golden
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    drift: DriftReference | None = None

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities of the inputs, in their order."""
        return tuple(one.modality for one in self.inputs)

    @property
    def span_s(self) -> float:
        """Seconds from the oldest frame of a sample to now."""
        return max(one.window.reach / one.rate_hz for one in self.inputs)

    def with_files(self, content: Mapping[str, bytes]) -> Self:
        """The same manifest with the facts of these files."""
        facts = {name: FileFacts(hashlib.sha256(data).hexdigest(), len(data)) for name, data in sorted(content.items())}
        return replace(self, files=facts)

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest."""
        return tree_digest(self._tree())

    def as_json(self) -> str:
        """Text of `manifest.json`; its last field is the digest."""
        tree = self._tree()
        return json.dumps({**tree, "digest": tree_digest(tree)}, indent=1, allow_nan=False) + "\n"

    def _tree(self) -> dict[str, Any]:
        inputs = [one.as_dict() for one in self.inputs]
        # `asdict` would nest the window of an input; its fields stand beside the others in the file.
        tree = {"format": FORMAT, "version": VERSION, **asdict(self), "inputs": inputs}
        if self.output.forecast is None:  # releases that know no forecasts read all other bundles
            del tree["output"]["forecast"]
        return tree


def tree_digest(tree: Any) -> str:
    """SHA-256 of a manifest's tree, without the digest itself."""
    if isinstance(tree, dict):
        tree = {name: value for name, value in tree.items() if name != "digest"}
    # sorted and without blanks: the same content has one hash, however its file is laid out
    return hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
