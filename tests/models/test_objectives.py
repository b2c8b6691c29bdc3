"""The loss of several questions at once: its value and gradient from the formula, alone and for many models."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose
from sheafedge.models.objectives import binary_cross_entropy, joint_loss, several_binary_cross_entropy

SAME = 1e-10
N, K = 7, 4


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draws = np.random.default_rng(seed)
    return torch.from_numpy(draws.normal(size=(N, K))), torch.from_numpy(draws.integers(2, size=(N, K)))


def test_the_gradient_of_every_output_is_that_of_its_question_alone() -> None:
    logits, labels = drawn(1)
    logits.requires_grad_()
    loss = several_binary_cross_entropy(logits, labels, None)
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation
    odds = 1.0 / (1.0 + np.exp(-logits.detach().numpy()))
    assert logits.grad is not None
    assert_allclose(logits.grad.numpy(), (odds - labels.numpy()) / N, atol=SAME)
    right = np.where(labels.numpy() == 1, odds, 1.0 - odds)
    assert_allclose(loss.item(), -np.log(right).sum(axis=1).mean(), atol=SAME)
    alone = sum(float(binary_cross_entropy(logits[:, [k]], labels[:, k], None).detach()) for k in range(K))
    assert_allclose(loss.item(), alone, atol=SAME)


def test_many_models_have_the_losses_of_each() -> None:
    pairs = [drawn(seed) for seed in range(3)]
    logits, labels = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    found = joint_loss(several_binary_cross_entropy, logits, labels, None)
    expected = [several_binary_cross_entropy(*pair, None).item() for pair in pairs]
    assert_allclose(found.numpy(), expected, atol=SAME)
