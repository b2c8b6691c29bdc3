"""What every algorithm owes the nodes that play it: one battery over the whole table.

Learners are wired as a scenario wires them, then asked and told by hand, phase by phase, without clock or network.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from doubles.table_rows import rows
from integration.played import State
from integration.tiny import Walk, rows_of, state_of, tiny, wired
from numpy.typing import NDArray
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.emulator.contracts import (
    DIVISIBLE_KINDS,
    DivergedError,
    Learner,
    Message,
    MessageKind,
    MessageSlot,
    NodeId,
)
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.sharing.chained_learner import ChainedLearner
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import ClientData
from sheafedge.scenarios.wiring.emulation import build

N_ROUNDS = 3  # the single exchange has other phases from its second round on
FIRST_ROUND, LATER_ROUNDS = range(1), range(1, N_ROUNDS)

ROTATING = {"sheaf.rotate_index": True, "sheaf.map_step_size": 0.0}

#: Ways in which an algorithm with coupled heads can be set up; the protocol must hold for all of them.
COUPLED: dict[str, dict[str, Any]] = {
    "trust per edge": {"sheaf.edge_trust": 0.1, "model.head_start": "independent"},
    "trust per edge, single exchange": {
        "sheaf.edge_trust": 0.1,
        "sheaf.exchange": "single",
        "network.missing": "wait",
    },
    "same sensors": {"sheaf.edges": "same_sensors"},
    "Kronecker maps": {"sheaf.map_storage": "kronecker"},
    "Kronecker maps with a rotating index": {"sheaf.map_storage": "kronecker", **ROTATING},
    "rotating index": ROTATING,
    "unclamped": {"sheaf.clamp_map_step": False},
    "single exchange": {"sheaf.exchange": "single", "network.missing": "wait"},
    "frozen maps": {"sheaf.map_step_size": 0.0},
    "no coupling": {"sheaf.coupling": 0.0},
    "dense random maps": {"sheaf.map_start": "random", "sheaf.map_storage": "dense"},
}
#: The same for heads that diffuse.
DIFFUSED: dict[str, dict[str, Any]] = {
    "trust per edge": {"sheaf.edge_trust": 0.1},
    "same sensors": COUPLED["same sensors"],
    "Kronecker maps": {"sheaf.map_storage": "kronecker"},
    "rotating index": ROTATING,
}
#: The same for whole models.
MAPPED_MODELS: dict[str, dict[str, Any]] = {
    "single exchange": COUPLED["single exchange"],
    "trust per edge": COUPLED["trust per edge"],
    "same sensors": COUPLED["same sensors"],
    "no coupling": COUPLED["no coupling"],
    "rotating index": ROTATING,
    "Hadamard maps": {"sheaf.map_start": "hadamard"},
    "Hadamard maps per edge": {"sheaf.map_start": "hadamard", "sheaf.map_share": "edge", "sheaf.map_step_size": 0.0},
    "maps of the paper": {"sheaf.map_start": "random", "sheaf.map_scale": 1.0, "sheaf.coupling": 0.001},
    "weight decay": {"training.weight_decay": "as_sheaf", "sheaf.map_start": "random"},
}
PERSONAL: dict[str, dict[str, Any]] = {"personal encoders": {"training.personal_encoders": ["gps"]}}
RICH: dict[str, dict[str, Any]] = {"attention of two layers": {"model.fusion": "attention_mlp"}}
VARIANTS = {
    "sheaf_dmfl": COUPLED | PERSONAL | RICH,
    "sheaf_diffusion": DIFFUSED | PERSONAL,
    "sheaf_fmtl": MAPPED_MODELS | RICH,
    "dfedu": {"no coupling": COUPLED["no coupling"], "weight decay": {"training.weight_decay": 0.1}, **RICH},
    "dpsgd": RICH,
    "group_averaging": PERSONAL | RICH,
    "centralized": RICH,
    "sheaf_prototypes": {
        "frozen maps": {"sheaf.map_step_size": 0.0},
        "single exchange": {"sheaf.exchange": "single", "network.missing": "wait"},
        "no coupling": {"sheaf.coupling": 0.0},
        **PERSONAL,
    },
    "dsgd_heads": PERSONAL,
}
CASES: dict[str, dict[str, Any]] = {name: {"algorithm": name} for name in ALGORITHMS} | {
    f"{name} {variant}": {"algorithm": name, **edits}
    for name, variants in VARIANTS.items()
    for variant, edits in variants.items()
}

#: Whole models mean the same only where all modalities are.
WITHIN_GROUPS = ("dpsgd", "dpsgd_adapt_then_combine", "dfedu", *(n for n in ALGORITHMS if n.endswith("_decentralized")))

every_case = pytest.mark.parametrize("case", rows(CASES, {case: edits["algorithm"] for case, edits in CASES.items()}))


def made(case: str, **edits: Any) -> Walk:
    return wired(tiny({**CASES[case], **edits}))


def states(walk: Walk) -> dict[NodeId, State]:
    return {learner.client_id: state_of(walk.emulation, learner) for learner in walk.emulation.learners}


def are_equal(one: dict[NodeId, State], other: dict[NodeId, State]) -> bool:
    return all(torch.equal(values, other[i][name]) for i, state in one.items() for name, values in state.items())


Arrives = Callable[[Learner, list[Message]], Sequence[Message]]


def everything(learner: Learner, sent: list[Message]) -> Sequence[Message]:
    return sent


def nothing(learner: Learner, sent: list[Message]) -> Sequence[Message]:
    return ()


def phases(
    walk: Walk, arrives: Arrives = everything, rounds: Sequence[int] = range(N_ROUNDS)
) -> Iterator[tuple[int, str, list[Message]]]:
    """Plays the rounds: all compute, the caller sees what was sent, then all absorb, ordered as an inbox orders."""
    learners = walk.emulation.learners
    for round_index in rounds:
        for phase in learners[0].phases(round_index):
            sent = [message for learner in learners for message in learner.compute(phase.name, round_index)]
            yield round_index, phase.name, sent
            for learner in learners:
                mine = [message for message in sent if message.receiver == learner.client_id]
                mine.sort(key=lambda m: (m.sender, m.kind, m.modality or ""))
                learner.absorb(phase.name, round_index, arrives(learner, mine))


def play(walk: Walk, arrives: Arrives = everything, rounds: Sequence[int] = range(N_ROUNDS)) -> list[Message]:
    return [message for _, _, sent in phases(walk, arrives, rounds) for message in sent]


@dataclass(frozen=True)
class Recorded:
    """An undisturbed play of a case.

    Attributes:
        phases: (round, phase, messages, their payloads as they were when sent, what each client expected).
        after_one_round: states then.
        states: at the end.
    """

    walk: Walk
    phases: list[tuple[int, str, list[Message], list[NDArray[Any]], dict[NodeId, frozenset[MessageSlot]]]]
    after_one_round: dict[NodeId, State]
    states: dict[NodeId, State]

    @property
    def sent(self) -> list[Message]:
        return [message for _, _, sent, _, _ in self.phases for message in sent]


@cache
def recorded(case: str) -> Recorded:
    """The play that several tests look at, and none changes."""
    walk, seen, after = made(case), [], []
    for rounds in (FIRST_ROUND, LATER_ROUNDS):
        for round_index, phase, sent in phases(walk, rounds=rounds):
            expected = {learner.client_id: learner.expected(phase, round_index) for learner in walk.emulation.learners}
            seen.append((round_index, phase, sent, [message.payload.copy() for message in sent], expected))
        after.append(states(walk))
    return Recorded(walk, seen, *after)


# --- the table ------------------------------------------------------------------------------------------------------


def test_the_table_names_its_algorithms_as_scenarios_write_them() -> None:
    assert all(name.isidentifier() and name == name.lower() for name in ALGORITHMS)
    summaries = [algorithm.summary for algorithm in ALGORITHMS.values()]
    assert all(summaries)
    assert len(set(summaries)) == len(summaries)


@pytest.mark.parametrize("name", rows())
def test_an_algorithm_declares_what_it_sends_and_nothing_more(name: str) -> None:
    """A kind that is declared and never sent would be a door left open."""
    sent = {message.kind for message in recorded(name).sent}
    assert sent == ALGORITHMS[name].kinds
    assert sent <= set(MessageKind)


@pytest.mark.parametrize("name", rows())
def test_an_algorithm_is_marked_as_only_averaging_where_its_learners_are(name: str) -> None:
    learners = recorded(name).walk.emulation.learners
    averaging = {isinstance(learner, ChainedLearner) and learner.shared is not None for learner in learners}
    assert averaging == {ALGORITHMS[name].only_averages}


def test_the_battery_covers_every_algorithm() -> None:
    assert {edits["algorithm"] for edits in CASES.values()} == set(ALGORITHMS)


# --- phases and messages --------------------------------------------------------------------------------------------


@every_case
def test_all_clients_go_through_the_same_phases(case: str) -> None:
    walk = recorded(case).walk
    for round_index in range(N_ROUNDS):
        of_clients = [learner.phases(round_index) for learner in walk.emulation.learners]
        names = [tuple(phase.name for phase in of_client) for of_client in of_clients]
        assert len(set(names)) == 1
        assert len(set(names[0])) == len(names[0]) > 0
        costs = [phase.flops for of_client in of_clients for phase in of_client]
        assert all(math.isfinite(cost) and cost >= 0.0 for cost in costs)
        assert sum(costs) > 0.0


@every_case
def test_everybody_expects_exactly_what_the_others_send(case: str) -> None:
    """Nobody waits for what nobody sends, and nothing comes unexpected, in any phase of any round."""
    whole = recorded(case)
    for round_index, phase, sent, _, expected in whole.phases:
        arriving: dict[NodeId, list[MessageSlot]] = {learner.client_id: [] for learner in whole.walk.emulation.learners}
        for message in sent:
            assert (message.round_index, message.phase) == (round_index, phase)
            arriving[message.receiver].append(message.slot)
        for client, slots in arriving.items():
            assert len(set(slots)) == len(slots)
            assert expected[client] == set(slots)


@every_case
def test_messages_go_to_neighbors_and_carry_what_their_kind_may(case: str) -> None:
    walk = recorded(case).walk
    graph, clients = walk.emulation.graph, walk.emulation.clients
    algorithm = ALGORITHMS[CASES[case]["algorithm"]]
    allowed, unimodal = algorithm.kinds, algorithm.unimodal
    assert 0 < graph.number_of_edges() < len(graph) * (len(graph) - 1) / 2  # there are pairs that are no neighbors
    for message in recorded(case).sent:
        assert message.kind in allowed
        assert graph.has_edge(message.sender, message.receiver)
        assert message.payload.ndim == 1
        assert message.payload.dtype == np.float32
        assert np.isfinite(message.payload).all()
        assert message.received is None
        of_one_modality = message.kind is MessageKind.ENCODER or (message.kind is MessageKind.HEAD and unimodal)
        # factors of the head, and of every encoder
        of_a_part = message.kind is MessageKind.FACTORS and message.modality is not None
        if of_one_modality or of_a_part:
            ends = {message.sender, message.receiver} - {walk.emulation.server}
            assert all(message.modality in clients[end].modalities for end in ends)
        else:
            assert message.modality is None


@every_case
def test_all_owners_of_a_modality_hear_all_their_neighbors_that_own_it(case: str) -> None:
    walk = recorded(case).walk
    algorithm = CASES[case]["algorithm"]
    if MessageKind.ENCODER not in ALGORITHMS[algorithm].kinds or ALGORITHMS[algorithm].server:
        return
    clients = walk.emulation.clients
    graph = made(case, algorithm="local").emulation.graph  # as it is before anybody links groups
    wanted = {
        (i, j, modality)
        for a, b in graph.edges
        for i, j in ((a, b), (b, a))
        for modality in set(clients[i].modalities) & set(clients[j].modalities)
        if modality not in CASES[case].get("training.personal_encoders", ())
        if algorithm not in WITHIN_GROUPS or clients[i].group == clients[j].group
    }
    encoders = [m for m in recorded(case).sent if m.kind is MessageKind.ENCODER and m.phase == "mix"]
    for round_index in range(N_ROUNDS - ALGORITHMS[algorithm].tunes):  # the last one is for training alone
        of_round = [(m.sender, m.receiver, m.modality) for m in encoders if m.round_index == round_index]
        assert sorted(map(str, of_round)) == sorted(map(str, wanted))
    if ALGORITHMS[algorithm].tunes:
        assert all(m.round_index < N_ROUNDS - 1 for m in encoders)


@pytest.mark.parametrize("name", rows(name for name, spec in ALGORITHMS.items() if spec.server))
def test_a_server_sends_what_it_holds_to_all_clients_that_have_it_and_hears_all_of_them(name: str) -> None:
    whole = recorded(name)
    emulation = whole.walk.emulation
    wanted = sorted((client.client_id, modality) for client in emulation.clients for modality in client.modalities)
    for round_index in range(N_ROUNDS):
        encoders = [m for m in whole.sent if m.kind is MessageKind.ENCODER and m.round_index == round_index]
        if encoders:
            assert sorted((m.receiver, m.modality) for m in encoders if m.phase == "broadcast") == wanted
            assert sorted((m.sender, m.modality) for m in encoders if m.phase == "collect") == wanted
    assert {message.sender == emulation.server for message in whole.sent if message.phase == "broadcast"} == {True}
    assert {message.receiver == emulation.server for message in whole.sent if message.phase == "collect"} == {True}


@pytest.mark.parametrize(
    "name", rows(name for name, spec in ALGORITHMS.items() if not (spec.couples_models or spec.generates))
)
def test_a_personal_encoder_never_leaves_its_client(name: str) -> None:
    """Nor does anything else of its modality alone; the other modality is sent as ever."""
    walk = wired(tiny({"algorithm": name, "training.personal_encoders": ["gps"]}))
    sent = [message.slot for message in play(walk)]
    assert sent == [message.slot for message in recorded(name).sent if message.modality != "gps"]
    sends_encoders = bool({MessageKind.ENCODER, MessageKind.FACTORS} & ALGORITHMS[name].kinds)
    assert (len(sent) < len(recorded(name).sent)) == sends_encoders


@pytest.mark.parametrize("name", rows(name for name, spec in ALGORITHMS.items() if spec.generates))
def test_a_personal_encoder_is_not_generated(name: str) -> None:
    """Clients with nothing else get no model, and others one without it."""
    walk, whole = wired(tiny({"algorithm": name, "training.personal_encoders": ["gps"]})), recorded(name)
    clients = whole.walk.emulation.clients

    def models(messages: Sequence[Message]) -> dict[NodeId, int]:
        return {m.receiver: m.payload.size for m in messages if m.kind is MessageKind.MODEL}

    def size_of(client: Client) -> int:
        return sum(values.numel() for values in client.models["fused"].encoders["gps"].parameters())

    before, after = models(whole.sent), models(play(walk))
    assert before.keys() == {client.client_id for client in clients}
    for client in clients:
        alone, owns = client.modalities == ("gps",), "gps" in client.modalities
        wanted = None if alone else before[client.client_id] - (size_of(client) if owns else 0)
        assert after.get(client.client_id) == wanted


@every_case
def test_what_was_sent_stays_as_it_was_while_its_sender_learns_on(case: str) -> None:
    """Links deliver later: a payload that follows its sender's state would deliver the future."""
    for _, _, sent, copies, _ in recorded(case).phases:
        assert all(np.array_equal(message.payload, copy) for message, copy in zip(sent, copies, strict=True))


# --- messages that do not come --------------------------------------------------------------------------------------


@every_case
def test_a_client_that_hears_nothing_goes_on(case: str) -> None:
    walk = made(case)
    before = states(walk)
    play(walk, nothing)
    after = states(walk)
    assert all(bool(torch.isfinite(values).all()) for state in after.values() for values in state.values())
    heads = [name for name in next(iter(after.values())) if name.endswith("head")]
    assert heads
    assert not any(torch.equal(after[i][name], before[i][name]) for i in after for name in after[i] if name in heads)


def damaged(filler: float) -> Arrives:
    """Every second neighbor falls silent, and of encoders every second number is lost; `filler` stands in its place."""

    def left_of(learner: Learner, sent: list[Message]) -> Sequence[Message]:
        return [with_gaps(message, filler) if message.kind in DIVISIBLE_KINDS else message for message in sent[::2]]

    return left_of


def with_gaps(message: Message, filler: float) -> Message:
    received = np.arange(message.payload.size) % 2 == 0
    payload = np.where(received, message.payload, message.payload.dtype.type(filler))
    return replace(message, payload=payload, received=received)


@every_case
def test_a_client_that_hears_some_goes_on_with_what_arrived(case: str) -> None:
    """What stands in the place of a lost number is never read."""
    zeros, others, whole = made(case), made(case), recorded(case)
    play(zeros, damaged(0.0))
    play(others, damaged(1e6))
    assert all(bool(torch.isfinite(values).all()) for state in states(zeros).values() for values in state.values())
    assert are_equal(states(zeros), states(others))
    assert are_equal(states(zeros), whole.states) == (not whole.sent)


# --- predictions, health, repeatability -----------------------------------------------------------------------------


@every_case
def test_one_seed_trains_one_way_whoever_asks_meanwhile_and_without_writing_into_what_arrived(case: str) -> None:
    """Asking for predictions twice gives one answer, and a client that was asked learns on as if it had not been.

    Broadcasts share one array, so a receiver that writes into it would write into everybody's.
    """
    again, sent = made(case), []
    for _, _, sent_now in phases(again, read_only):
        sent += sent_now
        before = states(again)
        for learner, client in zip(again.emulation.client_learners, again.emulation.clients, strict=True):
            assert_answers_repeat(learner, client)
        assert are_equal(states(again), before)
    assert [message.slot for message in sent] == [message.slot for message in recorded(case).sent]
    assert all(np.array_equal(a.payload, b.payload) for a, b in zip(sent, recorded(case).sent, strict=True))
    assert are_equal(states(again), recorded(case).states)


def read_only(learner: Learner, sent: list[Message]) -> Sequence[Message]:
    for message in sent:
        message.payload.flags.writeable = False
    return sent


def assert_answers_repeat(learner: Learner, client: Client) -> None:
    inputs = client.data.test.inputs()
    first, second = learner.predict(inputs), learner.predict(inputs)
    # beside its own model a client may hold that of its server as it was sent
    assert set(first) - {"global"} == set(client.models) - {"global"}
    for name, logits in first.items():
        assert logits.shape == (len(client.data.test), 8)
        assert np.isfinite(logits).all()
        assert np.array_equal(logits, second[name])


@every_case
def test_another_seed_trains_another_way(case: str) -> None:
    other = made(case, seed=1)
    play(other, rounds=FIRST_ROUND)
    both = (recorded(case).after_one_round, states(other))
    one, two = (torch.cat([values.flatten() for values in state[0].values()]).sum() for state in both)
    assert one != two


@every_case
def test_health_is_a_line_of_finite_numbers_with_the_training_loss(case: str) -> None:
    emulation = recorded(case).walk.emulation
    for learner in emulation.learners:
        health = learner.health()
        assert learner.client_id == emulation.server or health["loss"] > 0.0
        assert json.loads(json.dumps(health, allow_nan=False)) == health


@every_case
def test_a_learner_is_the_client_that_it_was_made_for(case: str) -> None:
    emulation = recorded(case).walk.emulation
    servers = [] if emulation.server is None else [emulation.server]
    nodes = [client.client_id for client in emulation.clients] + servers
    assert [learner.client_id for learner in emulation.learners] == nodes


# --- numbers that are none ------------------------------------------------------------------------------------------


def with_nan_rows(data: list[ClientData], client: NodeId) -> list[ClientData]:
    rows = data[client]
    assert isinstance(rows.train, BeamWindows)
    nothing_seen = {name: np.full_like(frames, np.nan) for name, frames in rows.train.frames.items()}
    return [*data[:client], replace(rows, train=replace(rows.train, frames=nothing_seen)), *data[client + 1 :]]


def deaf_round(learner: Learner) -> None:
    for phase in learner.phases(0):
        learner.compute(phase.name, 0)
        learner.absorb(phase.name, 0, ())


@every_case
def test_a_client_whose_numbers_left_the_finite_ones_says_so(case: str) -> None:
    scenario = tiny(CASES[case])
    data = with_nan_rows(rows_of(scenario), client=2)
    emulation = build(scenario, data, lambda *_: {}, lambda *_: None)
    pooled = CASES[case]["algorithm"] == "centralized"  # there the first learner works on everybody's rows
    sick = emulation.learners[0 if pooled else 2]
    row = ALGORITHMS[CASES[case]["algorithm"]]
    field = "training.model_step_size" if row.couples_models else "training.head_step_size"
    field = "personalization.personal_step_size" if row.factored else field
    with pytest.raises(DivergedError, match=rf"client 2: .* round 0\b.*; lower {re.escape(field)}"):
        deaf_round(sick)
    for learner in emulation.learners[:2] if not pooled else ():
        deaf_round(learner)
