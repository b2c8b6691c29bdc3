"""Tasks about rows: scores by hand, baselines, and texts about the outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sheafedge.datasets.rows.pooled_ridge import PooledRidge
from sheafedge.datasets.rows.row_samples import RowSamples, TargetScale
from sheafedge.emulator.contracts import ConfigError, Labels
from sheafedge.scenarios.schema.data_section import DataSection
from sheafedge.scenarios.tasks.task_spec import Answers
from sheafedge.scenarios.tasks.task_table import TASKS

DATA = DataSection(source="rows", dataset="digits", split="auto")
CLASSES, VALUES = TASKS["classification"], TASKS["regression"]


def samples(y: Labels, names: tuple[str, ...] = (), target: TargetScale | None = None) -> RowSamples:
    inputs = np.arange(2.0 * len(y)).reshape(-1, 2)
    return RowSamples(inputs, y, np.arange(len(y)), "table", names, target=target or TargetScale())


THREE = samples(np.array([0, 0, 0, 1, 2, 2]), ("cat", "dog", "eel"))
#: Learned as -1, 0, 1, 2 times 10 above 50.
FOUR = samples(np.array([40.0, 50.0, 60.0, 70.0], dtype=np.float32), target=TargetScale(50.0, 10.0))


def test_classes_are_scored_by_the_largest_logit_and_by_the_mean_over_classes() -> None:
    logits = np.eye(3)[[0, 0, 1, 1, 1, 0]]
    assert CLASSES.scores(logits, THREE) == pytest.approx(
        {"accuracy": 3 / 6, "balanced_accuracy": (2 / 3 + 1.0 + 0.0) / 3}
    )


def test_classes_are_confused_over_all_clients_with_the_certainty_of_what_was_chosen() -> None:
    logits = np.eye(3)[[0, 0, 1, 1, 1, 0]]
    found = CLASSES.diagnostics([Answers(logits, THREE, 0.0), Answers(np.eye(3)[[2]], THREE.take(np.array([4])), 0.0)])
    assert found["classes"] == ["cat", "dog", "eel"]
    assert found["confusion"] == [[2, 1, 0], [0, 1, 0], [1, 1, 1]]
    certainty = np.e / (np.e + 2.0)
    assert found["reliability"] == {
        "predicted": [pytest.approx(certainty)], "observed": [pytest.approx(4 / 7)], "n": [7]
    }  # fmt: skip


def test_residuals_and_calibration_of_values_are_in_their_own_unit() -> None:
    found = VALUES.diagnostics([Answers(np.array([[-1.0], [0.0], [1.0], [1.0]]), FOUR, 0.0)])
    assert (found["residuals"]["edges"][0], found["residuals"]["edges"][-1]) == (-10.0, 0.0)
    assert (found["residuals"]["counts"][0], found["residuals"]["counts"][-1]) == (1, 3)
    calibration = {"predicted": [40.0, 50.0, 60.0, 60.0], "observed": [40.0, 50.0, 60.0, 70.0], "n": [1, 1, 1, 1]}
    assert found["calibration"] == calibration


def test_the_majority_is_that_of_the_own_training_rows() -> None:
    train = THREE.take(np.array([3, 4, 5]))
    assert CLASSES.baselines(train, THREE)["majority"] == pytest.approx({"accuracy": 2 / 6, "balanced_accuracy": 1 / 3})


def test_values_are_scored_in_their_own_unit() -> None:
    scores = VALUES.scores(np.array([[-1.0], [0.0], [1.0], [1.0]]), FOUR)
    assert scores == pytest.approx({"mse": 100.0 / 4, "rmse": 5.0, "r2": 1.0 - 25.0 / 125.0})


def test_values_that_are_all_alike_have_no_share_explained() -> None:
    assert "r2" not in VALUES.scores(np.zeros((1, 1)), FOUR.take(np.array([2])))


def test_means_are_of_own_rows_and_of_those_of_all() -> None:
    baselines = VALUES.baselines(FOUR.take(np.array([0, 1])), FOUR)
    assert baselines["own mean"]["mse"] == pytest.approx(np.mean(np.array([5.0, 5.0, 15.0, 25.0]) ** 2))
    assert baselines["pooled mean"]["mse"] == pytest.approx(np.mean(np.array([10.0, 0.0, 10.0, 20.0]) ** 2))


def test_the_regression_on_pooled_rows_is_a_baseline_where_there_is_one() -> None:
    ridge = PooledRidge((np.array([1.0, 0.0]), np.array([2.0, 1.0])), np.array([10.0, 1.0]), 3.0, 0.1)
    answers = (FOUR.inputs()["table"][:, 0] - 1.0) * 5.0 + FOUR.inputs()["table"][:, 1] + 3.0
    found = VALUES.baselines(FOUR, replace(FOUR, ridge=ridge))
    assert found["pooled ridge"]["mse"] == pytest.approx(np.mean((answers - FOUR.truth) ** 2))
    assert "pooled ridge" not in VALUES.baselines(FOUR, FOUR)


def test_outputs_follow_from_the_data() -> None:
    assert CLASSES.outputs(DATA, THREE) == (
        (0, 1, 2),
        ("cat", "dog", "eel"),
        "logits [batch, 3], one per class: cat, dog, eel",
    )
    outputs = VALUES.outputs(DATA, FOUR)
    assert (outputs.n, outputs.labels) == (1, ())
    assert outputs.meaning == "value [batch, 1]: the answer is 50 + 10 * value"


@pytest.mark.parametrize("name", ["classification", "regression"])
def test_every_column_that_a_client_has_is_scored(name: str) -> None:
    task, rows = TASKS[name], {"classification": THREE, "regression": FOUR}[name]
    logits = np.random.default_rng(0).normal(size=(len(rows), task.outputs(DATA, rows).n))
    keys = {column.key for column in task.columns if not column.over_clients}
    for scores in (task.scores(logits, rows), *task.baselines(rows, rows).values()):
        assert set(scores) == keys
    described = task.input_descriptions(rows, DATA)
    assert described["table"].shape == (2,)
    with pytest.raises(ConfigError, match=r"beam_order must be 'same' for rows"):
        task.check(DATA.model_copy(update={"beam_order": "mirrored"}))
