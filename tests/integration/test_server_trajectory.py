"""Federated averaging by a server and its clients against the reference: sampling, losses, groups, and D-PSGD."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from integration.cases import Case, random_case, setup_of
from integration.played import Setting, play, vectors_of_server
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from reference.fedavg import FedAvgProblem, FedAvgState, run_fedavg
from reference.problems import random_problem
from sheafedge.emulator.contracts import Learner, Message, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.participation import Participation
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
N_ROUNDS, SERVER = 4, 4
ROWS = {0: 10, 1: 30, 2: 20, 3: 5}
#: Clients of each round: all, pairs, and one alone.
SAMPLED = ((0, 1, 2, 3), (1, 3), (0, 2), (3,))

Setups = dict[NodeId, ClientSetup]
#: Message -> what of it gets through, or None: nothing does.
Damage = Callable[[Message], Message | None]


def networks(members: Sequence[Sequence[int]] = (tuple(ROWS),) * N_ROUNDS, every: int = 1) -> Setups:
    """Clients with GPS, RF and both, two-layer encoders, attention; a group for each choice of sensors."""
    case = random_case(2, n_clients=4, n_rounds=N_ROUNDS, local_steps=2)
    participation = Participation(SERVER, ROWS, lambda exchange: frozenset(members[exchange]), every)
    return with_participation(case, participation)


def with_participation(case: Case, participation: Participation) -> Setups:
    setups = {i: setup_of(case, i, torch.float64, "sgd") for i in sorted(case.problem.modalities)}
    groups = {i: "+".join(setup.models["fused"].modalities) for i, setup in setups.items()}
    return {i: replace(setup, group=groups[i], participation=participation) for i, setup in setups.items()}


def parts_of(setup: ClientSetup) -> dict[str, list[str]]:
    """Name of a part, as the server names it -> names of the parameters in it, in order."""
    model, parts = setup.models["fused"], {}
    for modality in model.modalities:
        parts[f"encoder {modality}"] = [
            f"encoders.{modality}.{name}" for name, _ in model.encoders[modality].named_parameters()
        ]
    parts[f"head of {setup.group}"] = ["head"]
    if len(model.modalities) > 1:
        parts[f"attention of {setup.group}"] = ["fusion.scoring"]
    return parts


def values_of(setup: ClientSetup) -> dict[str, Tensor]:
    found = dict(setup.models["fused"].named_parameters())
    return {
        part: torch.cat([found[name].detach().reshape(-1) for name in names]).clone()
        for part, names in parts_of(setup).items()
    }


def logits_of(setup: ClientSetup, theta: Mapping[str, Tensor], rows: NDArray[np.int64]) -> Tensor:
    """Logits of a client's model with these parts on some of its rows."""
    model: ClientModel = setup.models["fused"]
    shapes = {name: one.shape for name, one in model.named_parameters()}
    values: dict[str, Tensor] = {}
    for part, names in parts_of(setup).items():
        pieces = torch.split(theta[part], [shapes[name].numel() for name in names])
        values |= {name: piece.view(shapes[name]) for name, piece in zip(names, pieces, strict=True)}
    inputs = {str(k): torch.as_tensor(v) for k, v in setup.rows.inputs(rows).items()}
    logits: Tensor = functional_call(model, values, (inputs,))
    return logits


def loss_of(setup: ClientSetup) -> Any:
    """The client's loss as a function of its parts; minibatches are its rows in order."""
    size, steps = setup.training.batch_size, setup.training.local_steps

    def loss(n_trained: int, step: int, theta: Mapping[str, Tensor]) -> Tensor:
        first = (n_trained * steps + step) * size
        rows = np.arange(first, first + size)
        return nn.functional.cross_entropy(logits_of(setup, theta, rows), torch.from_numpy(setup.rows.label[rows]))

    return loss


def reference_of(setups: Setups, **options: Any) -> FedAvgProblem:
    training = setups[0].training
    chosen: dict[str, Any] = {
        "losses": {i: loss_of(setup) for i, setup in setups.items()},
        "start": {i: values_of(setup) for i, setup in setups.items()},
        "rows": {i: float(n) for i, n in ROWS.items()},
        "step_sizes": {
            "encoder": training.encoder_step_size,
            "attention": training.attention_step_size,
            "head": training.head_step_size,
        },
        "members": lambda _round: tuple(ROWS),
        "local_steps": training.local_steps,
        "n_rounds": N_ROUNDS,
    } | options
    return FedAvgProblem(**chosen)


def played(setups: Setups, damage: Damage = lambda message: message) -> list[FedAvgState]:
    """Learners asked and told by hand; the test decides what gets through."""
    return told(ALGORITHMS["fedavg"].learners(list(setups.values())), setups, damage)


def told(learners: Sequence[Learner], setups: Setups, damage: Damage = lambda message: message) -> list[FedAvgState]:
    """The same for learners of the caller's."""
    states = []
    for round_index in range(N_ROUNDS):
        for phase in ("broadcast", "collect"):
            sent = [message for learner in learners for message in learner.compute(phase, round_index)]
            arrived = [found for message in sent if (found := damage(message)) is not None]
            for learner in learners:
                mine = [message for message in arrived if message.receiver == learner.client_id]
                assert {message.slot for message in mine} <= learner.expected(phase, round_index)
                learner.absorb(phase, round_index, sorted(mine, key=lambda m: (m.sender, m.kind, m.modality or "")))
        states.append(FedAvgState(vectors_of_server(learners[-1]), {i: values_of(one) for i, one in setups.items()}))
    return states


def gap(one: Sequence[FedAvgState], other: Sequence[FedAvgState]) -> float:
    """Largest difference over all rounds, nodes and numbers."""
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        pairs = [(a.server, b.server), *((a.clients[i], b.clients[i]) for i in a.clients)]
        for left, right in pairs:
            assert left.keys() == right.keys()
            worst = max(worst, *(float((values - right[name]).abs().max()) for name, values in left.items()))
    return worst


def test_networks_of_three_kinds_walk_the_reference() -> None:
    setups = networks()
    expected = run_fedavg(reference_of(setups))
    assert gap(played(setups), expected) < SAME
    equal = run_fedavg(reference_of(networks(), rows=dict.fromkeys(ROWS, 1.0)))
    assert gap(expected, equal) > 1e6 * SAME  # rows count


def test_sampled_clients_walk_the_reference_and_the_others_stand_still() -> None:
    setups = networks(SAMPLED)
    expected = run_fedavg(reference_of(setups, members=lambda t: SAMPLED[t]))
    found = played(setups)
    assert gap(found, expected) < SAME
    idle = {name: values.equal(found[1].clients[0][name]) for name, values in found[0].clients[0].items()}
    assert set(idle.values()) == {True}


def holes(round_index: int, client: int, part: str, n_values: int, way: str) -> Tensor:
    """What gets through: nothing of some messages, two thirds of the others."""
    draws = np.random.default_rng([round_index, client, len(part), len(way)])
    if draws.random() < 0.3:
        return torch.zeros(n_values, dtype=torch.bool)
    return torch.from_numpy(draws.random(n_values) < 0.67)


def test_lost_messages_and_lost_packets_walk_the_reference() -> None:
    """What stands in the place of a lost number is never read: it is NaN here."""
    setups = networks()

    def damage(message: Message) -> Message | None:
        way, client = ("down", message.receiver) if message.sender == SERVER else ("up", message.sender)
        of_group = "" if message.modality else f" of {setups[client].group}"
        part = f"{message.kind} {message.modality or ''}".rstrip() + of_group
        received = holes(message.round_index, client, part, len(message.payload), way).numpy()
        if not received.any():
            return None
        return replace(message, received=received, payload=np.where(received, message.payload, np.nan))

    expected = run_fedavg(reference_of(setups, down=lambda *at: holes(*at, "down"), up=lambda *at: holes(*at, "up")))
    lossless = run_fedavg(reference_of(networks()))
    assert gap(played(setups, damage), expected) < SAME
    assert gap(expected, lossless) > 1e6 * SAME


def test_an_exchange_of_two_rounds_is_one_with_twice_the_steps() -> None:
    """Clients of the exchange train on in its second round, and nothing that they learned is overwritten."""
    members = ((0, 1, 2, 3), (1, 2))
    seldom = played(networks(members, every=2))
    setups = networks(members)
    longer = {i: replace(one, training=replace(one.training, local_steps=4)) for i, one in setups.items()}
    expected = run_fedavg(reference_of(longer, members=lambda t: members[t], n_rounds=2))
    assert gap(seldom[1::2], expected) < SAME
    assert all(values.equal(seldom[1].server[name]) for name, values in seldom[2].server.items())


def test_with_equal_rows_and_no_losses_it_is_adapt_then_combine_on_a_complete_graph() -> None:
    """The average of all neighbors with uniform weights is that of a server."""
    owned = dict.fromkeys(ROWS, ("rf", "gps"))
    edges = tuple((i, j) for i in owned for j in owned if i < j)
    alike = Participation(SERVER, dict.fromkeys(owned, 7), lambda _exchange: frozenset(owned))
    case = Case(random_problem(owned, edges, n_rounds=N_ROUNDS, local_steps=2), {})
    served = with_participation(case, alike)
    with_server = played(served)
    uniform: Setups = {}
    for i, setup in with_participation(case, alike).items():
        for mine, first in zip(setup.models["fused"].parameters(), setups_start(case), strict=True):
            mine.data.copy_(first)  # a server sends one start to all
        uniform[i] = replace(setup, group_mixing={j: 0.25 for j in owned if j != i})
    spec = ALGORITHMS["dpsgd_adapt_then_combine"]
    learners = spec.learners(list(uniform.values()))

    def state_of(learner: Learner) -> dict[str, Tensor]:
        return values_of(uniform[learner.client_id])

    peers = play(learners, edges, spec.kinds, N_ROUNDS, state_of, Setting()).states
    for state, of_peers in zip(with_server, peers, strict=True):
        for values in of_peers.values():
            assert max(float((values[name] - state.server[name]).abs().max()) for name in values) < SAME


def setups_start(case: Case) -> list[Tensor]:
    """Parameters that the first client of a case starts from."""
    return [one.detach().clone() for one in setup_of(case, 0, torch.float64, "sgd").models["fused"].parameters()]


def test_a_client_answers_by_its_own_model_and_by_that_of_the_server_as_it_was_sent() -> None:
    setups, rows = networks(), np.arange(7)
    learners = ALGORITHMS["fedavg"].learners(list(setups.values()))
    sent, after = told(learners, setups)[-2:]
    answers = learners[0].predict(setups[0].rows.inputs(rows))
    expected = {"fused": after.clients[0], "global": sent.server}
    assert answers.keys() == expected.keys()
    for name, parts in expected.items():
        assert_allclose(answers[name], logits_of(setups[0], parts, rows).detach(), atol=SAME)
    assert float(np.abs(answers["fused"] - answers["global"]).max()) > 1e-3
    assert learners[-1].predict({}) == {}
