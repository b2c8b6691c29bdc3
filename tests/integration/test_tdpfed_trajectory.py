"""TDPFed with a server on the emulated network against its reference, with linear and convolutional networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.played import Played, Setting, play
from reference.tdpfed import Parameter, TdpProblem, TdpState, run_tdpfed
from sheafedge.emulator.contracts import Learner, MessageKind, NodeId
from sheafedge.models.client_model import ClientModel
from sheafedge.models.factor_settings import FactorSettings
from sheafedge.models.factors.factor_layout import FactorLayout
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.personalization_settings import PersonalizationSettings
from sheafedge.models.rules.tdpfed import TdpFed
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sharing.server_learner import with_server
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.participation import Participation
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
REFITTED = 1e-8  # the same after factorizations of means, whose normal equations lose half of the digits
ROWS = {0: 11, 1: 8, 2: 15}
SERVER, N_ROUNDS, BATCH_SIZE = 3, 3, 4
SETTINGS = PersonalizationSettings(attraction=3.0, personal_steps=3, personal_step_size=0.05)
FACTORS = FactorSettings(ratio=1.3, steps=4, step_size=0.01)
NAMES = ("personal", "compressed local", "compressed global")


def network(kind: str) -> ClientModel:
    """Two linear layers, or a convolution, a linear layer and the head; three classes, tanh so that all is smooth."""
    draws = torch.Generator().manual_seed(0)
    encoder = {
        "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(18, 6), nn.Tanh()),
        "conv": lambda: nn.Sequential(nn.Conv2d(2, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(20, 6), nn.Tanh()),
    }[kind]()
    model = ClientModel({"gps": nn.Identity()}, {"gps": encoder}, fusion="mean", embedding_dim=6, n_outputs=3).double()
    for parameter in model.parameters():
        parameter.data.normal_(generator=draws).mul_(0.4)
    return model


def rows_of(client: NodeId) -> RowsInMemory:
    rng = np.random.default_rng([7, client])
    return RowsInMemory({"gps": rng.normal(size=(ROWS[client], 2, 3, 3))}, rng.integers(3, size=ROWS[client]))


def setups_of(kind: str, **options: Any) -> dict[NodeId, ClientSetup]:
    return {
        i: ClientSetup(
            client_id=i,
            group="all",
            models={name: network(kind) for name in NAMES},
            rows=rows_of(i),
            objective=cross_entropy,
            batch_draws={name: np.random.default_rng(10 * i + NAMES.index(name)) for name in NAMES},
            sheaf=SheafSettings(),
            training=TrainingSettings(local_steps=2, batch_size=BATCH_SIZE),
            participation=Participation(SERVER, ROWS, lambda _exchange: frozenset(ROWS)),
            **{"personalization": SETTINGS, "factors": FACTORS, **options},
        )
        for i in ROWS
    }


def shapes_of(kind: str) -> list[tuple[int, ...]]:
    """Of all parameters: those of the encoder, then weight and bias of the head."""
    model = network(kind)
    return [*(tuple(one.shape) for one in model.encoders.parameters()), (3, 6), (3,)]


def composed(layouts: Sequence[FactorLayout], vectors: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.compose(vector) for one, vector in zip(layouts, vectors, strict=True)])


def played(kind: str, rules: dict[NodeId, TdpFed], **options: Any) -> Played:
    """Clients with a server; states are dense vectors of what a client has trained, and of the server."""
    setups = setups_of(kind, **options)

    def rule_of(setup: ClientSetup) -> TdpFed:
        rules[setup.client_id] = TdpFed(setup)
        return rules[setup.client_id]

    learners = with_server(list(setups.values()), rule_of, setups[0].personalization.server_mixing)

    def state_of(learner: Learner) -> dict[str, Tensor]:
        if learner.client_id == SERVER:
            vectors = learner.state()["server"]["vectors"].values()
            return {"shared": composed(layouts_of(rules[0]), [torch.as_tensor(one) for one in vectors])}
        model, rule = setups[learner.client_id].models["personal"], rules[learner.client_id]
        personal = torch.cat([*(one.detach().reshape(-1) for one in model.encoders.parameters()), model.head.detach()])
        return {"personal": personal, "shared": composed(layouts_of(rule), rule._shared.vectors)}

    kinds = frozenset({MessageKind.FACTORS})
    return play(learners, [(i, SERVER) for i in ROWS], kinds, N_ROUNDS, state_of, Setting())


def layouts_of(rule: TdpFed) -> list[FactorLayout]:
    return [one.layout for one in rule._shared._parts]


def reference_of(kind: str, rule: TdpFed, **options: Any) -> TdpProblem:
    """The same losses, streams and settings, from the factors that a rule has drawn."""
    shapes, start = shapes_of(kind), []
    for layout, vector in zip(layouts_of(rule), rule._shared.vectors, strict=True):
        found: dict[int, Parameter] = {w.dense.start: [a.clone() for a in w.factors(vector)] for w in layout.weights}
        found |= {dense.start: vector[kept].clone() for dense, kept in layout.rest}
        start += [found[place] for place in sorted(found)]

    def loss_of(client: NodeId) -> Any:
        model, rows = network(kind), rows_of(client)
        names = [f"encoders.{name}" for name, _ in model.encoders.named_parameters()]

        def loss(chosen: Any, theta: Sequence[Tensor]) -> Tensor:
            *encoder, weight, bias = [one.view(shape) for one, shape in zip(theta, shapes, strict=True)]
            values = {**dict(zip(names, encoder, strict=True)), "head": torch.cat([weight.reshape(-1), bias])}
            inputs = {str(k): torch.as_tensor(v) for k, v in rows.inputs(chosen).items()}
            logits = functional_call(model, values, (inputs,))
            return nn.functional.cross_entropy(logits, torch.from_numpy(rows.label[chosen]))

        return loss

    chosen: dict[str, Any] = {
        "losses": {i: loss_of(i) for i in ROWS}, "n_rows": ROWS, "seeds": {i: 10 * i for i in ROWS}, "start": start,
        "tau": 2, "s": SETTINGS.personal_steps, "s_factors": FACTORS.steps, "lam": SETTINGS.attraction,
        "lr_personal": SETTINGS.personal_step_size, "lr_factors": FACTORS.step_size, "batch_size": BATCH_SIZE,
        "n_rounds": N_ROUNDS,
    } | options  # fmt: skip
    return TdpProblem(**chosen)


def gap(found: Played, expected: Sequence[TdpState]) -> float:
    """Largest difference of any model over rounds and nodes."""

    def flat(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([one.reshape(-1) for one in tensors])

    return max(
        float((mine - flat(theirs)).abs().max())
        for mine_of, state in zip(found.states, expected, strict=True)
        for mine, theirs in [
            (mine_of[SERVER]["shared"], state.server),
            *((mine_of[i]["personal"], state.personal[i]) for i in ROWS),
            *((mine_of[i]["shared"], state.local[i]) for i in ROWS),
        ]
    )


CASES: Mapping[str, tuple[str, dict[str, Any], dict[str, Any], float]] = {
    "factors of linear layers": ("linear", {}, {}, SAME),
    "factors of a convolution": ("conv", {}, {}, SAME),
    "a server that goes beyond the mean": (
        "conv", {"personalization": replace(SETTINGS, server_mixing=1.6)}, {"beta": 1.6}, SAME
    ),
    "a personal model that is kept": (
        "linear", {"factors": replace(FACTORS, personal_start="keep")}, {"keep": True}, SAME
    ),
    "tensors of linear layers": ("linear", {"factors": replace(FACTORS, aggregation="tensors")}, {"act": True}, SAME),
    "tensors of a convolution": (
        "conv",
        {"factors": replace(FACTORS, aggregation="tensors"), "personalization": replace(SETTINGS, server_mixing=0.7)},
        {"act": True, "beta": 0.7},
        REFITTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_clients_and_server_walk_their_reference(name: str) -> None:
    kind, options, changed, same = CASES[name]
    rules: dict[NodeId, TdpFed] = {}
    found = played(kind, rules, **options)
    first: dict[NodeId, TdpFed] = {0: TdpFed(setups_of(kind, **options)[0])}
    expected = run_tdpfed(reference_of(kind, first[0], **changed))
    assert gap(found, expected) < same
    # or all of the above could be about models that stand still, or follow each other
    last, before = found.states[-1], found.states[0]
    assert float((last[SERVER]["shared"] - before[SERVER]["shared"]).abs().max()) > 1e-3
    assert min(float((last[i]["personal"] - last[i]["shared"]).abs().max()) for i in ROWS) > 1e-3
    plain = run_tdpfed(reference_of(kind, first[0]))
    assert not changed or gap(found, plain) > 1e-4


def test_three_models_answer_by_name_and_the_global_one_as_it_was_received() -> None:
    setups = setups_of("conv")
    rule = TdpFed(setups[0])
    inputs = setups[0].rows.inputs(np.arange(ROWS[0]))
    before = rule.predict(inputs)
    assert list(before) == ["personal", "compressed local", "compressed global"]
    rule.train(0)
    after = rule.predict(inputs)
    assert np.array_equal(before["compressed global"], after["compressed global"])
    assert not np.array_equal(before["compressed local"], after["compressed local"])
    assert not np.array_equal(after["personal"], after["compressed local"])
    rule.received()
    assert np.array_equal(rule.predict(inputs)["compressed global"], after["compressed local"])


def test_the_stronger_the_pull_the_nearer_the_personal_model_stays_to_the_factors() -> None:
    """Property 8, from lambda = 0, which is local training, on."""

    def distance(attraction: float) -> float:
        pulled = replace(SETTINGS, attraction=attraction, personal_step_size=0.01, personal_steps=60)
        setup = setups_of("linear", personalization=pulled, factors=replace(FACTORS, step_size=0.0))[0]
        rule, inputs = TdpFed(setup), setup.rows.inputs(np.arange(ROWS[0]))
        rule.train(0)
        answers = rule.predict(inputs)
        return float(np.abs(answers["personal"] - answers["compressed local"]).max())

    near, middle, free = distance(100.0), distance(5.0), distance(0.0)
    assert 30.0 * near < free
    assert 3.0 * middle < free
