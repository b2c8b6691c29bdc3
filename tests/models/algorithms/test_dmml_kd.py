"""DMML-KD, our approximation: what its loss is, who teaches whom, what clients agree on, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from doubles.hand_played import play_round, scattered
from integration.audit import runs
from integration.played import parts_of
from integration.tiny import Walk
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError, Learner, Message, MessageKind, NodeId
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.algorithms.dmml_kd import DISTILLATION, PULL, distillation
from sheafedge.models.sharing.prototypes import Prototypes
from sheafedge.models.state.tensors import TensorPart
from torch import Tensor
from torch.nn import functional

EXACT = 1e-12  # float64, numbers of order 1
DIFFERENT = 1e-4  # the same numbers, and a mistake
T = 2.0


def some_logits(n_modalities: int, n_outputs: int, seed: int = 0) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(6, n_modalities, n_outputs, generator=draws, dtype=torch.float64).requires_grad_()


def gradient(logits: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(distillation(logits, T), logits)
    return found


# --- distillation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 2, 5])
def test_with_one_modality_there_is_nobody_to_learn_from(n_outputs: int) -> None:
    logits = some_logits(1, n_outputs)
    assert distillation(logits, T).item() == 0.0
    (0.0 * logits.sum() + distillation(logits, T)).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert_array_equal(logits.grad, torch.zeros_like(logits))


@pytest.mark.parametrize("n_modalities", [2, 3])
def test_students_are_pulled_to_the_mean_of_their_teachers_and_teachers_to_nobody(n_modalities: int) -> None:
    """d/dz_k of T^2 KL(t || softmax(z_k / T)) is T (softmax(z_k / T) - t); a gradient through t would add to it."""
    logits = some_logits(n_modalities, 4)
    believed = torch.softmax(logits.detach() / T, dim=2)
    taught = torch.stack(
        [believed[:, [m for m in range(n_modalities) if m != k]].mean(dim=1) for k in range(n_modalities)], dim=1
    )
    expected = T * (believed - taught) / len(logits)
    assert_allclose(gradient(logits), expected, atol=EXACT)
    assert float(expected.abs().max()) > DIFFERENT
    divergence = (taught * (taught.log() - believed.log())).sum(dim=2)
    assert distillation(logits, T).item() == pytest.approx(T**2 * divergence.sum(dim=1).mean().item(), abs=EXACT)


def test_modalities_that_agree_have_nothing_to_learn() -> None:
    logits = some_logits(1, 4).detach().expand(-1, 3, -1).clone().requires_grad_()
    assert distillation(logits, T).item() == pytest.approx(0.0, abs=EXACT)
    assert float(gradient(logits).abs().max()) < EXACT


def test_one_logit_is_two_classes_the_first_of_which_has_none() -> None:
    one = some_logits(2, 1)
    two = torch.cat([torch.zeros_like(one), one], dim=2)
    assert distillation(one, T).item() == pytest.approx(distillation(two, T).item(), abs=EXACT)
    assert distillation(one, T).item() > DIFFERENT
    assert_allclose(gradient(one)[..., 0], gradient(two.detach().requires_grad_())[..., 1], atol=EXACT)


# --- class means ------------------------------------------------------------------------------------------------------


def prototypes_of(rows: list[tuple[list[float], int]]) -> Prototypes:
    """Two classes and a third that nobody need have seen; one view of two features per row."""
    made = Prototypes(3, 2, like=torch.zeros(1, dtype=torch.float64))
    see(made, rows)
    return made


def see(made: Prototypes, rows: list[tuple[list[float], int]]) -> None:
    made.begin_round()
    if rows:
        features = torch.tensor([[values] for values, _ in rows], dtype=torch.float64)
        made.count(features, torch.tensor([label for _, label in rows]))


def test_class_means_are_weighted_by_the_rows_behind_them() -> None:
    mine = prototypes_of([([1.0, 0.0], 0), ([3.0, 0.0], 0), ([5.0, 5.0], 1)])
    theirs = prototypes_of([([8.0, 3.0], 0)])
    assert_allclose(theirs.payload(), [8.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    mine.absorb([theirs.payload()])
    assert_allclose(mine.means[:2], [[(1 + 3 + 8) / 3, 1.0], [5.0, 5.0]], atol=EXACT)  # not (2 + 8) / 2
    assert mine.known.tolist() == [True, True, False]


def test_every_modality_is_a_view_of_the_same_class() -> None:
    made = Prototypes(2, 2, like=torch.zeros(1, dtype=torch.float64))
    made.count(torch.tensor([[[1.0, 1.0], [3.0, 5.0]]], dtype=torch.float64), torch.tensor([1]))
    assert_allclose(made.payload(), [0, 0, 2, 3, 0, 2], atol=EXACT)


def test_a_class_that_nobody_saw_keeps_what_was_agreed() -> None:
    mine = prototypes_of([([1.0, 2.0], 1)])
    mine.absorb([])
    see(mine, [([7.0, 7.0], 0)])
    mine.absorb([prototypes_of([]).payload()])
    assert_allclose(mine.means, [[7.0, 7.0], [1.0, 2.0], [0.0, 0.0]])
    assert mine.known.tolist() == [True, True, False]
    see(mine, [([3.0, 4.0], 1)])
    mine.absorb([])
    assert_allclose(mine.means[1], [3.0, 4.0])  # and a class that is seen again does not


def test_unknown_classes_pull_at_nothing() -> None:
    mine = prototypes_of([([1.0, 2.0], 1)])
    mine.absorb([])
    features = torch.tensor([[[4.0, 6.0]], [[9.0, 9.0]]], dtype=torch.float64)
    assert mine.distance(features, torch.tensor([1, 2])).item() == (3.0**2 + 4.0**2) / 2


# --- one client -------------------------------------------------------------------------------------------------------

ONE_STEP = {"algorithm": "dmml_kd", "training.local_steps": 1}


def common_of(learner: Learner) -> tuple[Tensor, Prototypes]:
    """Classifier and class means of a client."""
    (classifier,), (prototypes,) = parts_of(learner, TensorPart), parts_of(learner, Prototypes)
    return classifier.tensor, prototypes


def with_things_to_say(walk: Walk) -> None:
    """Classifiers start at zero and no class is known: then half of the loss would be silent."""
    draws = torch.Generator().manual_seed(3)
    for learner in walk.emulation.learners:
        classifier, prototypes = common_of(learner)
        classifier.data.copy_(torch.randn(classifier.shape, generator=draws, dtype=torch.float64))
        prototypes.means.copy_(torch.randn(prototypes.means.shape, generator=draws, dtype=torch.float64))
        prototypes.known[::2] = True


def written_out(
    walk: Walk, client_id: NodeId, *, distilled: float = DISTILLATION, pulled: float = PULL, temperature: float = 2.0
) -> Tensor:
    """The local loss of the first minibatch as the specification has it."""
    client = walk.emulation.clients[client_id]
    classifier, prototypes = common_of(walk.emulation.learners[client_id])
    model, rows = client.models["fused"], client.data.train
    order = named_stream(0, "batches", client_id, "fused").permutation(len(rows))[:16]
    inputs: Any = model.tensors(rows.inputs(order))
    labels = torch.from_numpy(rows.label[order])
    features = {m: model.encoders[m](model.normalizers[m](inputs[m])) for m in model.modalities}
    head = model.head
    fused = torch.cat(list(features.values()), dim=1)
    n_weights = 8 * fused.shape[1]
    loss = functional.cross_entropy(fused @ head[:n_weights].view(8, -1).T + head[n_weights:], labels)
    common = {m: embedding[:, :2] for m, embedding in features.items()}
    said = {m: c @ classifier[:, :2].T + classifier[:, 2] for m, c in common.items()}
    for m, logits in said.items():
        loss = loss + functional.cross_entropy(logits, labels)
        if len(said) > 1:
            teacher = torch.stack([torch.softmax(said[n] / temperature, 1) for n in said if n != m]).mean(0).detach()
            student = torch.log_softmax(logits / temperature, 1)
            loss = loss + distilled * temperature**2 * (teacher * (teacher.log() - student)).sum(1).mean()
        gaps = (common[m] - prototypes.means[labels]).square().sum(1)
        loss = loss + pulled * (gaps * prototypes.known[labels]).mean()
    return loss


@pytest.mark.parametrize(
    ("setting", "options", "is_right"),
    [
        (2.0, {}, True),
        (2.0, {"distilled": 0.0}, False),
        (2.0, {"pulled": 0.0}, False),
        (2.0, {"temperature": 4.0}, False),
        (4.0, {"temperature": 4.0}, True),
    ],
    ids=str,
)
def test_a_step_follows_the_whole_loss(setting: float, options: dict[str, float], is_right: bool) -> None:
    walk = scattered({**ONE_STEP, "training.distillation_temperature": setting})
    with_things_to_say(walk)
    client = next(client for client in walk.emulation.clients if len(client.modalities) == 2)
    learner, model = walk.emulation.learners[client.client_id], client.models["fused"]
    classifier, _ = common_of(learner)
    encoders = [*model.encoders.parameters()]
    leaves = [*encoders, model.head, classifier]
    gradients = torch.autograd.grad(written_out(walk, client.client_id, **options), leaves)
    sizes = [0.05] * len(encoders) + [0.1, 0.1]
    expected = [(leaf - size * slope).detach() for leaf, size, slope in zip(leaves, sizes, gradients, strict=True)]
    learner.compute("mix", 0)
    gap = max(float((leaf.detach() - value).abs().max()) for leaf, value in zip(leaves, expected, strict=True))
    assert (gap < EXACT) == is_right
    assert is_right or gap > DIFFERENT


def test_attention_learns_where_a_scenario_asks_for_it() -> None:
    walk = scattered({**ONE_STEP, "model.fusion": "attention"})
    client = next(client for client in walk.emulation.clients if len(client.modalities) == 2)
    before = next(client.models["fused"].fusion.parameters()).detach().clone()
    walk.emulation.learners[client.client_id].compute("mix", 0)
    assert not torch.equal(next(client.models["fused"].fusion.parameters()), before)


def test_an_embedding_that_cannot_be_halved_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^model\.embedding_dim must be even for algorithm 'dmml_kd', .* got 5$"):
        scattered({**ONE_STEP, "model.embedding_dim": 5})


# --- traffic ----------------------------------------------------------------------------------------------------------


def test_an_edge_carries_encoders_the_classifier_and_class_means_both_ways() -> None:
    walk = scattered({"algorithm": "dmml_kd"})
    sent = play_round(walk)
    floats: dict[frozenset[NodeId], int] = defaultdict(int)
    for message in sent:
        floats[frozenset((message.sender, message.receiver))] += message.payload.size
    n_classes, half = 8, 2
    clients = walk.emulation.clients
    expected = {}
    for a, b in walk.emulation.graph.edges:
        shared = set(clients[a].modalities) & set(clients[b].modalities)
        encoder = sum(p.numel() for m in shared for p in clients[a].models["fused"].encoders[m].parameters())
        expected[frozenset((a, b))] = 2 * (encoder + n_classes * (half + 1) + n_classes * (half + 1))
    assert floats == expected
    assert len(set(floats.values())) > 1


def test_labels_rows_and_heads_stay_at_home() -> None:
    walk = scattered({"algorithm": "dmml_kd"})
    sent = play_round(walk)
    kinds = {MessageKind.ENCODER, MessageKind.CLASSIFIER, MessageKind.PROTOTYPES}
    assert {message.kind for message in sent} == kinds
    carried = set().union(*(runs(message.payload) for message in sent))
    for client in walk.emulation.clients:
        head = runs(client.models["fused"].head.detach().numpy())
        rows = [runs(array) for array in client.data.train.inputs().values()]
        secrets = [head, runs(client.data.train.label), *rows]
        assert all(secrets)
        assert not any(secret & carried for secret in secrets)
    classifiers = [message.payload for message in sent if message.kind is MessageKind.CLASSIFIER]
    assert not carried.isdisjoint(runs(classifiers[0]))  # the search finds what is there


def test_what_clients_agree_on_is_over_their_neighborhood() -> None:
    """Hand-made from the messages: own rows and those of neighbors, each class weighted by its rows."""
    walk = scattered({"algorithm": "dmml_kd"})
    sent = play_round(walk)
    told: dict[NodeId, Message] = {m.sender: m for m in sent if m.kind is MessageKind.PROTOTYPES}
    assert told.keys() == set(walk.emulation.graph)
    for learner in walk.emulation.learners:
        _, prototypes = common_of(learner)
        heard = [told[j].payload for j in (learner.client_id, *walk.emulation.graph[learner.client_id])]
        counts = np.array([payload[16:] for payload in heard])
        sums = sum(payload[:16].reshape(8, 2) * payload[16:, None] for payload in heard)
        total = counts.sum(axis=0)
        assert_array_equal(prototypes.known, total > 0)
        seen = total > 0
        assert_allclose(prototypes.means[torch.from_numpy(seen)], sums[seen] / total[seen, None], atol=EXACT)
        views = len(walk.emulation.clients[learner.client_id].modalities)
        assert counts[0].sum() == 2 * 16 * views  # two local steps of 16 rows, one view per modality
