"""Specification of a task: which samples it needs, how answers are scored, and how people read it. No torch."""

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
    """A figure of a score table.

    Attributes:
        key: of the score.
        title: for people.
        form: how a value is printed, as `str.format` takes it.
    """

    key: str
    title: str
    form: str = "{:.3f}"


@dataclass(frozen=True, slots=True)
class InputDescription:
    """One input of a model, for people and for exported models.

    Attributes:
        window: which frames make it.
        shape: of one sample, without the batch.
        unit: of the values, with one word per column where columns differ.
        meaning: what the values are, and in which order.
    """

    window: InputWindow
    shape: tuple[int, ...]
    unit: str
    meaning: str

    def as_dict(self) -> dict[str, Any]:
        """What the metadata of an ONNX file hold of it."""
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
        samples: whose windows and shapes are described.
        texts: modality -> unit and meaning, of all that the task takes.
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
    """What samples know of blockages that answers warn about.

    Attributes:
        blocked: [n] bool, whether the newest frame of each sample is.
        soon: [n] bool, whether one of the `horizon` frames after it is: what a right answer says.
        horizon: frames that an answer looks ahead.
    """

    blocked: NDArray[np.bool_]
    soon: NDArray[np.bool_]
    horizon: int


class KnownBeams(NamedTuple):
    """What samples know of the beams that answers choose among.

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
    """What base stations learn to predict. Groups of clients may learn it with other numbers; `data` is their own."""

    @property
    def title(self) -> str:
        """Title of score tables."""
        ...

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """What can be an input."""
        ...

    @property
    def needs(self) -> tuple[Modality, ...]:
        """What must be recorded for labels and scores, whether or not a client owns it."""
        ...

    @property
    def encoders(self) -> Mapping[Modality, str]:
        """Encoders of inputs that are none of the modality's usual windows, keys of `encoder_table.ENCODERS`."""
        ...

    @property
    def color(self) -> bool:
        """Images as red, green and blue, not as grey levels."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Scores worth a column; the first one ranks models."""
        ...

    @property
    def decision(self) -> Literal["handover", "beam"]:
        """What an answer is acted on with: a user is handed over, or a beam is switched; see `scenarios.value`."""
        ...

    @property
    def objective(self) -> str:
        """What training minimizes, a name of `encoders.OBJECTIVES`."""
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
        """Logits of a model."""
        ...

    def output_identities(self, data: TaskData) -> tuple[int, ...]:
        """[n_outputs] what every logit is about, the same number for the same thing in all groups.

        Before a base station has numbered its beams; see `Member.outputs`.
        """
        ...

    def labels(self, data: TaskData) -> list[str]:
        """Name of every class."""
        ...

    def output_description(self, data: TaskData) -> str:
        """What the logits mean, for exported models."""
        ...

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        """Modality -> its input, for people and for exported models."""
        ...

    def scores(self, logits: NDArray[np.floating[Any]], samples: Any) -> Scores:
        """How good these logits [n, n_outputs] are on samples of this task."""
        ...

    def baselines(self, train: Any, test: Any) -> Mapping[str, Scores]:
        """What a model must beat, scored on the same samples."""
        ...

    def known_blockages(self, samples: Any) -> KnownBlockages | None:
        """What samples of this task know of blockages; None where answers are no warnings."""
        ...

    def known_beams(self, samples: Any) -> KnownBeams | None:
        """What samples of this task know of beams; None where answers choose none."""
        ...
