"""Scores: of what is held out, when it is time, per client and then per group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Modality
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.tasks.beam_tasks import BeamTracking
from sheafedge.scenarios.tasks.task_spec import Column, Scores
from sheafedge.scenarios.tasks.task_table import TASKS
from sheafedge.scenarios.wiring import evaluation
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.evaluation import (
    Evaluator,
    baseline_scores,
    best_model,
    by_group,
    over_clients,
    some_of,
)

BOTH = [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]
TRACKING, BLOCKAGE = TASKS["beam_tracking"], TASKS["blockage"]
PERFECT = {"top1": 1.0, "top3": 1.0, "power_loss_db": 0.0}

Inputs = Mapping[Modality, NDArray[Any]]


@pytest.fixture(scope="module")
def data(tiny: Scenario) -> ClientData:
    return load_data(tiny.edited({"clients.groups": BOTH})).clients[0]


class Oracle:
    """Knows the answers: `sign` times the powers of each row, held out or trained on, that it is asked about."""

    client_id = 0

    def __init__(self, data: ClientData, **signs: float) -> None:
        self._signs, self._answers = signs, {}
        for samples, of_row in ((data.train, 1.0), (data.test, -1.0)):
            for row, powers in zip(samples.inputs()["rf"], samples.powers, strict=True):
                self._answers[row.tobytes()] = powers, of_row
        self.seen: list[Inputs] = []

    def predict(self, inputs: Inputs) -> dict[str, NDArray[Any]]:
        self.seen.append(inputs)
        found = [self._answers[row.tobytes()] for row in inputs["rf"]]
        powers, side = np.stack([one for one, _ in found]), np.array([[of_row] for _, of_row in found])
        # "trained" knows the rows that it was trained on, and names the weakest beams of all others.
        return {name: powers * (side if name == "trained" else sign) for name, sign in self._signs.items()}

    def health(self) -> dict[str, float]:
        return {"loss": 0.5}


def observed_once(data: ClientData, oracle: Oracle) -> Mapping[str, Any]:
    return Evaluator(TRACKING, [client(data)], 1, 1).observe(oracle, 0)


def scored_once(data: ClientData, **signs: float) -> dict[str, Scores]:
    scores: dict[str, Scores] = observed_once(data, Oracle(data, **signs))["models"]
    return scores


def client(data: ClientData, client_id: int = 0, group: str = "both") -> Client:
    return Client(client_id, group, ("rf", "gps"), data, {}, ())


def scores(top1: float) -> Scores:
    return {"top1": top1, "top3": min(1.0, 2 * top1), "power_loss_db": 3.0}


def test_who_names_the_strongest_beams_scores_everything(data: ClientData) -> None:
    assert scored_once(data, fused=1.0)["fused"] == PERFECT


def test_who_names_the_weakest_beams_scores_nothing(data: ClientData) -> None:
    scored = scored_once(data, fused=-1.0)["fused"]
    assert (scored["top1"], scored["top3"]) == (0.0, 0.0)
    assert scored["power_loss_db"] > 3.0


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_a_learner_is_asked_about_held_out_inputs_and_sees_nothing_else(
    at_once: int, data: ClientData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them at once: windows of images do not fit into memory together."""
    monkeypatch.setattr(evaluation, "GATHERED_AT_ONCE", at_once)
    oracle = Oracle(data, fused=1.0)
    assert observed_once(data, oracle)["models"]["fused"] == PERFECT
    held_out, trained = oracle.seen[: -(-len(data.test) // at_once)], oracle.seen[-(-len(data.test) // at_once) :]
    for modality, rows in data.test.inputs().items():
        np.testing.assert_array_equal(np.concatenate([inputs[modality] for inputs in held_out]), rows)
    for modality, rows in some_of(data.train).inputs().items():
        np.testing.assert_array_equal(np.concatenate([inputs[modality] for inputs in trained]), rows)
    assert all(set(inputs) == {"gps", "rf"} for inputs in oracle.seen)


@pytest.mark.parametrize(
    ("rounds", "every", "scored"), [(5, 1, [0, 1, 2, 3, 4]), (5, 2, [1, 3, 4]), (5, 50, [4]), (1, 1, [0])]
)
def test_scores_come_every_so_many_rounds_and_always_at_the_end(
    rounds: int, every: int, scored: list[int], data: ClientData
) -> None:
    evaluator = Evaluator(TRACKING, [client(data)], rounds, every)
    oracle = Oracle(data, fused=1.0)
    rows = [evaluator.observe(oracle, index) for index in range(rounds)]
    assert [index for index, row in enumerate(rows) if "models" in row] == scored
    assert all(row["loss"] == 0.5 for row in rows)
    assert rows[-1]["models"] == {"fused": PERFECT}


def test_every_model_of_a_learner_is_scored(data: ClientData) -> None:
    scored = scored_once(data, gps=-1.0, rf=1.0)
    assert (scored["gps"]["top1"], scored["rf"]["top1"]) == (0.0, 1.0)


def test_training_rows_are_scored_beside_held_out_ones_with_the_loss_of_both(data: ClientData) -> None:
    seen = observed_once(data, Oracle(data, trained=1.0))
    assert seen["train_models"]["trained"] == PERFECT
    assert seen["models"]["trained"]["top1"] == 0.0
    for samples, sign, loss in (
        (some_of(data.train), 1.0, seen["train_loss"]),
        (data.test, -1.0, seen["held_out_loss"]),
    ):
        logits = sign * samples.powers
        right = np.take_along_axis(logits, samples.label[:, None], axis=1)[:, 0]
        expected = float((np.log(np.exp(logits).sum(axis=1)) - right).mean())
        assert loss == {"trained": pytest.approx(expected)}


def test_no_more_training_rows_are_scored_than_a_curve_needs(data: ClientData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MOST_TRAINED", 5)
    chosen = some_of(data.train)
    assert len(chosen) == 5
    assert (chosen.end[0], chosen.end[-1]) == (data.train.end[0], data.train.end[-1])
    assert len(some_of(chosen)) == 5


def test_persistence_is_how_often_the_best_beam_stays(data: ClientData) -> None:
    stays = float((data.test.label == data.test.previous_beam).mean())
    assert 0.0 < stays < 1.0
    assert baseline_scores(TRACKING, client(data))["persistence"]["top1"] == pytest.approx(stays)


def test_majority_is_counted_in_training_rows_and_scored_on_held_out_ones(data: ClientData) -> None:
    most = int(np.bincount(data.train.label).argmax())
    labels = np.where(np.arange(len(data.test)) % 4 == 0, most, (most + 1) % data.test.n_beams)
    relabelled = replace(data, test=replace(data.test, label=labels))
    quarter = float((labels == most).mean())
    assert baseline_scores(TRACKING, client(relabelled))["majority"]["top1"] == pytest.approx(quarter)


def test_a_group_is_the_mean_of_its_clients_however_many_rows_they_have(data: ClientData) -> None:
    members = [client(data, 0), client(replace(data, test=data.test.take(np.arange(3))), 1)]
    groups = by_group(TRACKING, {"both": members}, {0: {"fused": scores(0.2)}, 1: {"fused": scores(0.4)}})
    means, spread = {"top1": 0.3, "top3": 0.6, "power_loss_db": 3.0}, {"top1_std": 0.1, "top1_worst_decile": 0.2}
    assert groups["both"]["fused"] == pytest.approx({**means, **spread})


def test_groups_come_in_the_order_they_are_given(data: ClientData) -> None:
    clients = {"rf": [client(data, 1, "rf")], "gps": [client(data, 0, "gps")]}
    assert list(by_group(TRACKING, clients, {0: {"fused": scores(0.2)}, 1: {"fused": scores(0.4)}})) == ["rf", "gps"]


def test_a_score_that_some_clients_do_not_have_is_the_mean_of_the_others(data: ClientData) -> None:
    """Whoever never saw a blockage begin cannot be asked whether it was foreseen."""
    members = [client(data, index) for index in range(3)]
    scored = [{"balanced_accuracy": 0.5}, {"balanced_accuracy": 0.6, "ahead": 0.9}, {"balanced_accuracy": 0.7}]
    groups = by_group(BLOCKAGE, {"g": members}, {index: {"fused": one} for index, one in enumerate(scored)})
    mean = groups["g"]["fused"]
    assert (mean["balanced_accuracy"], mean["ahead"]) == (pytest.approx(0.6), 0.9)
    assert mean["balanced_accuracy_std"] == pytest.approx(np.std([0.5, 0.6, 0.7]))
    nobody = by_group(BLOCKAGE, {"g": members[:1]}, {0: {"fused": scored[0]}})
    spread = {"balanced_accuracy_std", "balanced_accuracy_worst_decile"}
    assert set(nobody["g"]["fused"]) == {"balanced_accuracy", *spread}


class Errors(BeamTracking):
    """A task whose first score is an error."""

    columns = (Column("mse", "mse", better="lower"),)


def test_the_worst_decile_is_the_mean_of_the_worst_tenth_whichever_way_is_better() -> None:
    """Of 20 clients the worst two count; of three, the worst one."""
    accuracy = [{"top1": value / 20} for value in (3, *range(4, 20), 1, 2, 20)]
    assert over_clients(TRACKING, accuracy)["top1_worst_decile"] == pytest.approx(1.5 / 20)
    errors = [{"mse": value} for value in (2.0, 9.0, 4.0)]
    assert over_clients(Errors(), errors) == pytest.approx({"mse_std": np.std([2, 9, 4]), "mse_worst_decile": 9.0})


def test_of_errors_the_lowest_is_the_best() -> None:
    assert best_model(Errors(), {"gps": {"mse": 3.0}, "rf": {"mse": 0.5}, "camera": {"mse": 1.0}}) == "rf"


def test_a_clients_own_model_is_reported_even_where_another_scores_better() -> None:
    """Choosing between it and the server's by held-out scores would be a look at the test rows."""
    assert best_model(TRACKING, {"global": {"top1": 0.9}, "personal": {"top1": 0.2}}) == "personal"
    assert best_model(TRACKING, {"global": {"top1": 0.9}, "fused": {"top1": 0.2}}) == "fused"


def test_a_group_reports_its_best_model_by_the_first_figure_of_the_task() -> None:
    assert best_model(TRACKING, {"gps": {"top1": 0.2, "top3": 0.9}, "rf": {"top1": 0.3, "top3": 0.8}}) == "rf"
    warned = {"lidar": {"balanced_accuracy": 0.6, "f1": 0.1}, "rf": {"balanced_accuracy": 0.5, "f1": 0.4}}
    assert best_model(BLOCKAGE, warned) == "lidar"


def test_whoever_holds_a_model_of_its_own_reports_it_whatever_the_shared_one_scores() -> None:
    better = {"top1": 0.9}
    assert best_model(TRACKING, {"personal": {"top1": 0.2}, "global": better}) == "personal"
    assert best_model(TRACKING, {"global": better, "fused": {"top1": 0.2}}) == "fused"
