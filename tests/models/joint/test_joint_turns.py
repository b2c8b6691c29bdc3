"""Training and prediction of several models at once are those of each alone, up to rounding, for whatever can train."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import DivergedError, Modality
from sheafedge.emulator.nodes.compute_pool import BatchedPool, SerialPool, ThreadPool
from sheafedge.emulator.turns import Turn
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders import map_encoder
from sheafedge.models.encoders.mlp import position_mlp, window_mlp
from sheafedge.models.encoders.row_scale import AsColumns
from sheafedge.models.encoders.small_cnn import CNN_SIZES, SmallCnn
from sheafedge.models.fusion import FUSIONS
from sheafedge.models.joint import fed_rows
from sheafedge.models.joint.joint_turns import StepsTurn
from sheafedge.models.joint.prediction_turn import PredictionTurn
from sheafedge.models.objectives import (
    OBJECTIVES,
    Objective,
    binary_cross_entropy,
    cross_entropy,
    several_binary_cross_entropy,
    squared_error,
)
from sheafedge.models.settings import TrainingSettings
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.models.training.minibatches import PassedBatch
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn

SAME = 1e-10  # float64, some rounds of a few steps
N_ROWS, N_CLASSES, DIM = 20, 3, 6
SMALL = 0.1  # share of the paper's channels

ADAM = TrainingSettings(local_steps=3, batch_size=8)
PLAIN = TrainingSettings(local_steps=3, batch_size=8, encoder_optimizer="sgd")

#: Encoder -> shape of one input, and what makes it, given the stream of its dropouts.
ENCODERS: dict[str, tuple[tuple[int, ...], Callable[[torch.Generator], nn.Module]]] = {
    "perceptron": ((2, 3), lambda _: window_mlp((2, 3), 7, DIM)),
    "position": ((4,), lambda _: position_mlp(DIM, hidden_dim=5)),
    "columns": ((DIM,), lambda _: AsColumns((DIM,))),
    "lidar": ((2, 8, 16), lambda g: map_encoder.lidar_encoder((2, 8, 16), DIM, g, width=SMALL)),
    "camera": ((2, 16, 16), lambda g: map_encoder.camera_encoder((2, 16, 16), DIM, g, width=SMALL)),
    "beam map": ((32, 32), lambda g: map_encoder.beam_map_encoder((32, 32), DIM, g, width=SMALL, dropout=0.4)),
    "drone": ((3, 48, 64), lambda g: map_encoder.drone_camera_encoder((3, 48, 64), DIM, g, width=SMALL)),
    "radar": ((2, 16, 16), lambda g: map_encoder.radar_encoder((2, 16, 16), DIM, g, width=SMALL)),
    "small cnn": ((28, 28), lambda _: SmallCnn((28, 28), CNN_SIZES["cnn_fmtl_large"])),
}


@dataclass(frozen=True)
class Case:
    """What is trained: one client per seed, all of one architecture."""

    encoders: Mapping[Modality, str]
    fusion: str = "attention"
    objective: Objective = cross_entropy
    settings: TrainingSettings = ADAM
    n_rows: int = N_ROWS

    def training(self, seed: int, penalty: Callable[[PassedBatch], Tensor] | None = None) -> LocalTraining:
        """A client whose values, rows and streams all follow from its seed."""
        draws = np.random.default_rng(seed)
        with torch.random.fork_rng(devices=[]):
            torch.random.manual_seed(seed)
            encoders = {
                m: ENCODERS[name][1](torch.Generator().manual_seed(100 + seed)) for m, name in self.encoders.items()
            }
        n_outputs = N_CLASSES if self.objective in (cross_entropy, several_binary_cross_entropy) else 1
        dim = next((e.embedding_dim for e in encoders.values() if isinstance(e, SmallCnn | AsColumns)), DIM)
        model = ClientModel(
            {m: nn.Identity() for m in encoders}, encoders, fusion=self.fusion, embedding_dim=dim, n_outputs=n_outputs
        ).double()
        model.head.data.copy_(torch.from_numpy(draws.normal(size=model.layout.dim)))
        arrays = {
            m: draws.normal(size=(self.n_rows, *ENCODERS[name][0])).astype(np.float32)
            for m, name in self.encoders.items()
        }
        label = (
            draws.normal(size=self.n_rows).astype(np.float32)
            if self.objective is squared_error
            else draws.integers(2, size=(self.n_rows, n_outputs))
            if self.objective is several_binary_cross_entropy
            else draws.integers(2 if n_outputs == 1 else N_CLASSES, size=self.n_rows)
        )
        stream = np.random.default_rng(200 + seed)
        return LocalTraining(seed, model, RowsInMemory(arrays, label), self.objective, self.settings, stream, penalty)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many turns were computed together, and how many alone."""
    counted = {"together": 0, "alone": 0}
    for kind in (StepsTurn, PredictionTurn):
        run, run_with = kind.run, kind.run_with

        def alone(turn: Any, run: Any = run) -> None:
            counted["alone"] += 1
            run(turn)

        def together(turn: Any, others: Sequence[Turn], run_with: Any = run_with) -> None:
            counted["together"] += 1 + len(others)
            run_with(turn, others)

        monkeypatch.setattr(kind, "run", alone)
        monkeypatch.setattr(kind, "run_with", together)
    return counted


def gathered(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of jobs whose turns are computed together."""
    pool = BatchedPool(SerialPool())
    return [ticket.result() for ticket in [pool.submit(job) for job in jobs]]


def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path -> value of a state."""
    if isinstance(state, dict | list):
        named = state.items() if isinstance(state, dict) else enumerate(state)
        for name, value in named:
            yield from leaves(value, f"{path}/{name}")
    else:
        yield path, state


def assert_same(first: Any, second: Any) -> None:
    """Both states are equal, numbers up to rounding."""
    ours, theirs = dict(leaves(first)), dict(leaves(second))
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            assert_allclose(value, theirs[path], rtol=SAME, atol=SAME, err_msg=path)
        else:
            assert np.array_equal(value, theirs[path]), path


def train_both_ways(case: Case, n_clients: int = 3, rounds: int = 2) -> None:
    """The same clients alone and together, round by round, and their predictions."""
    alone, together = ([case.training(seed) for seed in range(n_clients)] for _ in range(2))
    for round_index in range(rounds):
        for training in alone:
            training.train(round_index)
        gathered([partial(training.train, round_index) for training in together])
    for one, other in zip(alone, together, strict=True):
        assert_same(one.state(), other.state())
    rows = [
        {
            m: np.random.default_rng(seed).normal(size=(5 + 150 * seed, *ENCODERS[name][0])).astype(np.float32)
            for m, name in case.encoders.items()
        }
        for seed in range(n_clients)
    ]
    expected = [training.predict(inputs) for training, inputs in zip(alone, rows, strict=True)]
    found = gathered([partial(training.predict, inputs) for training, inputs in zip(together, rows, strict=True)])
    for one, other in zip(expected, found, strict=True):
        assert_allclose(one, other, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder(name: str, computed: dict[str, int]) -> None:
    """Dropouts draw from the client's stream, running statistics move, whatever the layers are.

    Not with Adam, which divides rounding by rounding where a gradient is 0, as that of a bias before a normalization.
    """
    case = Case({"rf": name}, settings=PLAIN)
    train_both_ways(case)
    assert computed == {"together": 9, "alone": 9}  # 6 rounds of a client and 3 predictions, either way


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("encoders", [("perceptron", "position"), ("perceptron", "radar")])
def test_every_fusion(fusion: str, encoders: tuple[str, str], computed: dict[str, int]) -> None:
    train_both_ways(Case({"gps": encoders[1], "rf": encoders[0]}, fusion=fusion, settings=PLAIN))
    assert computed["together"] == 9


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("encoders", [("perceptron", "position"), ("perceptron", "radar")])
def test_hidden_sensors_are_those_of_a_client_alone(
    fusion: str, encoders: tuple[str, str], computed: dict[str, int]
) -> None:
    """By written-out products and by vmap; and hiding changes what is learned."""
    case = Case({"gps": encoders[1], "rf": encoders[0]}, fusion=fusion, settings=replace(PLAIN, hide_sensors=0.4))
    train_both_ways(case)
    assert computed["together"] == 9
    hidden, plain = case.training(0), replace(case, settings=PLAIN).training(0)
    for training in (hidden, plain):
        training.train(0)
    assert not np.allclose(hidden.head.numpy(), plain.head.numpy())


@pytest.mark.parametrize("objective", OBJECTIVES.values())
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_every_objective_optimizer_and_class_weight(objective: Objective, optimizer: Any, class_weights: Any) -> None:
    if objective in (squared_error, several_binary_cross_entropy) and class_weights == "balanced":
        pytest.skip("values, and several questions at once, have no classes")
    settings = TrainingSettings(
        local_steps=4, batch_size=8, encoder_optimizer=optimizer, class_weights=class_weights, encoder_step_size=0.01
    )
    train_both_ways(Case({"rf": "perceptron"}, objective=objective, settings=settings))


@pytest.mark.parametrize("moments", ["kept", "fresh"])
@pytest.mark.parametrize("encoders", [("perceptron",), ("perceptron", "position")])
def test_one_adam_of_whole_models(encoders: tuple[str, ...], moments: Any, computed: dict[str, int]) -> None:
    settings = TrainingSettings(
        local_steps=4, batch_size=8, optimizer="adam", model_step_size=0.01, weight_decay=0.1, moments=moments
    )
    train_both_ways(Case(dict(zip(("gps", "rf"), encoders, strict=False)), settings=settings))
    assert computed["together"] == 9


@pytest.mark.parametrize("n_ahead", [1, 8 * 6 * 2])
def test_rows_that_are_large_are_fetched_few_steps_at_a_time(n_ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fed_rows, "NUMBERS_AHEAD", n_ahead)
    train_both_ways(Case({"rf": "perceptron"}))


def test_a_tiny_set_is_one_batch_together_too() -> None:
    train_both_ways(Case({"rf": "perceptron"}, n_rows=3))


def test_clients_of_several_architectures_and_batches_are_never_mixed(computed: dict[str, int]) -> None:
    plain = Case({"rf": "perceptron"})
    cases = [
        plain,
        plain,
        replace(plain, n_rows=3),  # a smaller batch
        replace(plain, fusion="concat"),
        replace(plain, encoders={"gps": "perceptron"}),
        replace(plain, objective=binary_cross_entropy),
        replace(plain, settings=replace(plain.settings, local_steps=2)),
        replace(plain, settings=replace(plain.settings, encoder_step_size=0.5)),
        replace(plain, settings=replace(plain.settings, class_weights="balanced")),
        replace(plain, settings=replace(plain.settings, encoder_optimizer="sgd")),
    ]
    alone, together = ([case.training(seed) for seed, case in enumerate(cases)] for _ in range(2))
    for training in alone:
        training.train(0)
    computed["alone"] = 0
    gathered([partial(training.train, 0) for training in together])
    assert computed == {"together": 2, "alone": 8}
    for one, other in zip(alone, together, strict=True):
        assert_same(one.state(), other.state())


class Scaled(nn.Module):
    """A layer of somebody else, whose text does not tell what it does."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        return self.factor * values


class Impatient(nn.Module):
    """A layer that looks at its values, which no batched call can follow."""

    def forward(self, values: Tensor) -> Tensor:
        return values if bool((values > 0).any()) else -values


def with_layer(layer: nn.Module, seed: int) -> LocalTraining:
    training = Case({"rf": "perceptron"}).training(seed)
    model = training.model
    encoder = model.encoders["rf"]
    assert isinstance(encoder, nn.Sequential)
    changed = ClientModel(
        {"rf": nn.Identity()}, {"rf": nn.Sequential(*encoder, layer)}, fusion="mean", embedding_dim=DIM, n_outputs=3
    ).double()
    rows = RowsInMemory({"rf": np.ones((8, 2, 3), np.float32) * seed}, np.arange(8) % 3)
    return LocalTraining(seed, changed, rows, cross_entropy, training.settings, np.random.default_rng(seed))


def test_modules_that_differ_in_an_attribute_only_are_not_mixed(computed: dict[str, int]) -> None:
    factors = [2.0, 3.0, 2.0]
    alone, together = ([with_layer(Scaled(f), seed) for seed, f in enumerate(factors)] for _ in range(2))
    for training in alone:
        training.train(0)
    gathered([partial(training.train, 0) for training in together])
    assert computed["together"] == 2
    for one, other in zip(alone, together, strict=True):
        assert_same(one.state(), other.state())


def test_a_module_that_cannot_be_batched_is_computed_alone(computed: dict[str, int]) -> None:
    trainings = [with_layer(Impatient(), seed) for seed in range(3)]
    assert trainings[0].architecture.refusal is not None
    gathered([partial(training.train, 0) for training in trainings])
    assert computed == {"together": 0, "alone": 3}


def test_frozen_parameters_stay() -> None:
    trainings = [Case({"rf": "perceptron"}).training(seed) for seed in range(2)]
    for training in trainings:
        training.model.encoders["rf"][1].weight.requires_grad_(requires_grad=False)
    before = [training.model.encoders["rf"][1].weight.clone() for training in trainings]
    gathered([partial(training.train, 0) for training in trainings])
    for training, weight in zip(trainings, before, strict=True):
        assert torch.equal(training.model.encoders["rf"][1].weight, weight)


def test_the_client_whose_numbers_diverge_is_named_and_the_others_go_on() -> None:
    trainings = [Case({"rf": "perceptron"}).training(seed) for seed in range(3)]
    trainings[1].set_head(torch.full_like(trainings[1].head, math.inf))
    pool = BatchedPool(SerialPool())
    tickets = [pool.submit(partial(training.train, 4)) for training in trainings]
    tickets[0].result()
    with pytest.raises(DivergedError, match=r"client 1: left the finite numbers in round 4"):
        tickets[1].result()
    tickets[2].result()


def test_many_clients_are_trained_in_several_stacks(monkeypatch: pytest.MonkeyPatch, computed: dict[str, int]) -> None:
    monkeypatch.setattr(StepsTurn, "at_once", 2)
    train_both_ways(Case({"rf": "perceptron"}), n_clients=5, rounds=1)
    assert computed["alone"] == 5 + 5 + 1  # alone, and one of the five of the first stack


@pytest.mark.parametrize("encoder", ["perceptron", "lidar"])
def test_what_a_client_gets_does_not_depend_on_the_number_of_threads(
    encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacks of one architecture, with dropouts of their own, are computed side by side."""
    monkeypatch.setattr(StepsTurn, "at_once", 2)
    found = []
    for inner in (SerialPool(), ThreadPool(3)):
        trainings = [Case({"rf": encoder}).training(seed) for seed in range(8)]
        pool = BatchedPool(inner)
        for ticket in [pool.submit(partial(training.train, 0)) for training in trainings]:
            ticket.result()
        pool.close()
        found.append([training.head.numpy().tobytes() for training in trainings])
    assert found[0] == found[1]
