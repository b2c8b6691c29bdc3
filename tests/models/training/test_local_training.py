"""Local steps of one client: minibatches, one step worked out by hand, prediction, and the end of a diverging run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import DivergedError, Modality
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.settings import TrainingSettings
from sheafedge.models.training.divergence import DIVERGED_LOSS
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.models.training.minibatches import BatchOrder
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn

BY_HAND = 1e-12  # float64, a dozen operations on numbers around 1


# --- minibatches ------------------------------------------------------------------------------------------------------


@given(n_rows=st.integers(1, 60), batch_size=st.integers(1, 70), seed=st.integers(0, 99))
def test_an_epoch_repeats_no_row_and_leaves_out_less_than_one_batch(n_rows: int, batch_size: int, seed: int) -> None:
    order = BatchOrder(n_rows, batch_size, np.random.default_rng(seed))
    size = min(batch_size, n_rows)
    for _ in range(3):
        epoch = np.concatenate([order.next(n_rows) for _ in range(n_rows // size)])
        assert len(set(epoch.tolist())) == len(epoch) == n_rows // size * size > n_rows - size
        assert epoch.min() >= 0
        assert epoch.max() < n_rows


def test_every_epoch_has_an_order_of_its_own_and_the_stream_decides_it() -> None:
    def epochs(seed: int) -> list[list[int]]:
        order = BatchOrder(40, 8, np.random.default_rng(seed))
        return [np.concatenate([order.next(40) for _ in range(5)]).tolist() for _ in range(3)]

    first, second, third = epochs(0)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(40))
    assert first != second != third != first
    assert epochs(0) == [first, second, third]
    assert epochs(1)[0] != first


def test_rows_that_one_epoch_drops_come_back_in_others() -> None:
    order = BatchOrder(10, 4, np.random.default_rng(0))  # drops two rows an epoch
    seen = {row for _ in range(20) for row in order.next(10).tolist()}
    assert seen == set(range(10))


def test_a_tiny_set_is_one_batch() -> None:
    order = BatchOrder(3, 32, np.random.default_rng(0))
    assert [sorted(order.next(3).tolist()) for _ in range(4)] == [[0, 1, 2]] * 4


def test_rows_that_were_added_begin_a_new_epoch_over_all_of_them() -> None:
    order = BatchOrder(6, 2, np.random.default_rng(0))
    order.next(6)
    epoch = np.concatenate([order.next(10) for _ in range(5)])
    assert sorted(epoch.tolist()) == list(range(10))


# --- a step by hand ---------------------------------------------------------------------------------------------------

#: One row of class 0. Both encoders are the identity, so the embeddings are [1, 2] (gps) and [3, 0] (rf); attention
#: starts even, so the head reads their mean [2, 1] and, with weights [[1, 0], [0, 2]], gives equal logits [2, 2]:
#: the loss is ln 2, its gradient on the logits [-1/2, 1/2], on what the head reads [-1/2, 1].
HEAD = [1.0, 0.0, 0.0, 2.0, 0.0, 0.0]
HEAD_GRADIENT = [-1.0, -0.5, 1.0, 0.5, -0.5, 0.5]
#: Half of [-1/2, 1] reaches each embedding; times the input for the weights, and plain for the biases.
ENCODER_GRADIENTS: dict[Modality, list[float]] = {
    "gps": [-0.25, -0.5, 0.5, 1.0, -0.25, 0.5],
    "rf": [-0.75, 0.0, 1.5, 0.0, -0.25, 0.5],
}
#: Scores: weight * ([-1/2, 1] . (embedding - mean)) = 1/2 * (3/2, -3/2); times the embedding. Rows: rf, gps.
SCORING_GRADIENT = [[-2.25, 0.0], [0.75, 1.5]]
SIZES = {"head_step_size": 0.5, "encoder_step_size": 0.25, "attention_step_size": 0.125}


def identity_training(optimizer: Any = "sgd", fusion: str = "attention", **rows: Any) -> LocalTraining:
    encoders: dict[Modality, nn.Module] = {"gps": nn.Linear(2, 2), "rf": nn.Linear(2, 2)}
    normalizers: dict[Modality, nn.Module] = {"gps": nn.Identity(), "rf": nn.Identity()}
    model = ClientModel(normalizers, encoders, fusion=fusion, embedding_dim=2, n_outputs=2).double()
    with torch.no_grad():
        for encoder in encoders.values():
            encoder.weight.copy_(torch.eye(2))
            encoder.bias.zero_()
        if fusion == "attention":
            model.head.copy_(torch.tensor(HEAD))
    inputs = {"gps": np.array([[1.0, 2.0]], dtype=np.float32), "rf": np.array([[3.0, 0.0]], dtype=np.float32)}
    settings = TrainingSettings(encoder_optimizer=optimizer, **SIZES)
    client_rows = RowsInMemory(**({"arrays": inputs, "label": np.array([0])} | rows))
    return LocalTraining(4, model, client_rows, cross_entropy, settings, np.random.default_rng(0))


def test_one_backward_fills_all_gradients_as_worked_out_by_hand() -> None:
    training = identity_training()
    assert training.model.modalities == ("rf", "gps")  # canonical order, not that of the arguments
    assert float(training.backward()) == pytest.approx(math.log(2.0), abs=BY_HAND)
    assert_allclose(training.head_gradient, HEAD_GRADIENT, atol=BY_HAND)
    for modality, gradient in ENCODER_GRADIENTS.items():
        assert_allclose(training.encoders[modality].gradient, gradient, atol=BY_HAND)
    assert_allclose(training.model.fusion.scoring.grad, SCORING_GRADIENT, atol=BY_HAND)


@pytest.mark.parametrize("order", [("encoders", "attention", "head"), ("head", "attention", "encoders")])
def test_one_plain_step_equals_the_numbers_worked_out_by_hand(order: tuple[str, ...]) -> None:
    """The three steps use gradients of one backward pass, so their order does not matter."""
    training = identity_training()
    training.backward()
    steps = {
        "encoders": training.step_encoders,
        "attention": training.step_attention,
        "head": lambda: training.set_head(training.head - 0.5 * training.head_gradient),
    }
    for name in order:
        steps[name]()
    assert_allclose(training.head, np.array(HEAD) - 0.5 * np.array(HEAD_GRADIENT), atol=BY_HAND)
    for modality, gradient in ENCODER_GRADIENTS.items():
        expected = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]) - 0.25 * np.array(gradient)
        assert_allclose(training.encoders[modality].vector, expected, atol=BY_HAND)
    assert_allclose(training.model.fusion.scoring.detach(), -0.125 * np.array(SCORING_GRADIENT), atol=BY_HAND)


def test_gradients_do_not_pile_up_from_one_backward_to_the_next() -> None:
    training = identity_training()
    training.backward()
    training.backward()
    assert_allclose(training.head_gradient, HEAD_GRADIENT, atol=BY_HAND)
    assert_allclose(training.encoders["gps"].gradient, ENCODER_GRADIENTS["gps"], atol=BY_HAND)
    assert_allclose(training.model.fusion.scoring.grad, SCORING_GRADIENT, atol=BY_HAND)


def test_the_first_adam_step_moves_every_coordinate_by_the_step_size() -> None:
    """m / sqrt(v) is the sign of the first gradient; heads and attention stay with plain descent."""
    training = identity_training("adam")
    training.backward()
    training.step_encoders()
    for modality, gradient in ENCODER_GRADIENTS.items():
        moved = training.encoders[modality].vector.numpy() - [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
        assert_allclose(moved, -0.25 * np.sign(gradient), atol=1e-7)  # Adam's epsilon of 1e-8 over gradients of 0.25
    assert_array_equal(training.head, HEAD)


@pytest.mark.parametrize("fusion", ["mean", "concat"])
def test_fusions_without_scores_have_no_attention_step(fusion: str) -> None:
    training = identity_training(fusion=fusion)
    training.backward()
    before = [p.detach().clone() for p in training.model.parameters()]
    training.step_attention()
    assert all(torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True))


def test_training_does_not_touch_the_rows() -> None:
    inputs = {"gps": np.ones((6, 2), dtype=np.float32), "rf": np.ones((6, 2), dtype=np.float32)}
    labels = np.array([0, 1, 0, 1, 0, 1])
    training = identity_training(arrays=inputs, label=labels)
    for _ in range(3):
        training.backward()
        training.step_encoders()
    assert all((values == 1.0).all() for values in inputs.values())
    assert labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_the_loss_falls_when_all_parts_step_together() -> None:
    training = identity_training()
    losses = []
    for _ in range(4):
        losses.append(float(training.backward()))
        training.step_encoders()
        training.step_attention()
        training.set_head(training.head - 0.1 * training.head_gradient)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2


# --- prediction and health --------------------------------------------------------------------------------------------


def noisy_training(n_rows: int = 12, batch_size: int = 8) -> LocalTraining:
    """With dropout and batch normalisation, which behave differently in training."""
    rng = np.random.default_rng(3)
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(0)
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 4))
        model = ClientModel({"gps": nn.Identity()}, {"gps": encoder}, fusion="mean", embedding_dim=4, n_outputs=3)
        model.head.data.normal_()
    inputs: dict[Modality, Any] = {"gps": rng.normal(size=(n_rows, 4, 2)).astype(np.float32)}
    rows = RowsInMemory(inputs, rng.integers(3, size=n_rows))
    return LocalTraining(
        0, model, rows, cross_entropy, TrainingSettings(batch_size=batch_size), np.random.default_rng(0)
    )


def test_prediction_is_deterministic_and_leaves_the_model_training() -> None:
    training = noisy_training()
    inputs = {"gps": np.random.default_rng(9).normal(size=(5, 4, 2)).astype(np.float32)}
    state = {name: value.clone() for name, value in training.model.state_dict().items()}
    first, second = training.predict(inputs), training.predict(inputs)
    assert_array_equal(first, second)
    assert first.shape == (5, 3)
    assert first.dtype == np.float32
    assert all(module.training for module in training.model.modules())
    assert all(torch.equal(state[name], value) for name, value in training.model.state_dict().items())
    tensors = {"gps": torch.from_numpy(inputs["gps"])}
    with torch.no_grad():  # negative control: in training the same rows give other numbers each time
        assert not torch.equal(training.model(tensors), training.model(tensors))


def test_prediction_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    training = noisy_training()
    inputs = np.random.default_rng(9).normal(size=(5, 4, 2)).astype(np.float32)
    alone = np.concatenate([training.predict({"gps": inputs[i : i + 1]}) for i in range(5)])
    assert_allclose(alone, training.predict({"gps": inputs}), atol=1e-6)  # float32 sums of eight terms


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run_with_a_sentence_that_tells_the_cure(value: float) -> None:
    training = identity_training()
    with pytest.raises(DivergedError) as caught:
        training.check_finite(torch.tensor(value), 17)
    sentence = str(caught.value)
    for part in ("client 4", str(value), "round 17", "training.head_step_size (0.5)",
                 "training.encoder_step_size (0.25)"):  # fmt: skip
        assert part in sentence
    assert "sheaf.coupling" not in sentence, "nothing is coupled"
    assert "\n" not in sentence


def test_a_loss_that_nothing_comes_back_from_ends_the_run_though_it_is_finite() -> None:
    """Float32 holds 1e24; what it says about classes is nothing, and no exported model can equal torch."""
    training = identity_training()
    training.check_finite(torch.tensor(DIVERGED_LOSS), 0)
    with pytest.raises(DivergedError) as caught:
        training.check_finite(torch.tensor(1.29e24), 1)
    sentence = str(caught.value)
    assert sentence.startswith("client 4: training has diverged, loss 1.29e+24 in round 1 is beyond 1e+12; lower ")
    assert "training.encoder_step_size (0.25)" in sentence


def test_coupled_training_names_the_coupling_and_its_cause() -> None:
    with pytest.raises(DivergedError, match=r"\(loss inf\) after a step; lower .* or sheaf\.coupling$"):
        identity_training().check_finite(torch.tensor(math.inf), 3, lambda: " after a step")


def test_a_head_that_left_the_numbers_is_found_out() -> None:
    training = identity_training()
    training.set_head(torch.full((6,), math.inf, dtype=torch.float64))
    with pytest.raises(DivergedError, match="round 2"):
        training.check_finite(training.backward(), 2)


def test_a_finite_loss_is_remembered() -> None:
    training = identity_training()
    assert math.isnan(training.loss)
    training.check_finite(training.backward(), 0)
    assert training.loss == pytest.approx(math.log(2.0), abs=BY_HAND)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_tiny_row_set_trains(n_rows: int) -> None:
    inputs = {m: np.ones((n_rows, 2), dtype=np.float32) for m in ("gps", "rf")}
    training = identity_training(arrays=inputs, label=np.zeros(n_rows, dtype=np.int64))
    before = training.encoders["gps"].vector.clone()
    training.check_finite(training.backward(), 0)
    training.step_encoders()
    assert not torch.equal(training.encoders["gps"].vector, before)


@pytest.mark.parametrize(("n_rows", "batch_size", "rows_per_step"), [(12, 8, 8), (12, 32, 12)])
def test_flops_of_a_step_count_its_matrix_products_three_times(
    n_rows: int, batch_size: int, rows_per_step: int
) -> None:
    """Forward once, backward twice; a product of [1, m] and [m, n] is 2 m n: 8 -> 6 -> 4 -> 3."""
    training = noisy_training(n_rows, batch_size)
    assert training.flops_per_step == 3 * 2 * (8 * 6 + 6 * 4 + 4 * 3) * rows_per_step


def test_counting_flops_leaves_the_model_training_and_its_statistics_alone() -> None:
    model = noisy_training().model
    assert all(module.training for module in model.modules())
    assert model.encoders["gps"][2].running_mean.tolist() == [0.0] * 6
    assert model.encoders["gps"][2].num_batches_tracked == 0


def test_the_window_encoder_flattens_and_has_one_hidden_layer() -> None:
    encoder = window_mlp((4, 2), hidden_dim=5, embedding_dim=3)
    assert encoder(torch.zeros(7, 4, 2)).shape == (7, 3)
    shapes: list[tuple[int, ...]] = [tuple(p.shape) for p in encoder.parameters() if isinstance(p, Tensor)]
    assert shapes == [(5, 8), (5,), (3, 5), (3,)]
