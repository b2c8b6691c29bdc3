"""Class means that neighbors agree on: averages over all their rows, and a pull that only the known classes feel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.sheaves import any_case, normal
from sheafedge.models.sharing.prototypes import Prototypes
from torch import Tensor

EQUATION = 1e-12  # float64, means of tens of numbers
N_CLASSES, N_FEATURES = 4, 3
LIKE = torch.zeros(0, dtype=torch.float64)


def of_rows(features: Tensor, labels: Tensor) -> Prototypes:
    """One client that saw these rows in one go, features [n_rows, N_FEATURES]."""
    prototypes = Prototypes(N_CLASSES, N_FEATURES, like=LIKE)
    prototypes.begin_round()
    prototypes.count(features.unsqueeze(1), labels)
    return prototypes


def rows(seed: int, n_rows: int, classes: int = N_CLASSES) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    return normal(rng, n_rows, N_FEATURES), torch.from_numpy(rng.integers(0, classes, size=n_rows))


@given(seed=st.integers(0, 999), sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4))
@any_case
def test_neighbors_agree_on_the_means_over_all_their_rows(seed: int, sizes: list[int]) -> None:
    """However the rows are spread: a client with more of them counts more."""
    of_clients = [rows(seed + i, n) for i, n in enumerate(sizes)]
    sides = [of_rows(*mine) for mine in of_clients]
    payloads = [side.payload() for side in sides]
    features, labels = (torch.cat(parts) for parts in zip(*of_clients, strict=True))
    for i, side in enumerate(sides):
        side.absorb(payloads[:i] + payloads[i + 1 :])
        for label in range(N_CLASSES):
            mine = features[labels == label]
            assert bool(side.known[label]) is bool(len(mine))
            if len(mine):
                assert_allclose(side.means[label], mine.mean(dim=0), atol=EQUATION)


def test_rows_of_another_round_no_longer_count() -> None:
    prototypes = of_rows(*rows(1, 20))
    features, labels = rows(2, 20)
    prototypes.begin_round()
    prototypes.count(features.unsqueeze(1), labels)
    assert_allclose(prototypes.payload(), of_rows(features, labels).payload(), atol=EQUATION)


def test_a_class_that_nobody_saw_keeps_what_was_agreed_before() -> None:
    prototypes = of_rows(torch.ones(1, N_FEATURES, dtype=torch.float64), torch.tensor([2]))
    prototypes.absorb([])
    prototypes.begin_round()
    prototypes.count(torch.zeros(1, 1, N_FEATURES, dtype=torch.float64), torch.tensor([0]))
    prototypes.absorb([])
    assert prototypes.known.tolist() == [True, False, True, False]
    assert_allclose(prototypes.means[2], 1.0)


def test_only_rows_of_known_classes_are_pulled() -> None:
    prototypes = of_rows(torch.ones(1, N_FEATURES, dtype=torch.float64), torch.tensor([2]))
    prototypes.absorb([])
    features = normal(np.random.default_rng(0), 2, N_FEATURES).requires_grad_()
    distance = prototypes.distance(features.unsqueeze(1), torch.tensor([2, 3]))
    assert float(distance.detach()) == pytest.approx(float((features[0] - 1.0).square().sum().detach()) / 2)
    torch.autograd.backward(distance)
    assert features.grad is not None
    assert_allclose(features.grad[0], features.detach()[0] - 1.0, atol=EQUATION)  # 2 / 2 of the gap
    assert float(features.grad[1].abs().max()) == 0.0


def test_neighbors_can_read_how_often_a_client_saw_each_class() -> None:
    """What this costs in privacy, said by a test: the tail of a message is the histogram of labels."""
    features, labels = rows(3, 30)
    tail = of_rows(features, labels).payload()[-N_CLASSES:]
    assert tail.tolist() == np.bincount(labels, minlength=N_CLASSES).tolist()
