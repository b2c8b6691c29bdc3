"""Sensors are hidden as often as asked for, never all of a sample, and nothing else of training is drawn otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.client_model import ClientModel
from sheafedge.models.export.deployed_model import DeployedModel
from sheafedge.models.fusion import FUSIONS
from sheafedge.models.objectives import binary_cross_entropy
from sheafedge.models.settings import TrainingSettings
from sheafedge.models.training.hidden_sensors import HiddenSensors
from sheafedge.models.training.minibatches import Minibatches
from sheafedge.models.training.training_rows import RowsInMemory
from torch import nn

N, LIKE = 20_000, torch.zeros(1, dtype=torch.float64)
ROUNDING = 1e-12


def hidden(probability: float, seed: int = 0) -> HiddenSensors:
    return HiddenSensors(probability, np.random.default_rng(seed))


@pytest.mark.parametrize(("probability", "n_sensors"), [(0.3, 2), (0.3, 3), (0.9, 2), (0.99, 3)])
def test_sensors_are_hidden_as_often_as_asked_for_but_never_all(probability: float, n_sensors: int) -> None:
    present = hidden(probability).present(N, n_sensors, LIKE)
    assert present is not None
    assert (present.sum(dim=1) >= 1.0).all()
    # of the samples that would have lost all, one sensor each stays
    expected = probability - probability**n_sensors / n_sensors
    assert_allclose(1.0 - present.mean(dim=0).numpy(), expected, atol=5.0 * np.sqrt(0.25 / N))


def test_a_model_of_one_sensor_keeps_it() -> None:
    assert hidden(0.9).present(N, 1, LIKE) is None


def test_masks_go_on_where_a_state_was_taken() -> None:
    first, other = hidden(0.5), hidden(0.5, seed=1)
    first.present(7, 2, LIKE)
    other.restore(SavedState(first.state(), "hidden"))
    one, two = first.present(9, 2, LIKE), other.present(9, 2, LIKE)
    assert one is not None
    assert two is not None
    assert torch.equal(one, two)


def rows(n: int = 40) -> RowsInMemory:
    draws = np.random.default_rng(5)
    arrays = {name: draws.normal(size=(n, 4)).astype(np.float32) for name in ("rf", "gps")}
    return RowsInMemory(arrays, draws.integers(2, size=n))  # type: ignore[arg-type]


def minibatches(probability: float) -> Minibatches:
    settings = TrainingSettings(batch_size=8, hide_sensors=probability)
    return Minibatches(rows(), binary_cross_entropy, settings, np.random.default_rng(3))


def model(fusion: str) -> ClientModel:
    found = ClientModel(
        {"rf": nn.Identity(), "gps": nn.Identity()},
        {"rf": nn.Flatten(), "gps": nn.Flatten()},
        fusion=fusion,
        embedding_dim=4,
        n_outputs=1,
    ).double()
    draws = np.random.default_rng(11)
    for parameter in found.parameters():
        parameter.data.copy_(torch.from_numpy(draws.normal(size=parameter.shape)))
    return found.eval()


def test_minibatches_are_those_of_a_run_without() -> None:
    with_, without = minibatches(0.5), minibatches(0.0)
    for _ in range(12):
        assert_array_equal(with_.draw(), without.draw())


def test_a_state_of_minibatches_that_hide_nothing_is_as_before() -> None:
    assert set(minibatches(0.0).state()) == {"order", "at", "draws"}


def test_a_restored_state_gives_the_same_minibatches_and_masks() -> None:
    one, other, network = minibatches(0.5), minibatches(0.5), model("mean")
    for _ in range(3):
        one.next(network)
    other.restore(SavedState(one.state(), "minibatches"))
    assert torch.equal(one.next(network).logits, other.next(network).logits)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_training_sees_what_an_exported_model_does_with_a_lost_sensor(fusion: str) -> None:
    """The same mask gives the same logits through `present` of the deployed model."""
    network, batches, masks = model(fusion), minibatches(0.5), hidden(0.5)
    masks._draws = np.random.default_rng(3).spawn(1)[0]  # the stream of the minibatches
    batch = batches.draw()
    present = masks.present(len(batch), 2, network.head)
    assert present is not None
    assert 0 < present.sum() < present.numel()
    inputs = network.tensors(rows().inputs(batch))
    logits = DeployedModel(network).double()(*(inputs[name] for name in network.modalities), present)[0]
    assert_allclose(batches.passed(network, batch).logits.detach(), logits.detach(), atol=ROUNDING)


@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan")])
def test_an_impossible_probability_is_refused(probability: float) -> None:
    with pytest.raises(ConfigError, match=r"training.hide_sensors must be at least 0 and below 1"):
        TrainingSettings(hide_sensors=probability)
