"""Evidence about an exported model: scores on held-out rows, on perturbed ones, and without a sensor.

A model in fewer bits is compared with the trained one, condition by condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...datasets.windows.shifts import SHIFTS
from ...emulator.contracts import PRESENT_NAME, Modality
from ...emulator.edge.label_probabilities import decided_labels
from ...emulator.edge.manifest import InputSpec, OutputSpec
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.random_streams import named_stream
from ..tasks.task_spec import Column, Scores, Task
from ..wiring.evaluation import in_pieces

HELD_OUT = "held out"
WITHOUT = "without "

Answers = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Scores of a model under every condition.

    Attributes:
        first: column of the first score of the task.
        samples: number of held-out samples.
        scores: condition -> scores of the model; "held out" comes first, then shifts, then lost modalities.
        trained: condition -> scores of the float32 model that it comes from; empty where it is that one.
        agreement: condition -> share of samples on which both decide alike; empty likewise.
        largest_difference: largest absolute difference of a logit on held-out rows.
    """

    first: Column
    samples: int
    scores: Mapping[str, Scores]
    trained: Mapping[str, Scores]
    agreement: Mapping[str, float]
    largest_difference: float = 0.0

    @property
    def score(self) -> str:
        """Name of the first score of the task."""
        return self.first.key

    def loss(self, condition: str) -> float:
        """Amount by which the first score is worse than that of the trained model."""
        if not self.trained:
            return 0.0
        return self.first.gain(self.trained[condition][self.score], self.scores[condition][self.score])

    def as_metrics(self) -> dict[str, Any]:
        """`Manifest.metrics`."""
        metrics = {"score": self.score, "samples": self.samples, **_nested(self.scores)}
        if self.trained:
            metrics["agreement"] = _nested(self.agreement)
            metrics["float32"] = _nested(self.trained)
        return metrics


def answers(session: OnnxSession, samples: Samples, specs: Sequence[InputSpec], seed: int, client: int) -> Answers:
    """Logits [n, n_outputs] under every condition; the same seed and client give the same inputs."""
    sensors = {spec.modality: spec for spec in specs}
    pieces: dict[str, list[NDArray[np.float32]]] = {}
    # one stream per perturbation, so that a further one leaves the inputs of the others as they are
    draws = {name: named_stream(seed, "shift", name, client) for name in SHIFTS}
    # piece by piece: held-out windows of images may not fit into memory at once
    for gathered in in_pieces(samples):
        # in the order of the model's inputs, so that perturbations draw in one order
        inputs: dict[Modality, NDArray[np.float32]] = {name: gathered[name] for name in sensors}
        for condition, changed in _conditions(inputs, sensors, draws):
            pieces.setdefault(condition, []).append(session.run_all(changed))
    return {condition: np.concatenate(piece) for condition, piece in pieces.items()}


def evidence(
    task: Task, samples: Samples, output: OutputSpec, found: Answers, trained: Answers | None = None
) -> Evidence:
    """Evidence about a model, with its agreement with the trained one where it is another.

    Args:
        task: task of the model.
        samples: held-out samples.
        output: meaning of the logits.
        found: condition -> logits of the model, from `answers`.
        trained: condition -> logits of the float32 model; None: the model is that one.
    """
    first = task.columns[0]
    scores = {condition: task.scores(logits, samples) for condition, logits in found.items()}
    if trained is None:
        return Evidence(first, len(samples), scores, {}, {})
    return Evidence(
        first,
        len(samples),
        scores,
        {condition: task.scores(logits, samples) for condition, logits in trained.items()},
        {name: _agreement(logits, trained[name], output) for name, logits in found.items()},
        float(np.abs(found[HELD_OUT] - trained[HELD_OUT]).max()),
    )


def _agreement(logits: NDArray[np.float32], others: NDArray[np.float32], output: OutputSpec) -> float:
    """Share of samples of which both logits decide alike."""
    return float(np.mean(decided_labels(logits, output) == decided_labels(others, output)))


def _conditions(
    inputs: Mapping[Modality, NDArray[np.float32]],
    sensors: Mapping[Modality, InputSpec],
    draws: Mapping[str, np.random.Generator],
) -> Iterator[tuple[str, Mapping[str, NDArray[np.float32]]]]:
    yield HELD_OUT, _by_name(inputs)
    for name, (shift, changes) in SHIFTS.items():
        # a shift that changes none of the inputs would repeat the held-out scores
        if changes.intersection(inputs):
            yield name, _by_name(shift(inputs, sensors, draws[name]))
    if len(inputs) == 1:  # without its only sensor a model has nothing to answer from
        return
    for lost in inputs:
        yield f"{WITHOUT}{lost}", without(inputs, sensors, lost)


def without(
    inputs: Mapping[Modality, NDArray[np.float32]], sensors: Mapping[Modality, InputSpec], *lost: Modality
) -> dict[str, NDArray[np.float32]]:
    """Inputs of a model that has several modalities, as a device gives them that lacks some of these."""
    present = np.array([[name not in lost for name in inputs]], np.float32)
    n = len(next(iter(inputs.values())))
    # as a device gives them; `present` tells the model to leave the input out
    given = {
        modality: np.repeat(sensors[modality].blank[None], n, axis=0) if modality in lost else values
        for modality, values in inputs.items()
    }
    return _by_name(given) | {PRESENT_NAME: np.repeat(present, n, axis=0)}


def _by_name(inputs: Mapping[Modality, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    return {str(name): values for name, values in inputs.items()}


def _nested(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions by kind: `held_out`, `shifted.NAME`, `without.MODALITY`."""
    nested: dict[str, Any] = {"held_out": figures[HELD_OUT], "shifted": {}, "without": {}}
    for condition, figure in figures.items():
        if condition.startswith(WITHOUT):
            nested["without"][condition.removeprefix(WITHOUT)] = figure
        elif condition != HELD_OUT:
            nested["shifted"][condition] = figure
    return nested
