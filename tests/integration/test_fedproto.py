"""Class means among models of different sizes, against the reference; what it needs, and what it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.played import Setting, play
from integration.tiny import tiny, walk, wired
from reference.fedproto import ProtoProblem, run_fedproto
from sheafedge.emulator.contracts import ConfigError, Learner, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.personalization_settings import PersonalizationSettings
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.models.training.whole_model import trained_part
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
NAME = "fedproto_decentralized"
EDGES = ((0, 1), (1, 2))
N_ROUNDS, N_CLASSES, STEP_SIZE, PULL = 3, 3, 0.1, 2.0
#: Client -> units of the hidden layer and of the embedding.
LAYERS = {0: (6, 4), 1: (3, 4), 2: (9, 4)}
OF_ANY_WIDTH = {0: (6, 4), 1: (3, 2), 2: (9, 5)}


class Both(nn.Module):
    """What the head reads, and what it answers."""

    def __init__(self, model: ClientModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        fused = self.model.fusion(self.model.embeddings(inputs))
        return fused, self.model.read(fused)


def setups_of(layers: dict[NodeId, tuple[int, int]], **settings: Any) -> dict[NodeId, ClientSetup]:
    setups = {}
    for i, (hidden_dim, embedding_dim) in layers.items():
        encoders: Any = {"gps": window_mlp((5,), hidden_dim, embedding_dim)}
        parts: Any = {"gps": nn.Identity()}
        model = ClientModel(parts, encoders, fusion="mean", embedding_dim=embedding_dim, n_outputs=N_CLASSES).double()
        draws, rng = torch.Generator().manual_seed(i), np.random.default_rng(i)
        for parameter in trained_part(model).parameters():
            parameter.data.normal_(generator=draws).mul_(0.5)
        inputs: Any = {"gps": rng.normal(size=(11, 5))}
        label = rng.integers(N_CLASSES - (i == 0), size=11)  # the first client never meets the last class
        setups[i] = ClientSetup(
            client_id=i,
            group=f"size {i}",
            models={"fused": model},
            rows=RowsInMemory(inputs, label),
            objective=cross_entropy,
            batch_draws={"fused": np.random.default_rng(100 + i)},
            training=TrainingSettings(
                local_steps=2,
                batch_size=4,
                head_step_size=STEP_SIZE,
                encoder_step_size=STEP_SIZE,
                attention_step_size=STEP_SIZE,
                encoder_optimizer="sgd",
                prototype_pull=PULL,
            ),
            sheaf=SheafSettings(),
            personalization=PersonalizationSettings(**settings),
            head_mixing={j: 0.3 for a, b in EDGES for j in ((b,) if a == i else (a,) if b == i else ())},
        )
    return setups


def vector_of(model: ClientModel) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in trained_part(model).parameters()]).clone()


def reference_of(setups: dict[NodeId, ClientSetup], *, of_embeddings: bool) -> ProtoProblem:
    def passed_of(setup: ClientSetup) -> Any:
        model = setup.models["fused"]
        both, labels = Both(model), torch.from_numpy(setup.rows.label)
        shapes = {f"model.{name}": one.shape for name, one in model.named_parameters()}
        order = {id(one): f"model.{name}" for name, one in model.named_parameters()}
        names = [order[id(one)] for one in trained_part(model).parameters()]

        def passed(rows: Any, theta: Tensor) -> tuple[Tensor, Tensor]:
            pieces = torch.split(theta, [shapes[name].numel() for name in names])
            values = {name: piece.view(shapes[name]) for name, piece in zip(names, pieces, strict=True)}
            inputs = {str(k): torch.as_tensor(v) for k, v in setup.rows.inputs(rows).items()}
            fused, logits = functional_call(both, values, (inputs,))
            return nn.functional.cross_entropy(logits, labels[rows]), fused if of_embeddings else logits

        return passed

    label: Any = {i: setup.rows.label for i, setup in setups.items()}
    return ProtoProblem(
        passed={i: passed_of(setup) for i, setup in setups.items()},
        labels=label,
        start={i: vector_of(setup.models["fused"]) for i, setup in setups.items()},
        seeds={i: 100 + i for i in setups},
        edges=EDGES,
        n_classes=N_CLASSES,
        n_features=4 if of_embeddings else N_CLASSES,
        pull=PULL,
        step_size=STEP_SIZE,
        local_steps=2,
        batch_size=4,
        n_rounds=N_ROUNDS,
    )


@pytest.mark.parametrize("prototypes", ["embedding", "logits"])
def test_models_of_three_sizes_walk_the_reference(prototypes: str) -> None:
    setups = setups_of(LAYERS if prototypes == "embedding" else OF_ANY_WIDTH, prototypes=prototypes)
    problem = reference_of(setups, of_embeddings=prototypes == "embedding")
    expected, alone = run_fedproto(problem), run_fedproto(replace(problem, pull=0.0))

    def state_of(learner: Learner) -> dict[str, Tensor]:
        return {"model": vector_of(setups[learner.client_id].models["fused"])}

    learners = ALGORITHMS[NAME].learners(list(setups.values()))
    found = play(learners, EDGES, ALGORITHMS[NAME].kinds, N_ROUNDS, state_of, Setting()).states
    gaps = [float((found[k][i]["model"] - state[i]).abs().max()) for k, state in enumerate(expected) for i in state]
    assert max(gaps) < SAME
    assert min(float((expected[-1][i] - alone[-1][i]).abs().max()) for i in setups) > 1e-4


def test_embeddings_of_different_sizes_are_refused_in_one_sentence() -> None:
    setups = list(setups_of(OF_ANY_WIDTH).values())
    with pytest.raises(ConfigError, match=r"'size 0' 4, 'size 1' 2, .*; set personalization.prototypes = 'logits'"):
        ALGORITHMS[NAME].learners(setups)


def test_without_pull_it_is_local_training_to_the_bit() -> None:
    found = walk(tiny({"algorithm": NAME, "training.prototype_pull": 0.0})).states[-1]
    local = walk(tiny({"algorithm": "local"})).states[-1]
    assert all(torch.equal(values, local[i][name]) for i, state in found.items() for name, values in state.items())


@pytest.mark.parametrize(("prototypes", "n_features"), [("embedding", 4), ("logits", 8)])
def test_a_message_has_a_mean_and_a_count_per_class(prototypes: str, n_features: int) -> None:
    (learner, *_) = wired(tiny({"algorithm": NAME, "personalization.prototypes": prototypes})).emulation.learners
    assert {message.payload.size for message in learner.compute("mix", 0)} == {8 * (n_features + 1)}
