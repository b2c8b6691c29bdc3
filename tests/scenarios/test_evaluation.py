"""Scores: of what is held out, when it is time, per client and then per group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sheafedge.datasets.scores import BeamScores
from sheafedge.emulator.contracts import Modality
from sheafedge.scenarios.build import Client
from sheafedge.scenarios.data import ClientData, load_clients
from sheafedge.scenarios.evaluation import Evaluator, baseline_scores, best_model, by_group
from sheafedge.scenarios.schema import Scenario

Inputs = Mapping[Modality, NDArray[Any]]


@dataclass
class Guesser:
    """A learner as far as scoring sees it: it answers."""

    client_id: int
    answer: Callable[[Inputs], dict[str, NDArray[Any]]]

    def predict(self, inputs: Inputs) -> dict[str, NDArray[Any]]:
        return self.answer(inputs)

    def health(self) -> dict[str, float]:
        return {"loss": 0.5}


@pytest.fixture(scope="module")
def data(tiny: Scenario) -> ClientData:
    return load_clients(tiny)[0]


def client(data: ClientData, client_id: int = 0, group: str = "both") -> Client:
    return Client(client_id, group, ("rf", "gps"), data, {})


def scores(top1: float) -> BeamScores:
    return BeamScores(top1, min(1.0, 2 * top1), 3.0)


def test_who_names_the_strongest_beams_scores_everything(data: ClientData) -> None:
    oracle = Guesser(0, lambda _: {"fused": data.test.powers})
    assert Evaluator([client(data)], 1, 1).scores(oracle)["fused"] == BeamScores(1.0, 1.0, 0.0)


def test_who_names_the_weakest_beams_scores_nothing(data: ClientData) -> None:
    scored = Evaluator([client(data)], 1, 1).scores(Guesser(0, lambda _: {"fused": -data.test.powers}))["fused"]
    assert (scored.top1, scored.top3) == (0.0, 0.0)
    assert scored.power_loss_db > 3.0


def test_a_learner_is_asked_about_held_out_inputs_and_sees_nothing_else(data: ClientData) -> None:
    seen: list[Inputs] = []

    def answer(inputs: Inputs) -> dict[str, NDArray[Any]]:
        seen.append(inputs)
        return {"fused": data.test.powers}

    Evaluator([client(data)], 1, 1).scores(Guesser(0, answer))
    (inputs,) = seen
    assert set(inputs) == {"gps", "rf"}
    np.testing.assert_array_equal(inputs["gps"], data.test.gps)
    np.testing.assert_array_equal(inputs["rf"], data.test.rf)


@pytest.mark.parametrize(
    ("rounds", "every", "scored"), [(5, 1, [0, 1, 2, 3, 4]), (5, 2, [1, 3, 4]), (5, 50, [4]), (1, 1, [0])]
)
def test_scores_come_every_so_many_rounds_and_always_at_the_end(
    rounds: int, every: int, scored: list[int], data: ClientData
) -> None:
    evaluator = Evaluator([client(data)], rounds, every)
    oracle = Guesser(0, lambda _: {"fused": data.test.powers})
    rows = [evaluator.observe(oracle, index) for index in range(rounds)]
    assert [index for index, row in enumerate(rows) if "models" in row] == scored
    assert all(row["loss"] == 0.5 for row in rows)
    assert rows[-1]["models"] == {"fused": {"top1": 1.0, "top3": 1.0, "power_loss_db": 0.0}}


def test_every_model_of_a_learner_is_scored(data: ClientData) -> None:
    both = Guesser(0, lambda _: {"gps": -data.test.powers, "rf": data.test.powers})
    scored = Evaluator([client(data)], 1, 1).scores(both)
    assert (scored["gps"].top1, scored["rf"].top1) == (0.0, 1.0)


def test_persistence_is_how_often_the_best_beam_stays(data: ClientData) -> None:
    stays = float((data.test.label == data.test.previous_beam).mean())
    assert 0.0 < stays < 1.0
    assert baseline_scores(client(data))["persistence"].top1 == pytest.approx(stays)


def test_majority_is_counted_in_training_rows_and_scored_on_held_out_ones(data: ClientData) -> None:
    most = int(np.bincount(data.train.label).argmax())
    labels = np.where(np.arange(len(data.test)) % 4 == 0, most, (most + 1) % data.test.n_beams)
    relabelled = replace(data, test=replace(data.test, label=labels))
    quarter = float((labels == most).mean())
    assert baseline_scores(client(relabelled))["majority"].top1 == pytest.approx(quarter)


def test_a_group_is_the_mean_of_its_clients_however_many_rows_they_have(data: ClientData) -> None:
    members = [client(data, 0), client(replace(data, test=data.test.take(np.arange(3))), 1)]
    groups = by_group({"both": members}, {0: {"fused": scores(0.2)}, 1: {"fused": scores(0.4)}})
    assert groups["both"]["fused"] == pytest.approx({"top1": 0.3, "top3": 0.6, "power_loss_db": 3.0, "top1_std": 0.1})


def test_groups_come_in_the_order_they_are_given(data: ClientData) -> None:
    clients = {"rf": [client(data, 1, "rf")], "gps": [client(data, 0, "gps")]}
    assert list(by_group(clients, {0: {"fused": scores(0.2)}, 1: {"fused": scores(0.4)}})) == ["rf", "gps"]


def test_a_group_reports_its_best_model() -> None:
    assert best_model({"gps": {"top1": 0.2, "top3": 0.9}, "rf": {"top1": 0.3, "top3": 0.8}}) == "rf"
