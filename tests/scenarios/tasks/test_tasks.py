"""Tasks: what a good answer scores, what answers without a model score, and what is said about inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.track_windows import renumbered
from sheafedge.emulator.contracts import Modality
from sheafedge.models.objectives import OBJECTIVES
from sheafedge.scenarios.schema.data_section import DataSection
from sheafedge.scenarios.tasks.blockage_task import Blockage
from sheafedge.scenarios.tasks.task_spec import Answers, DiagnosedTask, SensorTask, Task
from sheafedge.scenarios.tasks.task_table import SENSOR_TASKS, TASKS

N_FRAMES = 40
DATA = {
    "blockage": DataSection(window=4, horizon=2),
    "outage_forecast": DataSection(window=4, horizon=3, fades_db=(4.0, 2.0)),
    "beam_tracking": DataSection(window=3, n_beams=8),
    "beam_prediction": DataSection(window=1, n_beams=16),
}
GPS_COLUMNS = {
    "beam_tracking": ("east_m", "north_m"),
    "beam_prediction": ("latitude_deg", "longitude_deg", "distance_m", "height_m"),
}


def sensed_for(name: str, blocked: np.ndarray | None = None) -> SensedFrames:
    """A base station that has everything that a task can use."""
    task, draws = SENSOR_TASKS[name], np.random.default_rng(4)
    columns = GPS_COLUMNS.get(name, ())
    sensed = SensedFrames(
        "corner", task.modalities, color=task.color, keep_powers="rf" in task.needs, gps_columns=columns
    )
    fields: dict[str, np.ndarray[Any, Any]] = {
        "time_s": np.arange(N_FRAMES) / 10,
        "sequence": np.zeros(N_FRAMES, dtype=np.int64),
        "rf": draws.uniform(0.1, 1, (N_FRAMES, 64)),
        "lidar": draws.uniform(0, 10, (N_FRAMES, 12, 2)),
        "camera": draws.integers(0, 256, (N_FRAMES, 8, 8, 3), dtype=np.uint8),
        "radar": np.arange(N_FRAMES * 12).reshape(N_FRAMES, 4, 3).astype(np.uint8),
        "blocked_geometric": draws.random(N_FRAMES) < 0.3 if blocked is None else blocked,
    }
    if "signal" in task.modalities:
        fields["signal"] = draws.normal(size=(N_FRAMES, 5))
        fields["link_power_dbw"] = draws.normal(scale=5.0, size=(N_FRAMES, 10))
    if columns:
        fields["gps"] = draws.normal(size=(N_FRAMES, len(columns)))
    sensed.append(fields)
    return sensed


def samples_of(name: str, modalities: tuple[Modality, ...] | None = None) -> Any:
    task = SENSOR_TASKS[name]
    return task.samples(sensed_for(name), modalities or task.modalities, DATA[name])


def blockage_samples(blocked: np.ndarray, horizon: int = 2) -> Any:
    sensed = sensed_for("blockage", blocked)
    return SENSOR_TASKS["blockage"].samples(sensed, ("rf",), DataSection(window=1, horizon=horizon))


def logits(answers: np.ndarray) -> np.ndarray:
    """[n, 1] of a model that is sure."""
    return np.where(answers, 3.0, -3.0)[:, None]


@pytest.mark.parametrize("name", SENSOR_TASKS)
def test_every_input_has_the_shape_that_its_description_promises(name: str) -> None:
    task, data = SENSOR_TASKS[name], DATA[name]
    samples = samples_of(name)
    described = task.input_descriptions(samples, data)
    inputs = samples.inputs(np.arange(5))
    assert set(inputs) == set(described) == set(task.modalities)
    for modality, values in inputs.items():
        assert values.shape == (5, *described[modality].shape)
        assert values.dtype == np.float32
        assert described[modality].unit
        assert described[modality].meaning


@pytest.mark.parametrize("name", SENSOR_TASKS)
def test_only_the_inputs_of_the_client_are_described(name: str) -> None:
    for modality in SENSOR_TASKS[name].modalities:
        samples = samples_of(name, (modality,))
        assert set(SENSOR_TASKS[name].input_descriptions(samples, DATA[name])) == {modality}
        assert samples.modalities == (modality,)


@pytest.mark.parametrize("name", SENSOR_TASKS)
def test_there_is_a_name_for_every_class_and_no_class_without_a_name(name: str) -> None:
    task, data = SENSOR_TASKS[name], DATA[name]
    outputs, label = task.outputs(data, samples_of(name)), samples_of(name).label
    names = outputs.labels
    assert label.min() >= 0
    if task.labels == "several":
        assert names == ()
        assert label.shape == (len(label), outputs.n)
        assert set(np.unique(label)) == {0, 1}
    else:
        assert len(set(names)) == len(names) > label.max()
        assert outputs.n == (1 if task.objective == "binary_cross_entropy" else len(names))
    assert task.objective in OBJECTIVES
    assert str(outputs.n) in outputs.meaning


@pytest.mark.parametrize("name", SENSOR_TASKS)
def test_every_column_of_a_table_has_a_score_behind_it(name: str) -> None:
    task = SENSOR_TASKS[name]
    samples = samples_of(name)
    answers = np.random.default_rng(0).normal(size=(len(samples), task.outputs(DATA[name], samples).n))
    keys = {column.key for column in task.columns}
    baselines = task.baselines(samples, samples)
    assert list(baselines) == ["persistence", "base rate" if task.labels == "several" else "majority"]
    for scores in (task.scores(answers, samples), *baselines.values()):
        assert keys <= set(scores)
        for column in task.columns:
            assert column.form.format(scores[column.key])


@pytest.mark.parametrize("name", ["beam_tracking", "beam_prediction"])
def test_the_powers_themselves_are_a_perfect_answer_about_beams(name: str) -> None:
    samples = samples_of(name)
    scores = SENSOR_TASKS[name].scores(samples.powers, samples)
    assert scores == {"top1": 1.0, "top3": 1.0, "power_loss_db": 0.0}
    assert SENSOR_TASKS[name].scores(-samples.powers, samples)["top1"] == 0.0


# Blockage.


def test_a_logit_above_zero_is_a_warning() -> None:
    samples = samples_of("blockage")
    truth = samples.label == 1
    perfect = {"balanced_accuracy": 1.0, "f1": 1.0, "accuracy": 1.0, "ahead": 1.0}
    assert SENSOR_TASKS["blockage"].scores(logits(truth), samples) == pytest.approx(perfect)
    wrong = SENSOR_TASKS["blockage"].scores(logits(~truth), samples)
    assert (wrong["balanced_accuracy"], wrong["accuracy"], wrong["ahead"]) == (0.0, 0.0, 0.0)
    silent = SENSOR_TASKS["blockage"].scores(np.zeros((len(samples), 1)), samples)  # no more likely than not
    assert silent["accuracy"] == pytest.approx((~truth).mean())


def test_who_sees_what_is_there_is_right_now_and_foresees_nothing() -> None:
    """Persistence: perfect inside a blockage, no better than a coin before it."""
    blocked = np.zeros(N_FRAMES, dtype=bool)
    blocked[10:20] = True
    samples = blockage_samples(blocked)
    persistence = SENSOR_TASKS["blockage"].baselines(samples, samples)["persistence"]
    assert persistence["balanced_accuracy"] > 0.8
    assert persistence["ahead"] == 0.5


def test_foresight_is_scored_on_frames_that_are_clear_alone() -> None:
    blocked = np.zeros(N_FRAMES, dtype=bool)
    blocked[10:20] = True
    samples = blockage_samples(blocked)
    foreseen = logits((samples.label == 1) & ~samples.blocked_now)
    scores = SENSOR_TASKS["blockage"].scores(foreseen, samples)
    assert scores["ahead"] == 1.0
    assert scores["balanced_accuracy"] < 0.8  # it says nothing about what is blocked already


@pytest.mark.parametrize("blocked_from", [0, N_FRAMES])
def test_where_nothing_follows_a_clear_frame_but_one_kind_foresight_has_no_score(blocked_from: int) -> None:
    """Nobody was ever asked; a number would only look like an answer."""
    blocked = np.arange(N_FRAMES) >= blocked_from
    samples = blockage_samples(blocked)
    task: SensorTask = Blockage()
    for scores in (task.scores(logits(samples.label == 1), samples), *task.baselines(samples, samples).values()):
        assert "ahead" not in scores
        assert {"balanced_accuracy", "f1", "accuracy"} <= set(scores)


def test_the_more_frequent_state_of_training_is_said_of_every_held_out_row() -> None:
    often, seldom = np.arange(N_FRAMES) < 30, np.arange(N_FRAMES) < 5
    task = SENSOR_TASKS["blockage"]
    said = task.baselines(blockage_samples(often), blockage_samples(seldom))["majority"]
    assert said["accuracy"] == pytest.approx((blockage_samples(seldom).label == 1).mean())
    said = task.baselines(blockage_samples(seldom), blockage_samples(often))["majority"]
    assert said["accuracy"] == pytest.approx((blockage_samples(often).label == 0).mean())
    assert said["f1"] == 0.0


# Beams.


def test_tracking_looks_back_and_prediction_looks_once() -> None:
    tracked, seen = samples_of("beam_tracking"), samples_of("beam_prediction")
    powers = sensed_for("beam_tracking").powers[:, ::8].astype(np.float64)
    assert_array_equal(tracked.label, powers[tracked.end].argmax(axis=1))
    sweeps_db = (10 * np.log10(powers[tracked.end - 1])).astype(np.float32)
    assert_array_equal(tracked.inputs()["rf"][:, -1], sweeps_db)
    assert_array_equal(seen.label, sensed_for("beam_prediction").powers[:, ::4][seen.end].argmax(axis=1))
    assert "rf" not in seen.inputs()


def test_thinning_keeps_every_so_many_th_row_for_every_task() -> None:
    for name, task in SENSOR_TASKS.items():
        whole = samples_of(name).end
        thinned = task.samples(sensed_for(name), task.modalities, DATA[name].model_copy(update={"stride": 5})).end
        assert_array_equal(thinned, whole[whole % 5 == 0])


@pytest.mark.parametrize("label", ["blocked_geometric", "blocked_power"])
def test_the_definition_of_blocked_is_the_scenarios_choice(label: str) -> None:
    sensed = SensedFrames("corner", ("rf",))
    n = N_FRAMES
    fields = {"time_s": np.arange(n) / 10, "sequence": np.zeros(n, dtype=np.int64), "rf": np.ones((n, 4))}
    draws = np.random.default_rng(1)
    columns = {name: draws.random(n) < 0.5 for name in ("blocked_geometric", "blocked_power")}
    sensed.append({**fields, **columns})
    samples: Any = SENSOR_TASKS["blockage"].samples(sensed, ("rf",), DataSection(window=1, horizon=1, label=label))
    assert_array_equal(samples.blocked_now, columns[label][samples.end])


# --- diagnostics ------------------------------------------------------------------------------------------------------


def test_beams_are_confused_by_their_numbers_in_the_codebook() -> None:
    """Two base stations, one of which numbers its beams backwards; both name the beam beside the best."""
    plain = samples_of("beam_tracking")
    reverse = renumbered(plain, np.arange(8)[::-1].copy())
    answers = [
        Answers(np.eye(8)[samples.numbering.argsort()[(samples.numbering[samples.label] + 1) % 8]], samples, 10.0)
        for samples in (plain, reverse)
    ]
    found = SENSOR_TASKS["beam_tracking"].diagnostics(answers)
    best = np.bincount(plain.label, minlength=8)
    expected = np.zeros((8, 8), dtype=int)
    expected[np.arange(8), (np.arange(8) + 1) % 8] = 2 * best
    assert_array_equal(found["confusion"], expected)
    assert found["classes"] == [f"beam {index}" for index in range(8)]
    stated = np.e / (np.e + 7.0)  # of a logit of 1 beside seven of 0
    assert found["reliability"] == {"predicted": [pytest.approx(stated)], "observed": [0.0], "n": [2 * len(plain)]}


def test_blockages_have_curves_and_lead_times_of_all_clients_together() -> None:
    # with a horizon of 2, frames 3 and 4 precede; frame 5 is followed by another blocked one, and precedes nothing
    samples = blockage_samples(np.isin(np.arange(N_FRAMES), [5, 6]))
    sure = np.where(samples.label == 1, 3.0, -3.0)[:, None]
    late = np.where(np.isin(samples.end, [4, 5]), 3.0, -3.0)[:, None]
    found = Blockage().diagnostics([Answers(sure, samples, 10.0), Answers(late, samples, 10.0)])
    assert found["lead_times_s"]["edges"] == pytest.approx([0.05, 0.15, 0.25])
    assert (found["lead_times_s"]["warned"], found["lead_times_s"]["missed"]) == ([2, 1], [0, 1])
    # five of six blockages are stated with the same certainty, and no clear sample is
    assert found["roc"]["auc"] == pytest.approx(5 / 6 + 1 / 6 / 2.0)
    assert found["reliability"]["n"] == [2 * len(samples) - 5, 5]
    assert found["reliability"]["observed"] == [pytest.approx(1.0 / (2 * len(samples) - 5)), 1.0]


def test_lead_times_are_known_to_the_frame_whatever_the_stride_of_the_samples() -> None:
    every = blockage_samples(np.isin(np.arange(N_FRAMES), [5, 6]))
    third = every.take(np.flatnonzero(every.end % 3 == 0))  # frames 3 and 6; no sample ends where the blockage begins
    found = Blockage().diagnostics([Answers(np.zeros((len(third), 1)), third, 10.0)])
    assert found["lead_times_s"]["missed"] == [0, 1]


def test_held_out_samples_without_a_blockage_have_neither_roc_nor_lead_times() -> None:
    samples = blockage_samples(np.zeros(N_FRAMES, dtype=bool))
    assert set(Blockage().diagnostics([Answers(np.zeros((len(samples), 1)), samples, 10.0)])) == {"reliability"}


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_every_task_has_diagnostics(task: Task) -> None:
    assert isinstance(task, DiagnosedTask)
