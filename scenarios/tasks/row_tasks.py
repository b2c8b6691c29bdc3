"""Tasks about rows of a data set that no sensor here recorded: classification, of nodes of a graph too, regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.curves import confusion_counts, reliability, residual_histogram, value_calibration
from ...datasets.rows.graph_edges import propagated_labels
from ...datasets.rows.row_samples import RowSamples
from ...datasets.scores import score_classes, score_values
from ...datasets.windows.samples import Samples
from ...emulator.contracts import ConfigError, Modality
from .task_spec import Answers, Column, InputDescription, Outputs, Scores, TaskData, described_inputs, top_probability

#: Classes that a text lists by name.
LISTED = 12


class _AboutRows:
    """Rows of a table, or images."""

    modalities: tuple[Modality, ...] = ("table", "image")
    encoders: Mapping[Modality, str] = {"table": "mlp", "image": "cnn_fmtl"}
    group_fields: tuple[str, ...] = ()

    def check(self, data: TaskData) -> None:
        if data.beam_order != "same":
            raise ConfigError(f"data.beam_order must be 'same' for rows, which have no beams, got {data.beam_order!r}")

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        said: dict[Modality, tuple[str, str]] = {
            "table": ("as in the data", "one row, its columns in the order of the data"),
            "image": ("as in the data", "one image; axes: channel if there are several, row, column"),
        }
        return described_inputs(samples, said)


class Classification(_AboutRows):
    """Which class a row belongs to."""

    title = "Which class is it?"
    columns = (
        Column("accuracy", "accuracy"),
        Column("balanced_accuracy", "balanced accuracy"),
        Column("accuracy_worst_decile", "worst decile", over_clients=True),
        Column("accuracy_std", "std", better="lower", over_clients=True),
    )
    labels: Literal["classes", "values"] = "classes"
    objective = "cross_entropy"

    def outputs(self, data: TaskData, samples: Samples) -> Outputs:
        names = _rows(samples).class_names
        listed = ", ".join(names[:LISTED]) + (" and so on" if len(names) > LISTED else "")
        return Outputs(tuple(range(len(names))), names, f"logits [batch, {len(names)}], one per class: {listed}")

    def scores(self, logits: NDArray[np.floating[Any]], samples: RowSamples) -> Scores:
        return asdict(score_classes(logits.argmax(axis=1), samples.label.astype(np.int64)))

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        names = _rows(answers[0].samples).class_names
        if answers[0].logits.shape[1] != len(names):  # outputs of a task that was made of this one
            return {}
        chosen = np.concatenate([one.logits.argmax(axis=1) for one in answers])
        labels = np.concatenate([one.samples.label for one in answers]).astype(np.int64)
        return {
            "classes": list(names),
            "confusion": confusion_counts(chosen, labels, len(names)),
            "reliability": reliability(top_probability(answers), chosen == labels),
        }

    def baselines(self, train: RowSamples, test: RowSamples) -> Mapping[str, Scores]:
        most = int(np.bincount(train.label.astype(np.int64)).argmax())
        labels = test.label.astype(np.int64)
        return {"majority": asdict(score_classes(np.full(len(labels), most), labels))}


class NodeClassification(Classification):
    """Which class a node of a graph has, of whose other nodes the client knows features, edges and some classes."""

    title = "Which class is the node?"
    modalities: tuple[Modality, ...] = ("graph",)
    encoders: Mapping[Modality, str] = {"graph": "gcn"}

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        return described_inputs(samples, {"graph": ("1", "number of the node among those of the client, from 0")})

    def baselines(self, train: RowSamples, test: RowSamples) -> Mapping[str, Scores]:
        assert train.graph is not None, "a rule of the scenario"
        classes = train.label.astype(np.int64)
        shares = propagated_labels(
            train.graph.edges, len(train.graph), train.graph.places(train.rows), classes, len(train.class_names)
        )
        chosen = shares[train.graph.places(test.rows)].argmax(axis=1)
        found = asdict(score_classes(chosen, test.label.astype(np.int64)))
        return {**super().baselines(train, test), "label propagation": found}


class Regression(_AboutRows):
    """What value a row has."""

    title = "What value is it?"
    columns = (
        Column("mse", "mse", "{:.4g}", better="lower"),
        Column("r2", "R2"),
        Column("rmse", "rmse", "{:.4g}", better="lower"),
        Column("mse_worst_decile", "worst decile", "{:.4g}", better="lower", over_clients=True),
        Column("mse_std", "std", "{:.4g}", better="lower", over_clients=True),
    )
    labels: Literal["classes", "values"] = "values"
    objective = "squared_error"

    def outputs(self, data: TaskData, samples: Samples) -> Outputs:
        target = _rows(samples).target
        return Outputs((0,), (), f"value [batch, 1]: the answer is {target.mean:.9g} + {target.std:.9g} * value")

    def scores(self, logits: NDArray[np.floating[Any]], samples: RowSamples) -> Scores:
        return score_values(samples.values(logits[:, 0]), samples.truth)

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        predicted = np.concatenate([one.samples.values(one.logits[:, 0]) for one in answers])
        truth = np.concatenate([one.samples.truth for one in answers])
        return {
            "residuals": residual_histogram(predicted, truth),
            "calibration": value_calibration(predicted, truth),
        }

    def baselines(self, train: RowSamples, test: RowSamples) -> Mapping[str, Scores]:
        truth, own, pooled = test.truth, float(train.truth.mean()), test.target.mean
        found = {
            "own mean": score_values(np.full(len(truth), own), truth),
            "pooled mean": score_values(np.full(len(truth), pooled), truth),
        }
        if test.ridge is not None:
            found["pooled ridge"] = score_values(test.ridge.values(test.inputs()[test.modality]), truth)
        return found


def _rows(samples: Samples) -> RowSamples:
    assert isinstance(samples, RowSamples), "these tasks are about rows, and a rule of the scenario says so"
    return samples
