"""Local rules with neighbors and with a server against their references, and the cases in which they meet others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.played import Played, Setting, play
from reference.local_rules import RulesProblem, run_rule
from reference.sheaf_dmfl import metropolis_hastings
from sheafedge.emulator.contracts import Learner, MessageKind, Modality, NodeId
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.objectives import cross_entropy, squared_error
from sheafedge.models.personalization_settings import PersonalizationSettings
from sheafedge.models.rules.local_rule import LocalRule
from sheafedge.models.rules.rule_table import RULES
from sheafedge.models.settings import SharingSettings, SheafSettings, TrainingSettings
from sheafedge.models.sharing.chained_learner import ChainedLearner
from sheafedge.models.sharing.server_learner import with_server
from sheafedge.models.sharing.train_then_mix import with_neighbors
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.participation import Participation
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.models.training.whole_model import trained_part
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
EDGES = ((0, 1), (1, 2), (2, 3), (1, 3))
N_CLIENTS, N_ROUNDS, BATCH_SIZE, STEP_SIZE = 4, 3, 4, 0.1
ROWS = {0: 11, 1: 5, 2: 6, 3: 9}  # some of an epoch are left over
SERVER = N_CLIENTS
SETTINGS = PersonalizationSettings(
    proximal=0.7,
    attraction=0.6,
    personal_steps=3,
    personal_step_size=0.2,
    global_step_size=0.5,
    mixing=0.4,
    mixing_step_size=0.005,
)
#: Every client ends with the server's mean, in which clients weigh what they have rows.
SERVER_MIXING = torch.tensor([[n / sum(ROWS.values()) for n in ROWS.values()]] * N_CLIENTS, dtype=torch.float64)
#: Rules whose clients hold one model.
SINGLE = ("sgd", "prox", "fedper", "lg_fedavg")
#: Rules that exchange factors of weights have a reference and trajectories of their own.
FACTORED = ("tdpfed",)
NAMES = {rule: ("global",) if rule in SINGLE else ("personal", "global") for rule in RULES if rule not in FACTORED}


def linear_model() -> ClientModel:
    """Ridgeless regression: quadratic losses, an encoder without parameters."""
    parts: dict[Any, nn.Module] = {"gps": nn.Identity()}
    model = ClientModel(parts, {"gps": nn.Flatten()}, fusion="concat", embedding_dim=5, n_outputs=1).double()
    model.head.data.copy_(0.3 * torch.randn(6, generator=torch.Generator().manual_seed(0)))
    return model


def network() -> ClientModel:
    """Two encoders with a hidden layer, attention, three classes."""
    owned: dict[Modality, int] = {"rf": 4, "gps": 5}
    encoders: dict[Any, nn.Module] = {k: window_mlp((width,), 6, 4) for k, width in owned.items()}
    model = ClientModel(
        {k: nn.Identity() for k in owned}, encoders, fusion="attention", embedding_dim=4, n_outputs=3
    ).double()
    draws = torch.Generator().manual_seed(0)
    for parameter in trained_part(model).parameters():
        parameter.data.normal_(generator=draws).mul_(0.5)
    return model


Exchange = Callable[[list[ClientSetup], Callable[[ClientSetup], LocalRule]], list[Learner]]
MODELS: dict[str, Callable[[], ClientModel]] = {"linear": linear_model, "network": network}


def rows_of(kind: str, client: NodeId) -> RowsInMemory:
    rng = np.random.default_rng([7, client])
    inputs: Any = {"gps": rng.normal(size=(ROWS[client], 5)), "rf": rng.normal(size=(ROWS[client], 4))}
    if kind == "network":
        return RowsInMemory(inputs, rng.integers(3, size=ROWS[client]))
    values: Any = inputs["gps"] @ rng.normal(size=5) + client
    return RowsInMemory({"gps": inputs["gps"]}, values)


def seed_of(client: NodeId, name: str) -> int:
    return 10 * client + ("global", "personal").index(name)


def neighbors_of(client: NodeId) -> dict[NodeId, float]:
    row = metropolis_hastings(list(range(N_CLIENTS)), EDGES)[client]
    return {j: w for j, w in enumerate(row.tolist()) if j != client and w > 0.0}


def setups_of(kind: str, names: tuple[str, ...], every: int = 1, **options: Any) -> dict[NodeId, ClientSetup]:
    """Clients whose steps are the printed ones; several models of a client start equal."""
    training = TrainingSettings(
        local_steps=3,
        batch_size=BATCH_SIZE,
        head_step_size=STEP_SIZE,
        encoder_step_size=STEP_SIZE,
        attention_step_size=STEP_SIZE,
        encoder_optimizer="sgd",
    )
    return {
        i: ClientSetup(
            client_id=i,
            group="all",
            models={name: MODELS[kind]() for name in names},
            rows=rows_of(kind, i),
            objective=squared_error if kind == "linear" else cross_entropy,
            batch_draws={name: np.random.default_rng(seed_of(i, name)) for name in names},
            sheaf=SheafSettings(),
            group_mixing=neighbors_of(i),
            participation=Participation(SERVER, ROWS, lambda _exchange: frozenset(ROWS), every),
            sharing=SharingSettings(every=every),
            **{"training": training, "personalization": SETTINGS, **options},
        )
        for i in range(N_CLIENTS)
    }


def vector_of(model: ClientModel) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in trained_part(model).parameters()]).clone()


def played(
    rule: str, setups: Mapping[NodeId, ClientSetup], exchange: Exchange = with_neighbors, **setting: Any
) -> Played:
    """Clients with this rule; states are the models of a client by name, as vectors."""

    def state_of(learner: Learner) -> dict[str, Tensor]:
        models = setups[learner.client_id].models if learner.client_id in setups else {}
        return {name: vector_of(model) for name, model in models.items()}

    edges = EDGES if exchange is with_neighbors else tuple((i, SERVER) for i in setups)
    kinds = frozenset({MessageKind.ENCODER, MessageKind.HEAD, MessageKind.ATTENTION})
    return play(exchange(list(setups.values()), RULES[rule]), edges, kinds, N_ROUNDS, state_of, Setting(**setting))


def reference_of(kind: str, **options: Any) -> RulesProblem:
    """The same losses, starts, streams and settings."""

    def loss_of(client: NodeId) -> Any:
        model, rows = MODELS[kind](), rows_of(kind, client)
        shapes = {name: one.shape for name, one in model.named_parameters()}
        order = {id(one): name for name, one in model.named_parameters()}
        names = [order[id(one)] for one in trained_part(model).parameters()]
        labels = torch.from_numpy(rows.label)

        def loss(chosen: Any, theta: Tensor) -> Tensor:
            pieces = torch.split(theta, [shapes[name].numel() for name in names])
            values = {name: piece.view(shapes[name]) for name, piece in zip(names, pieces, strict=True)}
            inputs = {str(k): torch.as_tensor(v) for k, v in rows.inputs(chosen).items()}
            logits = functional_call(model, values, (inputs,))
            if kind == "linear":
                return (logits[:, 0] - labels[chosen]).square().mean()
            return nn.functional.cross_entropy(logits, labels[chosen])

        return loss

    clients = range(N_CLIENTS)
    chosen: dict[str, Any] = {
        "losses": {i: loss_of(i) for i in clients},
        "n_rows": ROWS,
        "start": dict.fromkeys(clients, vector_of(MODELS[kind]())),
        "seeds": {i: {name: seed_of(i, name) for name in ("global", "personal")} for i in clients},
        "mixing": torch.as_tensor(metropolis_hastings(list(clients), EDGES)),
        "step_size": STEP_SIZE, "local_steps": 3, "batch_size": BATCH_SIZE, "n_rounds": N_ROUNDS,
        "mu": SETTINGS.proximal, "lam": SETTINGS.attraction, "n_personal": SETTINGS.personal_steps,
        "alpha": SETTINGS.personal_step_size, "eta": SETTINGS.global_step_size, "mix": SETTINGS.mixing,
        "eta_mix": SETTINGS.mixing_step_size,
    } | options  # fmt: skip
    return RulesProblem(**chosen)


def gap(one: Played, other: list[dict[int, dict[str, Tensor]]], names: Mapping[str, str]) -> float:
    """Largest difference, over rounds and clients, of models whose names correspond."""
    return max(
        float((state[i][mine] - other[k][i][theirs]).abs().max())
        for k, state in enumerate(one.states)
        for i in other[k]
        for mine, theirs in names.items()
    )


@pytest.mark.parametrize("rule", ["prox", "ditto", "pfedme", "per_fedavg", "apfl"])
@pytest.mark.parametrize(
    ("exchange", "kind", "every"),
    [(with_neighbors, "linear", 2), (with_neighbors, "network", 1), (with_server, "network", 2)],
)
def test_a_rule_walks_its_reference(rule: str, kind: str, every: int, exchange: Exchange) -> None:
    found = played(rule, setups_of(kind, NAMES[rule], every), exchange)
    server: dict[str, Any] = {"mixing": SERVER_MIXING, "exchanges_first": True} if exchange is with_server else {}
    expected = run_rule(rule, reference_of(kind, every=every, **server))
    names = {"global": "shared"} if rule in SINGLE else {"global": "shared", "personal": "personal"}
    assert gap(found, expected, names) < SAME
    # or all of the above could be about models that stand still, or follow each other
    last, first = expected[-1], vector_of(MODELS[kind]())
    moved = [state[name] - first for state in last.values() for name in ("shared", "personal")]
    assert min(float(one.abs().max()) for one in moved) > 1e-2
    if rule not in SINGLE:
        assert min(float((state["personal"] - state["shared"]).abs().max()) for state in last.values()) > 1e-3


def test_the_share_of_the_own_model_stays_a_share() -> None:
    """Steps of alpha that are too long end at 0 or 1."""
    settings = replace(SETTINGS, mixing_step_size=0.3)
    found = played("apfl", setups_of("linear", NAMES["apfl"], personalization=settings))
    expected = run_rule("apfl", reference_of("linear", eta_mix=0.3))
    assert gap(found, expected, {"global": "shared", "personal": "personal"}) < SAME
    assert any(torch.equal(state["personal"], state["shared"]) for state in expected[-1].values())


#: Rule, its settings, name of a model -> the rule that it must be to the bit, and the name of the model there.
MEETINGS: dict[str, tuple[str, PersonalizationSettings, dict[str, tuple[str, str]]]] = {
    "FedProx without its pull": ("prox", replace(SETTINGS, proximal=0.0), {"global": ("sgd", "global")}),
    "the shared model of Ditto": ("ditto", SETTINGS, {"global": ("sgd", "global")}),
    "the shared model of APFL": ("apfl", SETTINGS, {"global": ("sgd", "global")}),
    "Per-FedAvg without a step": (
        "per_fedavg",
        replace(SETTINGS, personal_step_size=0.0),
        {"personal": ("per_fedavg", "global")},
    ),
    "APFL with a share of 0": (
        "apfl",
        replace(SETTINGS, mixing=0.0, mixing_step_size=0.0),
        {"personal": ("sgd", "global")},
    ),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_special_cases_are_other_rules_to_the_bit(name: str) -> None:
    rule, settings, same = MEETINGS[name]
    one = played(rule, setups_of("network", NAMES[rule], personalization=settings))
    for mine, (other, theirs) in same.items():
        expected = one if other == rule else played(other, setups_of("network", NAMES[other]))
        assert gap(one, expected.states, {mine: theirs}) == 0.0


def alone(setups: Mapping[NodeId, ClientSetup]) -> dict[NodeId, ClientSetup]:
    return {i: replace(setup, group_mixing={}) for i, setup in setups.items()}


def test_ditto_without_attraction_is_local_training_to_the_bit() -> None:
    """On the batches of its personal model, and with as many steps."""
    settings = replace(SETTINGS, attraction=0.0)
    one = played("ditto", setups_of("network", NAMES["ditto"], personalization=settings))
    other = alone(setups_of("network", ("global",)))
    other = {
        i: replace(s, batch_draws={"global": np.random.default_rng(seed_of(i, "personal"))}) for i, s in other.items()
    }
    assert gap(one, played("sgd", other).states, {"personal": "global"}) == 0.0


@pytest.mark.parametrize("rule", ["fedper", "lg_fedavg"])
def test_of_a_split_model_one_part_is_averaged_and_the_other_trained_alone(rule: str) -> None:
    """In the first round; later each part is trained beneath or above what became of the other."""
    states, whole, own = (
        played(name, setups).states[0]
        for name, setups in (
            (rule, setups_of("network", ("global",))),
            ("sgd", setups_of("network", ("global",))),
            ("sgd", alone(setups_of("network", ("global",)))),
        )
    )
    model = network()
    n_encoders = sum(one.numel() for one in model.encoders.parameters())
    for i in states:
        averaged, kept = (whole, own) if rule == "fedper" else (own, whole)
        assert torch.equal(states[i]["global"][:n_encoders], averaged[i]["global"][:n_encoders])
        assert torch.equal(states[i]["global"][n_encoders:], kept[i]["global"][n_encoders:])
        assert not torch.equal(own[i]["global"], whole[i]["global"])


@pytest.mark.parametrize("rule", ["prox", "ditto", "pfedme", "per_fedavg", "apfl"])
def test_whoever_hears_nobody_holds_what_it_has_trained(rule: str) -> None:
    """A lost exchange is one that leaves every vector as it was."""
    lost = played(rule, setups_of("linear", NAMES[rule]), loss=1.0, deadline_s=1.0)
    quiet = played(rule, alone(setups_of("linear", NAMES[rule])))
    assert gap(lost, quiet.states, {name: name for name in NAMES[rule]}) == 0.0


@pytest.mark.parametrize("rule", [rule for rule in NAMES if rule not in SINGLE])
def test_both_models_answer_by_name_and_the_global_one_as_it_was_received(rule: str) -> None:
    setups = setups_of("network", NAMES[rule])
    (learner, *_) = learners = with_neighbors(list(setups.values()), RULES[rule])
    assert all(isinstance(one, ChainedLearner) for one in learners)
    inputs = setups[0].rows.inputs(np.arange(ROWS[0]))
    received = learner.predict(inputs)["global"]
    before = vector_of(setups[0].models["global"])
    learner.compute("mix", 0)
    answers, after = learner.predict(inputs), vector_of(setups[0].models["global"])
    assert not torch.equal(before, after)
    assert np.array_equal(answers["global"], received)
    assert torch.equal(vector_of(setups[0].models["global"]), after)  # asking has put nothing in its place
    learner.absorb("mix", 0, ())
    assert not np.array_equal(learner.predict(inputs)["global"], received)
    assert list(answers) == ["personal", "global"]
    with torch.no_grad():
        model = setups[0].models["personal"]
        assert np.array_equal(learner.predict(inputs)["personal"], model(model.tensors(inputs)).numpy())
