"""Specification of a task: samples, scores, and texts for tables and exported models. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BlockageLabel
from ...emulator.contracts import InputWindow, Modality

Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a score table.

    Attributes:
        key: key of the score.
        title: heading in tables.
        form: format of a value for `str.format`, with the unit behind it.
    """

    key: str
    title: str
    form: str = "{:.3f}"


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


def mean_scores(members: Sequence[Scores]) -> dict[str, float]:
    """Mean over clients or base stations; where a score is not defined for some, over the others."""
    keys = dict.fromkeys(key for member in members for key in member)
    return {key: float(np.mean([member[key] for member in members if key in member])) for key in keys}


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
        powers: [n, n_beams] linear received power of the newest frame, in the base station's own numbers.
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
    def label(self) -> Literal["", BlockageLabel]: ...


class TaskSpec(Protocol):
    """Prediction task of base stations. Groups of clients may have data sections of their own, passed as `data`."""

    @property
    def title(self) -> str:
        """Title of score tables."""
        ...

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities that can be inputs."""
        ...

    @property
    def needs(self) -> tuple[Modality, ...]:
        """Modalities that must be recorded for labels and scores, whether or not a client owns them."""
        ...

    @property
    def encoders(self) -> Mapping[Modality, str]:
        """Encoders of inputs that are none of the modality's usual windows, keys of `encoder_table.ENCODERS`."""
        ...

    @property
    def color(self) -> bool:
        """Whether images have three color channels, not grey levels."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of score tables; the first one ranks models."""
        ...

    @property
    def decision(self) -> Literal["handover", "beam"]:
        """Decision that answers control: a handover, or the choice of a beam; see `scenarios.value`."""
        ...

    @property
    def objective(self) -> str:
        """Loss that training minimizes, a name of `encoders.OBJECTIVES`."""
        ...

    @property
    def group_fields(self) -> tuple[str, ...]:
        """Fields of the data section that a group of clients may set for itself."""
        ...

    @property
    def swept(self) -> tuple[Modality, ...]:
        """Inputs with one column per beam of the codebook."""
        ...

    def check(self, data: TaskData) -> None:
        """Refuse settings that do not fit the task.

        Raises:
            ConfigError: naming the field.
        """
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

    def n_outputs(self, data: TaskData) -> int:
        """Number of logits of a model."""
        ...

    def output_identities(self, data: TaskData) -> tuple[int, ...]:
        """[n_outputs] identity of every logit: equal numbers in two groups stand for the same class.

        Before a base station has numbered its beams; see `Member.outputs`.
        """
        ...

    def labels(self, data: TaskData) -> list[str]:
        """Name of every class."""
        ...

    def output_description(self, data: TaskData) -> str:
        """Text about the meaning of the logits, for exported models."""
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

    def known_blockages(self, samples: Any) -> KnownBlockages | None:
        """Blockages around samples of this task; None where answers are no warnings."""
        ...

    def known_beams(self, samples: Any) -> KnownBeams | None:
        """Beam powers of samples of this task; None where answers choose no beam."""
        ...
