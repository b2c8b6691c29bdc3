"""Clients of a server that generates models, asked and told by hand: changes, refreshes, late clients, refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from integration.test_hyper_trajectory import SETTINGS, made, parts_of, server_of, setups_of, weights_of
from integration.test_server_trajectory import ROWS, SERVER, loss_of, values_of
from sheafedge.emulator.contracts import ConfigError, DataError, Learner, Message, MessageKind
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.training.participation import Participation
from torch import Tensor

N_ROUNDS = 4
LATE, TWIN = 3, 0  # with the same sensors
Damage = Callable[[Message], Message | None]


def told(
    learners: Sequence[Learner], rounds: Sequence[int] = range(N_ROUNDS), damage: Damage = lambda message: message
) -> list[Message]:
    """Rounds; returns all messages as they were sent."""
    found = []
    for round_index in rounds:
        for phase in ("broadcast", "collect"):
            sent = [message for learner in learners for message in learner.compute(phase, round_index)]
            found += sent
            arrived = [came for message in sent if (came := damage(message)) is not None]
            for learner in learners:
                slots = {message.slot for message in sent if message.receiver == learner.client_id}
                assert slots == learner.expected(phase, round_index)
                mine = [message for message in arrived if message.receiver == learner.client_id]
                learner.absorb(phase, round_index, mine)
    return found


def of_kind(messages: Sequence[Message], kind: MessageKind, client: int | None = None) -> list[Message]:
    return [m for m in messages if m.kind is kind and client in {None, m.sender, m.receiver}]


def generated(setups: Any, client: int) -> Tensor:
    """[P] all of a client's model but its head."""
    return torch.cat([values for name, values in parts_of(setups[client]).items() if name != "head"])


# --- changes ----------------------------------------------------------------------------------------------------------


def test_the_change_of_one_plain_step_is_the_step_size_times_the_gradient_at_what_was_received() -> None:
    setups = setups_of()
    for i, setup in setups.items():
        training = replace(setup.training, local_steps=1, encoder_step_size=0.1, attention_step_size=0.1)
        setups[i] = replace(setup, training=training)
    losses = {i: loss_of(setup) for i, setup in setups.items()}
    names = {i: list(values_of(setup)) for i, setup in setups.items()}
    learners = made(setups)
    down = [message for learner in learners for message in learner.compute("broadcast", 0)]
    for learner in learners:
        learner.absorb("broadcast", 0, [message for message in down if message.receiver == learner.client_id])
    starts = {i: values_of(setup) for i, setup in setups.items()}
    up = [message for learner in learners for message in learner.compute("collect", 0)]
    for message in of_kind(up, MessageKind.UPDATE):
        client = message.sender
        free = {name: starts[client][name].clone().requires_grad_() for name in names[client]}
        gradients = torch.autograd.grad(losses[client](0, 0, free), list(free.values()))
        of_backbone = [g for name, g in zip(names[client], gradients, strict=True) if not name.startswith("head")]
        expected = -0.1 * torch.cat(of_backbone)
        assert float(expected.abs().max()) > 1e-3
        assert float((torch.from_numpy(message.payload) - expected).abs().max()) < 1e-12


def test_moments_of_local_training_begin_anew_in_every_exchange() -> None:
    setups = setups_of(optimizer="adam")
    learners = made(setups)
    told(learners)
    (moments, *_) = learners[0].state()["client"]["training"]["optimizer"]
    assert moments["step"] == setups[0].training.local_steps


def test_an_exchange_of_two_rounds_is_one_with_twice_the_steps() -> None:
    seldom = setups_of()
    participation = Participation(SERVER, ROWS, lambda _exchange: frozenset(ROWS), every=2)
    seldom = {i: replace(one, participation=participation) for i, one in seldom.items()}
    longer = {i: replace(one, training=replace(one.training, local_steps=4)) for i, one in setups_of().items()}
    one, other = made(seldom), made(longer)
    told(one, range(4))
    told(other, range(2))
    for name, values in weights_of(server_of(one)).items():
        assert torch.equal(values, weights_of(server_of(other))[name])


def test_a_client_that_was_off_when_an_exchange_opened_says_that_nothing_has_changed() -> None:
    """It never saw this exchange's model, so that the server must not take its steps for steps from there."""
    setups = setups_of()
    learners = made(setups)
    told(learners, range(1))
    for learner in learners:
        if learner.client_id != 1:
            down = learner.compute("broadcast", 1)
            learner.absorb("broadcast", 1, ())
            assert len(down) == (len(ROWS) if learner.client_id == SERVER else 0)
    (update,) = of_kind(learners[1].compute("collect", 1), MessageKind.UPDATE)
    assert not update.payload.any()


def test_a_server_that_was_off_when_an_exchange_opened_takes_no_step_on_the_models_of_another_one() -> None:
    setups = setups_of()
    learners = made(setups)
    for learner in learners:  # it generates, and is off when the updates come
        learner.compute("broadcast", 0)
    before = weights_of(server_of(learners))
    clients, server = learners[:-1], learners[-1]
    for learner in clients:
        learner.compute("broadcast", 1)
    up = [message for learner in clients for message in learner.compute("collect", 1)]
    server.absorb("collect", 1, of_kind(up, MessageKind.UPDATE))
    assert all(torch.equal(values, before[name]) for name, values in weights_of(server_of(learners)).items())


# --- what a server keeps ----------------------------------------------------------------------------------------------


def test_embeddings_and_edges_are_constant_between_refreshes() -> None:
    setups = setups_of(replace(SETTINGS, refresh_every=3), members=(tuple(ROWS),) * 8)
    learners = made(setups)
    server, seen = server_of(learners).vectors, []
    for round_index in range(8):
        told(learners, [round_index])
        seen.append((server.values.clone(), server.ends.clone()))
    same = [torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in pairwise(seen)]
    assert same == [False, True, True, False, True, True, False]
    assert not seen[0][0].any()


def test_where_nobody_was_heard_there_is_no_step() -> None:
    setups = setups_of()
    learners = made(setups)
    told(learners, range(2))
    before = weights_of(server_of(learners))
    told(learners, [2], lambda message: None if message.kind is MessageKind.UPDATE else message)
    assert all(torch.equal(values, before[name]) for name, values in weights_of(server_of(learners)).items())
    assert learners[-1].health()["heard"] == 0
    told(learners, [3])
    assert not all(torch.equal(values, before[name]) for name, values in weights_of(server_of(learners)).items())


def test_a_change_that_is_not_finite_is_as_one_that_was_lost() -> None:
    def of_client(client: int, payload: Callable[[Message], Message | None]) -> Damage:
        return lambda m: payload(m) if m.sender == client and m.kind is MessageKind.UPDATE else m

    def poisoned(message: Message) -> Message:
        payload = message.payload.copy()
        payload[3] = np.inf
        return replace(message, payload=payload)

    sick, deaf = made(setups_of()), made(setups_of())
    told(sick, damage=of_client(1, poisoned))
    told(deaf, damage=of_client(1, lambda _message: None))
    expected = weights_of(server_of(deaf))
    assert all(torch.equal(values, expected[name]) for name, values in weights_of(server_of(sick)).items())
    assert (sick[-1].health()["refused"], deaf[-1].health()["refused"]) == (N_ROUNDS, 0)


@pytest.mark.parametrize("kind", [MessageKind.UPDATE, MessageKind.EMBEDDING])
def test_a_message_of_another_size_is_refused(kind: MessageKind) -> None:
    learners = made(setups_of())
    with pytest.raises(DataError, match=r"client 0 sent an? (update|embedding) of"):
        told(learners, damage=lambda m: replace(m, payload=m.payload[:-1]) if m.kind is kind else m)


def test_a_model_of_another_size_is_refused() -> None:
    learners = made(setups_of())
    with pytest.raises(DataError, match="the server sent"):
        told(learners, damage=lambda m: replace(m, payload=m.payload[:-1]) if m.kind is MessageKind.MODEL else m)


def test_clients_whose_heads_read_other_widths_cannot_be_compared() -> None:
    setups = setups_of()
    for i, setup in setups.items():
        model = setup.models["fused"]
        wide = ClientModel(
            {m: model.normalizers[m] for m in model.modalities},
            {m: model.encoders[m] for m in model.modalities},
            fusion="concat",
            embedding_dim=model.layout.width,
            n_outputs=3,
        ).double()
        setups[i] = replace(setup, models={"fused": wide})
    with pytest.raises(ConfigError, match=r"one width.* got 'gps' 4, 'rf\+gps' 8, .*set it to 'attention'"):
        made(setups)
    assert made(setups, "pfedhn")  # which compares nobody


def test_clients_known_by_number_send_no_embedding_and_the_generator_knows_no_graph() -> None:
    setups = setups_of()
    learners = made(setups, "pfedhn")
    sent = told(learners)
    assert {message.kind for message in sent} == ALGORITHMS["pfedhn"].kinds == {MessageKind.MODEL, MessageKind.UPDATE}
    assert server_of(learners).generator.diffusion is None
    assert server_of(learners).generator.hypernetwork.attention is None
    assert torch.equal(server_of(learners).vectors.values, torch.eye(len(ROWS), dtype=torch.float64))


def test_generating_and_stepping_take_the_servers_time() -> None:
    learners = made(setups_of(members=(tuple(ROWS),) * N_ROUNDS))
    first = learners[-1].phases(0)[0].flops
    told(learners, range(2))
    second = learners[-1].phases(2)[0].flops
    assert 0.0 < 3.0 * first < second  # a backward pass is two forward ones; edges add products
    assert learners[-1].phases(2)[1].flops == 0.0


def test_an_embedding_takes_its_clients_time() -> None:
    learners = made(setups_of())
    with_embedding, without = (learners[1].phases(number)[1].flops for number in (0, 1))
    assert with_embedding > without > 0.0


# --- late clients -----------------------------------------------------------------------------------------------------


def late_setups(joins: int, **settings: Any) -> Any:
    participation = Participation(
        SERVER, ROWS, lambda _exchange: frozenset(ROWS) - {LATE}, late=frozenset({LATE}), seed=3
    )
    chosen = replace(SETTINGS, join_round=joins, late_clients=1, **settings)
    return {i: replace(setup, participation=participation) for i, setup in setups_of(chosen).items()}


def test_a_server_is_bit_for_bit_the_same_whether_or_not_somebody_joins_late() -> None:
    """With dropout: a late client's model is generated without, and draws nothing."""
    joined, alone = (made(late_setups(joins, dropout=0.3)) for joins in (1, 99))
    for round_index in range(N_ROUNDS):
        told(joined, [round_index])
        told(alone, [round_index])
        expected = weights_of(server_of(alone))
        assert all(torch.equal(values, expected[name]) for name, values in weights_of(server_of(joined)).items())


def test_a_late_client_waits_sends_an_embedding_receives_a_model_and_trains_its_head() -> None:
    setups = late_setups(1)
    learners = made(setups)
    sent, heads, backbones = [], [], []
    for round_index in range(N_ROUNDS):
        sent += told(learners, [round_index])
        heads.append(parts_of(setups[LATE])["head"])
        backbones.append(generated(setups, LATE))
    of_late = [m for m in sent if LATE in {m.sender, m.receiver}]
    assert [(m.round_index, m.kind) for m in of_late] == [(1, MessageKind.EMBEDDING), (2, MessageKind.MODEL)]
    assert len(of_late[0].payload) == setups[LATE].models["fused"].layout.width
    start = parts_of(setups_of()[LATE])
    assert torch.equal(heads[0], start["head"])
    assert not any(torch.equal(one, other) for one, other in pairwise(heads))
    received = torch.from_numpy(of_late[1].payload)
    assert not torch.equal(backbones[1], received)
    assert torch.equal(backbones[2], received)
    assert torch.equal(backbones[3], received)


@pytest.mark.parametrize("settings", [{"diffusion": "none", "attention": False}, {}])
def test_a_late_client_with_the_embedding_of_another_one_gets_nearly_its_model(settings: dict[str, Any]) -> None:
    """Both have the same sensors; without diffusion and attention nobody else has a part in it."""
    learners = made(late_setups(1, refresh_every=1, **settings))
    twin: list[Message] = []

    def copied(message: Message) -> Message:
        if message.kind is MessageKind.EMBEDDING and message.sender == TWIN and message.round_index == 1:
            twin.append(message)
        is_late = message.kind is MessageKind.EMBEDDING and message.sender == LATE
        return replace(message, payload=twin[0].payload) if is_late else message

    sent = [m for m in of_kind(told(learners, range(3), copied), MessageKind.MODEL) if m.round_index == 2]
    models = {m.receiver: m.payload for m in sent}
    away = float(np.abs(models[LATE] - models[TWIN]).max())
    assert away < (1e-12 if settings else 1e-2)
    assert float(np.abs(models[LATE]).max()) > 0.1
