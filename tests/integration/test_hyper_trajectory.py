"""Servers that generate models, and their clients, against the reference: maps, sampling, losses, refreshes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from integration.played import parts_of as parts_of_learner
from integration.test_server_trajectory import ROWS, SERVER, logits_of, loss_of, networks, values_of
from reference.fedsheafhn import HyperProblem, HyperState, run_hyper
from sheafedge.emulator.contracts import Learner, Message, MessageKind, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.hyper.hyper_server import HyperServer
from sheafedge.models.hyper_settings import HyperSettings
from sheafedge.models.training.client_setup import ClientSetup
from torch import Tensor

SAME = 1e-10  # float64, numbers of order 1, sums in another order
N_ROUNDS = 4
SAMPLED = ((0, 1, 2, 3), (1, 3), (0, 2), (3, 1))
SETTINGS = HyperSettings(
    knn=2,
    refresh_every=2,
    normalize=False,
    stalk_dim=2,
    channels=3,
    sheaf_layers=2,
    hidden=5,
    dropout=0.0,
    sheaf_step_size=0.02,
    step_size=0.01,
)
Setups = dict[NodeId, ClientSetup]
Damage = Callable[[Message], Message | None]
#: What the reference calls a part of the generator.
NAMES = {
    "diffusion.lin_in": "in",
    "diffusion.lin_out": "out",
    "hypernetwork.hidden": "hidden",
    "hypernetwork.attention.query.weight": "query",
    "hypernetwork.attention.key.weight": "key",
    "hypernetwork.attention.value.weight": "value",
}


def setups_of(
    settings: HyperSettings = SETTINGS,
    members: Sequence[Sequence[int]] = (tuple(ROWS),) * N_ROUNDS,
    optimizer: Literal["sgd", "adam"] = "sgd",
) -> Setups:
    found = {}
    for i, setup in networks(members).items():
        training = replace(setup.training, encoder_optimizer=optimizer)
        found[i] = replace(setup, hyper=settings, training=training)
    return found


def server_of(learners: Sequence[Learner]) -> HyperServer:
    (server,) = parts_of_learner(learners[-1], HyperServer)
    assert isinstance(server, HyperServer)
    return server


def part_name(setup: ClientSetup, name: str) -> str:
    """The reference's name of a part that a client calls so: without the group, which the server does not read."""
    return "head" if name.startswith("head") else name.split(" of ", 1)[0] if name.startswith("att") else name


def parts_of(setup: ClientSetup) -> dict[str, Tensor]:
    return {part_name(setup, name): values for name, values in values_of(setup).items()}


def weights_of(server: HyperServer) -> dict[str, Tensor]:
    """The generator's parameters under the names of the reference; parts of models are "encoder gps", "attention"."""
    parts = ["attention" if p.name.startswith("fusion") else " ".join(p.name.split()[:2]) for p in server.parts]
    found = {}
    for name, values in server.generator.named_parameters():
        renamed = name
        for ours, theirs in NAMES.items():
            renamed = renamed.replace(ours, theirs)
        if renamed.startswith("diffusion.layers."):
            _, _, number, *rest = renamed.split(".")
            renamed = f"layer {number} {rest[0]}"
        if renamed.startswith("hypernetwork.answers."):
            _, _, number, kind = renamed.split(".")
            renamed = f"answer {parts[int(number)]}.{kind}"
        found[renamed] = values.detach().clone()
    return found


def reference_of(setups: Setups, learners: Sequence[Learner], **options: Any) -> HyperProblem:
    first = setups[0]
    training, hyper = first.training, first.hyper

    def loss(setup: ClientSetup) -> Any:
        inner, names = loss_of(setup), {part_name(setup, name): name for name in values_of(setup)}
        return lambda n, s, parts: inner(n, s, {names[part]: values for part, values in parts.items()})

    chosen: dict[str, Any] = {
        "losses": {i: loss(setup) for i, setup in setups.items()},
        "embeddings": {i: embedding_of(setup) for i, setup in setups.items()},
        "start": {i: parts_of(setup) for i, setup in setups.items()},
        "weights": weights_of(server_of(learners)),
        "step_sizes": {
            "encoder": training.encoder_step_size,
            "attention": training.attention_step_size,
            "head": training.head_step_size,
        },
        "adam": ("encoder",) if training.encoder_optimizer == "adam" else (),
        "shape": (hyper.stalk_dim, hyper.channels),
        "maps": hyper.maps,
        "members": lambda _round: tuple(ROWS),
        "knn": hyper.knn,
        "refresh_every": hyper.refresh_every,
        "scaled": hyper.scale_attention,
        "normalized": hyper.normalize,
        "sheaf_step_size": hyper.sheaf_step_size,
        "sheaf_decay": hyper.sheaf_weight_decay,
        "hyper_step_size": hyper.step_size,
        "local_steps": training.local_steps,
        "n_rounds": N_ROUNDS,
    } | options
    return HyperProblem(**chosen)


def embedding_of(setup: ClientSetup) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Mean of what the head reads: the logits of a head of unit rows, one feature at a time."""
    names = {part_name(setup, name): name for name in values_of(setup)}
    n_outputs, width = setup.models["fused"].layout.n_outputs, setup.models["fused"].layout.width
    rows = np.arange(len(setup.rows.label))

    def embedding(parts: Mapping[str, Tensor]) -> Tensor:
        features = []
        for feature in range(width):
            head = torch.zeros(n_outputs * (width + 1), dtype=torch.float64)
            head[feature] = 1.0
            theta = {names[part]: head if part == "head" else values for part, values in parts.items()}
            features.append(logits_of(setup, theta, rows)[:, 0].mean())
        return torch.stack(features).detach()

    return embedding


def played(setups: Setups, learners: Sequence[Learner], damage: Damage = lambda message: message) -> list[HyperState]:
    """Learners asked and told by hand; the test decides what gets through."""
    states = []
    for round_index in range(N_ROUNDS):
        for phase in ("broadcast", "collect"):
            sent = [message for learner in learners for message in learner.compute(phase, round_index)]
            arrived = [found for message in sent if (found := damage(message)) is not None]
            for learner in learners:
                mine = [message for message in arrived if message.receiver == learner.client_id]
                assert {message.slot for message in mine} <= learner.expected(phase, round_index)
                learner.absorb(phase, round_index, sorted(mine, key=lambda m: (m.sender, m.kind, m.modality or "")))
        server = server_of(learners)
        edges = [(int(i), int(j)) for i, j in server.vectors.ends.T]
        states.append(HyperState(weights_of(server), {i: parts_of(one) for i, one in setups.items()}, edges))
    return states


def gap(one: Sequence[HyperState], other: Sequence[HyperState]) -> float:
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        assert a.edges == b.edges
        for left, right in [(a.weights, b.weights), *((a.clients[i], b.clients[i]) for i in a.clients)]:
            assert left.keys() == right.keys()
            worst = max(worst, *(float((values - right[name]).abs().max()) for name, values in left.items()))
    return worst


def made(setups: Setups, algorithm: str = "fedsheafhn") -> list[Learner]:
    return ALGORITHMS[algorithm].learners(list(setups.values()))


@pytest.mark.parametrize("maps", ["learned", "identity", "none"])
def test_clients_of_three_kinds_walk_the_reference_with_every_choice_of_maps(maps: Any) -> None:
    setups = setups_of(replace(SETTINGS, maps=maps))
    learners = made(setups)
    expected = run_hyper(reference_of(setups, learners))
    assert gap(played(setups, learners), expected) < SAME
    assert [len(state.edges) for state in expected] == [0, 5, 5, 5]


def test_maps_make_a_difference() -> None:
    """Or the test above would show less than it says."""
    setups = setups_of()
    learners = made(setups)
    one, other = (run_hyper(reference_of(setups, learners, maps=maps)) for maps in ("learned", "identity"))
    assert gap(one, other) > 1e6 * SAME


def test_adam_at_clients_normalized_embeddings_and_scaled_attention_walk_the_reference() -> None:
    """Moments begin anew in every exchange."""
    setups = setups_of(replace(SETTINGS, scale_attention=True, normalize=True), optimizer="adam")
    learners = made(setups)
    problem = reference_of(setups, learners)
    expected = run_hyper(problem)
    assert gap(played(setups, learners), expected) < SAME
    assert gap(expected, run_hyper(replace(problem, scaled=False))) > 1e6 * SAME
    assert gap(expected, run_hyper(replace(problem, normalized=False))) > 1e6 * SAME


def test_one_adam_of_the_whole_model_walks_the_reference() -> None:
    """The head has moments too, which begin anew with those of the backbone."""
    setups = setups_of()
    for i, setup in setups.items():
        setups[i] = replace(setup, training=replace(setup.training, optimizer="adam", model_step_size=0.03))
    learners = made(setups)
    parts = ("encoder", "attention", "head")
    expected = run_hyper(reference_of(setups, learners, adam=parts, step_sizes=dict.fromkeys(parts, 0.03)))
    assert gap(played(setups, learners), expected) < SAME


def test_sampled_clients_walk_the_reference_and_the_others_stand_still() -> None:
    setups = setups_of(members=SAMPLED)
    learners = made(setups)
    expected = run_hyper(reference_of(setups, learners, members=lambda t: SAMPLED[t]))
    found = played(setups, learners)
    assert gap(found, expected) < SAME
    assert all(values.equal(found[1].clients[0][name]) for name, values in found[0].clients[0].items())


def holes(round_index: int, client: int, way: str, size: int) -> Tensor:
    """What gets through: nothing of some messages, two thirds of the others."""
    draws = np.random.default_rng([round_index, client, len(way)])
    if draws.random() < 0.25:
        return torch.zeros(size, dtype=torch.bool)
    return torch.from_numpy(draws.random(size) < 0.67)


def embedding_arrives(round_index: int, client: int) -> bool:
    return (round_index, client) not in {(0, 2), (2, 1)}


def test_lost_messages_and_lost_packets_walk_the_reference() -> None:
    """What stands in the place of a lost number is never read: it is NaN here."""
    setups = setups_of()
    learners = made(setups)
    problem = reference_of(setups, learners)

    def damage(message: Message) -> Message | None:
        down = message.sender == SERVER
        client = message.receiver if down else message.sender
        if message.kind is MessageKind.EMBEDDING:
            return message if embedding_arrives(message.round_index, client) else None
        received = holes(message.round_index, client, "down" if down else "up", len(message.payload)).numpy()
        if not received.any():
            return None
        return replace(message, received=received, payload=np.where(received, message.payload, np.nan))

    lossy = run_hyper(replace(problem, through=holes, embedding_arrives=embedding_arrives))
    assert gap(played(setups, learners, damage), lossy) < SAME
    expected, lossless = lossy[-1].weights, run_hyper(problem)[-1].weights
    assert max(float((expected[name] - lossless[name]).abs().max()) for name in expected) > 1e6 * SAME


def test_embeddings_that_are_not_finite_are_refused_and_the_last_ones_stay() -> None:
    setups = setups_of()
    learners = made(setups)

    def poisoned(message: Message) -> Message:
        sick = message.kind is MessageKind.EMBEDDING and message.sender == 1 and message.round_index == 2
        return replace(message, payload=np.full_like(message.payload, np.nan)) if sick else message

    arrives = {"embedding_arrives": lambda t, k: (t, k) != (2, 1)}
    expected = run_hyper(reference_of(setups, learners, **arrives))
    assert gap(played(setups, learners, poisoned), expected) < SAME
    assert server_of(learners).figures()["refused"] == 1
    assert server_of(learners).figures()["oldest_embedding"] == 3.0  # sent in exchange 0, in use from 3 on


def test_the_head_never_leaves_its_client_and_bytes_are_those_of_the_backbone() -> None:
    setups = setups_of()
    learners, sizes = made(setups), {i: sum(map(len, parts_of(one).values())) for i, one in setups.items()}
    seen: list[Message] = []

    def listening(message: Message) -> Message:
        seen.append(message)
        return message

    heads = {i: len(setup.models["fused"].head) for i, setup in setups.items()}
    played(setups, learners, listening)
    for message in seen:
        client = message.receiver if message.sender == SERVER else message.sender
        width = setups[client].models["fused"].layout.width
        wanted = width if message.kind is MessageKind.EMBEDDING else sizes[client] - heads[client]
        assert len(message.payload) == wanted
        head = setups[client].models["fused"].head.detach().numpy()
        assert not np.isin(head, message.payload).any()
    assert {m.round_index for m in seen if m.kind is MessageKind.EMBEDDING} == {0, 2}
