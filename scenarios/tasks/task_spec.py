"""Specification of a task: question, scores, and texts for tables and exported models. Imports no torch.

A `Task` knows nothing of where its samples come from; a `SensorTask` also cuts them from what sensors recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.site_geometry import PositionAxes
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BlockageLabel
from ...emulator.contracts import MODALITY_SPECS, ConfigError, InputWindow, Labels, Modality
from ...emulator.edge.manifest import OutputSpec

Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a score table.

    Attributes:
        key: key of the score.
        title: heading in tables.
        form: format of a value for `str.format`, with the unit behind it.
        better: whether higher or lower values are better.
        over_clients: a statistic over clients, such as their standard deviation; no client alone has it.
        absent: why it is not available where no score has it; empty: it always is.
    """

    key: str
    title: str
    form: str = "{:.3f}"
    better: Literal["higher", "lower"] = "higher"
    over_clients: bool = False
    absent: str = ""

    def gain(self, value: float, other: float) -> float:
        """How much better a value is than another; negative where it is worse."""
        return value - other if self.better == "higher" else other - value

    def rank(self, value: float) -> float:
        """Number by which values are ranked: the best has the largest."""
        return self.gain(value, 0.0)


class Outputs(NamedTuple):
    """Outputs of a model.

    Attributes:
        identities: [n_outputs] identity of every output: equal numbers of two groups stand for the same class.
        labels: name of every class; empty where the answer is a value, or several of yes and no.
        meaning: text about the outputs, for exported models.
    """

    identities: tuple[int, ...]
    labels: tuple[str, ...]
    meaning: str

    @property
    def n(self) -> int:
        """Number of outputs."""
        return len(self.identities)


@dataclass(frozen=True, slots=True)
class InputDescription:
    """Description of one input of a model, for model cards and exported models.

    Attributes:
        window: frames that make up the input.
        shape: shape of one sample, without the batch.
        unit: unit of the values, one per column where columns differ.
        meaning: meaning and order of the values.
    """

    window: InputWindow
    shape: tuple[int, ...]
    unit: str
    meaning: str

    def as_dict(self) -> dict[str, Any]:
        """Description as it is stored in the metadata of an ONNX file."""
        return {
            "shape": self.shape,
            "unit": self.unit,
            "meaning": self.meaning,
            "frames": self.window.frames,
            "frame_axis": self.window.axis,
            "lag": self.window.lag,
        }


def described_inputs(samples: Samples, texts: Mapping[Modality, tuple[str, str]]) -> dict[Modality, InputDescription]:
    """Modality -> its input in these samples.

    Args:
        samples: samples with the described windows and shapes.
        texts: modality -> unit and meaning, for all modalities of the task.
    """
    return {
        modality: InputDescription(samples.windows[modality], shape, *texts[modality])
        for modality, shape in samples.input_shapes.items()
    }


def described_frames(samples: Samples, data: TaskData) -> dict[Modality, InputDescription]:
    """Modality -> its input in samples whose inputs are the last frames up to now."""
    span = f"in the last {data.window} frames up to now, oldest first"
    specs = {modality: MODALITY_SPECS[modality] for modality in samples.modalities}
    texts = {
        modality: (spec.unit, f"{spec.values} {span}; axes: {spec.window_axes}") for modality, spec in specs.items()
    }
    return described_inputs(samples, texts)


def refuse_beam_order(task: str, data: TaskData) -> None:
    """Refuse other orders of beams for a task whose labels are no beams.

    Raises:
        ConfigError: one is set.
    """
    if data.beam_order != "same":
        raise ConfigError(
            f"data.beam_order must be 'same' for task {task!r}, whose labels are not beams, got {data.beam_order!r}"
        )


def top_probability(answers: Sequence[Answers]) -> NDArray[np.float64]:
    """[n] probability of the class that is chosen, by the softmax of each answer's logits."""
    logits = np.concatenate([one.logits for one in answers]).astype(np.float64)
    return np.asarray(1.0 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))


def mean_scores(members: Sequence[Scores]) -> dict[str, float]:
    """Mean over clients or base stations; where a score is not defined for some, over the others."""
    keys = dict.fromkeys(key for member in members for key in member)
    return {key: float(np.mean([member[key] for member in members if key in member])) for key in keys}


class Answers(NamedTuple):
    """Answers of one client's model on its held-out samples.

    Attributes:
        logits: [n, n_outputs].
        samples: n samples of the task.
        rate_hz: nominal number of frames per second.
    """

    logits: NDArray[np.floating[Any]]
    samples: Any
    rate_hz: float


class KnownBlockages(NamedTuple):
    """Blockages around samples, for tasks whose answers are warnings.

    Attributes:
        blocked: [n] bool, whether the newest frame of each sample is blocked.
        soon: [n] bool, whether one of the `horizon` frames after it is blocked: the right answer.
        horizon: prediction horizon in frames.
    """

    blocked: NDArray[np.bool_]
    soon: NDArray[np.bool_]
    horizon: int


class KnownBeams(NamedTuple):
    """Powers of the beams that answers choose among.

    Attributes:
        powers: [n, n_beams] linear received power of the newest frame, in the base station's own numbers; all NaN in
            samples whose best beam is known without powers.
        numbering: [n_beams] beam of the codebook that each number stands for.
    """

    powers: NDArray[np.float64]
    numbering: NDArray[np.int64]


class TaskData(Protocol):
    """The part of a scenario's data section that tasks read; see `DataSection` for the meaning of the fields.

    Tasks know no more of it, so that the scenario can name tasks and tasks need not know scenarios.
    """

    @property
    def n_beams(self) -> int: ...
    @property
    def beam_order(self) -> str: ...
    @property
    def window(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def position_axes(self) -> PositionAxes: ...
    @property
    def label(self) -> Literal["", BlockageLabel]: ...
    @property
    def fades_db(self) -> tuple[float, float]: ...


@runtime_checkable
class Task(Protocol):
    """Question to clients. Groups of clients may have data sections of their own, passed as `data`."""

    @property
    def title(self) -> str:
        """Title of score tables."""
        ...

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities that can be inputs."""
        ...

    @property
    def encoders(self) -> Mapping[Modality, str]:
        """Encoders of inputs that are none of the modality's usual windows, keys of `encoder_table.ENCODERS`."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of score tables; the first one ranks models, and every client has it."""
        ...

    @property
    def labels(self) -> Literal["classes", "values", "several"]:
        """What is learned about a sample: which class it has, a value, or yes or no of several outputs."""
        ...

    @property
    def objective(self) -> str:
        """Loss that training minimizes, a name of `objectives.OBJECTIVES`."""
        ...

    @property
    def group_fields(self) -> tuple[str, ...]:
        """Fields of the data section that a group of clients may set for itself."""
        ...

    def check(self, data: TaskData) -> None:
        """Refuse settings that do not fit the task.

        Raises:
            ConfigError: naming the field.
        """
        ...

    def outputs(self, data: TaskData, samples: Samples) -> Outputs:
        """Outputs of a model of a client with these samples."""
        ...

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        """Modality -> description of its input, for model cards and exported models."""
        ...

    def scores(self, logits: NDArray[np.floating[Any]], samples: Any) -> Scores:
        """Scores of logits [n, n_outputs] on n samples of this task."""
        ...

    def baselines(self, train: Any, test: Any) -> Mapping[str, Scores]:
        """Name -> scores of a prediction without a model, on the test samples."""
        ...


@runtime_checkable
class DiagnosedTask(Protocol):
    """Task that shows more of held-out answers than scores; one that does not, such as a plugin's, is a task too."""

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        """Curves over the answers of several clients together, by name, as plain numbers; see `datasets.curves`.

        Args:
            answers: of each client, one at least; their models have the same outputs.
        """
        ...


@runtime_checkable
class SensorTask(Task, Protocol):
    """Question to base stations about what their sensors recorded."""

    @property
    def needs(self) -> tuple[Modality, ...]:
        """Modalities that must be recorded for labels and scores, whether or not a client owns them."""
        ...

    @property
    def color(self) -> bool:
        """Whether images have three color channels, not grey levels."""
        ...

    @property
    def decision(self) -> Literal["handover", "beam"]:
        """Decision that answers control: a handover, or the choice of a beam; see `scenarios.value`."""
        ...

    @property
    def swept(self) -> tuple[Modality, ...]:
        """Inputs with one column per beam of the codebook."""
        ...

    def samples(
        self, sensed: SensedFrames, modalities: tuple[Modality, ...], data: TaskData, *, may_be_empty: bool = False
    ) -> Samples:
        """All samples of a base station with inputs of these modalities.

        Raises:
            ConfigError: settings that do not fit the recording.
            DataError: the recording lacks something, or is too short for one sample (unless it may be).
        """
        ...

    def outputs(self, data: TaskData, samples: Samples | None = None) -> Outputs:
        """Outputs of a model, before a base station has numbered its beams; see `Member.outputs`.

        They follow from the settings alone, whatever the samples.
        """
        ...

    def known_blockages(self, samples: Any) -> KnownBlockages | None:
        """Blockages around samples of this task; None where answers are no warnings."""
        ...

    def known_beams(self, samples: Any) -> KnownBeams | None:
        """Beam powers of samples of this task; None where answers choose no beam."""
        ...


@runtime_checkable
class ForecastTask(Protocol):
    """Task whose answers forecast outage in each of the next frames, which a plan can be made over."""

    def forecast_output(self, data: TaskData, rate_hz: float) -> OutputSpec:
        """Meaning of the logits of a bundle, which warns from logit 0 on, with temperature 1.

        Args:
            data: settings of the client.
            rate_hz: frames per second.
        """
        ...

    def warning_logits(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """[n] logit of a warning, which answers [n, n_outputs] amount to."""
        ...

    def soon(self, label: Labels) -> NDArray[np.bool_]:
        """[n] right answer of the warning, from labels [n, n_outputs]."""
        ...

    def outage_odds(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """[n, 2, n_ahead] probability of outage in each of the frames to come, at own and at the neighbor's strength.

        Args:
            logits: [n, n_outputs] answers.
        """
        ...
