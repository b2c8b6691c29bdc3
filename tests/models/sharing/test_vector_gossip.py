"""Exchange of encoders: who gets what, what is mixed, and what a lost message or packet changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import Message, MessageKind, Modality
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.flat import FlatModule
from sheafedge.models.sharing.gossip import metropolis_hastings_weights
from sheafedge.models.sharing.vector_gossip import VectorGossip, consensus_figures, shared_attention, shared_encoders
from torch import nn

EXACT = 1e-12  # float64 sums of at most three terms
OWNED: dict[int, tuple[Modality, ...]] = {0: ("gps",), 1: ("rf", "gps"), 2: ("rf",), 3: ("rf", "gps")}
EDGES = [(0, 1), (1, 2), (2, 3), (1, 3)]


def mixing(modality: Modality) -> dict[int, dict[int, float]]:
    """Client -> neighbor -> weight in the modality's subgraph; clients without the modality are left out."""
    owners = [client for client in OWNED if modality in OWNED[client]]
    adjacency = np.zeros((len(owners), len(owners)), dtype=bool)
    for i, j in EDGES:
        if i in owners and j in owners:
            adjacency[owners.index(i), owners.index(j)] = adjacency[owners.index(j), owners.index(i)] = True
    weights = metropolis_hastings_weights(adjacency)
    return {i: {j: float(weights[a, b]) for b, j in enumerate(owners) if adjacency[a, b]} for a, i in enumerate(owners)}


class Neighborhood:
    """Four clients with encoders of different sizes per modality, batch normalisation included."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.encoders: dict[int, dict[Modality, FlatModule]] = {}
        self.gossip: dict[int, VectorGossip] = {}
        weights = {modality: mixing(modality) for modality in ("rf", "gps")}
        for client, owned in OWNED.items():
            widths = {"rf": 3, "gps": 2}
            modules = {m: nn.Sequential(nn.Linear(widths[m], 2), nn.BatchNorm1d(2)).double() for m in owned}
            self.encoders[client] = {m: FlatModule(module) for m, module in modules.items()}
            for flat in self.encoders[client].values():
                flat.vector.copy_(torch.from_numpy(rng.normal(size=len(flat.vector))))
            own_weights = {m: weights[m][client] for m in owned}
            self.gossip[client] = VectorGossip(client, shared_encoders(self.encoders[client], own_weights))

    def vectors(self, modality: Modality) -> dict[int, np.ndarray]:
        """Snapshots of every owner's encoder."""
        return {c: flats[modality].vector.numpy().copy() for c, flats in self.encoders.items() if modality in flats}

    def messages(self) -> list[Message]:
        return [m for gossip in self.gossip.values() for m in gossip.messages("mix", 3)]

    def absorb(self, client: int, messages: list[Message]) -> None:
        self.gossip[client].absorb([m for m in messages if m.receiver == client])


@pytest.fixture
def town() -> Neighborhood:
    return Neighborhood()


def test_encoders_go_to_neighbors_that_own_the_modality_and_to_nobody_else(town: Neighborhood) -> None:
    expected = {
        (i, j, modality) for a, b in EDGES for i, j in ((a, b), (b, a)) for modality in set(OWNED[i]) & set(OWNED[j])
    }
    sent = town.messages()
    assert sorted((m.sender, m.receiver, m.modality) for m in sent) == sorted(expected)
    assert {(m.kind, m.phase, m.round_index) for m in sent} == {(MessageKind.ENCODER, "mix", 3)}


def test_every_client_expects_exactly_what_its_neighbors_send(town: Neighborhood) -> None:
    sent = town.messages()
    for client, gossip in town.gossip.items():
        assert gossip.expected("mix", 3) == {m.slot for m in sent if m.receiver == client}
        assert gossip.expected("mix", 4).isdisjoint(gossip.expected("mix", 3))


def test_a_message_holds_all_parameters_and_running_statistics(town: Neighborhood) -> None:
    for each in town.messages():
        assert_array_equal(each.payload, town.vectors(each.modality)[each.sender])
        assert each.payload.dtype == np.float64
        assert each.received is None
    sizes = {m.modality: m.payload.size for m in town.messages()}
    assert sizes == {"rf": 3 * 2 + 2 + 4 + 4, "gps": 2 * 2 + 2 + 4 + 4}  # linear, affine, running mean and variance


def test_neighbors_share_one_snapshot_and_training_does_not_reach_it(town: Neighborhood) -> None:
    first, second = [m for m in town.gossip[1].messages("mix", 0) if m.modality == "rf"]
    assert first.payload is second.payload
    before = first.payload.copy()
    town.encoders[1]["rf"].vector.add_(1.0)
    assert_array_equal(first.payload, before)


def test_the_consensus_distance_is_that_to_the_mean_of_what_arrived_before_mixing(town: Neighborhood) -> None:
    """Client 3 hears of two neighbors its encoder of sweeps, and of one every second number of that of positions."""
    sent, own = town.messages(), {m: town.vectors(m) for m in ("rf", "gps")}
    half = np.arange(len(own["gps"][1])) % 2 == 0
    heard = [
        replace(m, received=half, payload=np.where(half, m.payload, np.nan)) if m.modality == "gps" else m
        for m in sent
        if m.receiver == 3
    ]
    town.absorb(3, heard)
    rf = own["rf"][3] - (own["rf"][1] + own["rf"][2]) / 2.0
    gps = (own["gps"][3] - own["gps"][1])[half]
    assert town.gossip[3].consensus_distance == pytest.approx(float(np.sqrt(rf @ rf + gps @ gps)), abs=EXACT)
    assert consensus_figures([town.gossip[3]]) == {"consensus_distance": town.gossip[3].consensus_distance}
    town.absorb(3, [])
    assert consensus_figures([town.gossip[3]]) == {}


def test_mixing_is_the_client_s_row_of_the_mixing_matrix(town: Neighborhood) -> None:
    sent = town.messages()
    before = {modality: town.vectors(modality) for modality in ("rf", "gps")}
    for client in OWNED:
        town.absorb(client, sent)
    for modality, vectors in before.items():
        for client, weights in mixing(modality).items():
            own = 1.0 - sum(weights.values())
            expected = own * vectors[client] + sum(weight * vectors[peer] for peer, weight in weights.items())
            assert_allclose(town.vectors(modality)[client], expected, atol=EXACT)
        after = town.vectors(modality)
        assert_allclose(sum(after.values()), sum(vectors.values()), atol=EXACT)  # Lemma 1
        assert not np.allclose(after[1], vectors[1])


def test_a_neighbor_that_was_not_heard_leaves_its_weight_with_the_own_encoder(town: Neighborhood) -> None:
    sent = [m for m in town.messages() if m.sender != 3]
    vectors, weight = town.vectors("rf"), mixing("rf")[1][2]
    town.absorb(1, sent)
    assert_allclose(town.vectors("rf")[1], (1 - weight) * vectors[1] + weight * vectors[2], atol=EXACT)


def test_silence_changes_nothing(town: Neighborhood) -> None:
    before = town.vectors("rf") | {-c: v for c, v in town.vectors("gps").items()}
    for client in OWNED:
        town.absorb(client, [])
    after = town.vectors("rf") | {-c: v for c, v in town.vectors("gps").items()}
    assert all((before[key] == after[key]).all() for key in before)


def test_one_modality_does_not_touch_the_other(town: Neighborhood) -> None:
    gps, rf = town.vectors("gps")[1], town.vectors("rf")[1]
    town.absorb(1, [m for m in town.messages() if m.modality == "gps"])
    assert_array_equal(town.vectors("rf")[1], rf)
    assert not np.allclose(town.vectors("gps")[1], gps)


def test_the_module_computes_with_the_mixed_values() -> None:
    module = nn.Linear(2, 1)
    encoders: dict[Modality, FlatModule] = {"gps": FlatModule(module)}
    gossip = VectorGossip(0, shared_encoders(encoders, {"gps": {1: 0.25}}))
    encoders["gps"].vector.copy_(torch.tensor([4.0, 8.0, 0.0]))
    payload = np.array([0.0, 0.0, 4.0], dtype=np.float32)
    gossip.absorb([Message(MessageKind.ENCODER, 1, 0, 0, "mix", payload, "gps")])
    assert module(torch.tensor([[1.0, 1.0]])).item() == 3.0 + 6.0 + 1.0


def fused(fusion: str, modalities: tuple[Modality, ...] = ("rf", "gps")) -> ClientModel:
    encoders = {m: window_mlp((2,), hidden_dim=3, embedding_dim=3) for m in modalities}
    made = {m: nn.Identity() for m in modalities}
    return ClientModel(made, encoders, fusion=fusion, embedding_dim=3, n_outputs=2)


@pytest.mark.parametrize(("fusion", "n_values"), [("attention", 6), ("attention_mlp", 2 * 3 + 2 * 3 * 3)])
def test_whole_models_are_averaged_with_all_that_their_fusion_learns(fusion: str, n_values: int) -> None:
    model = fused(fusion)
    gossip = VectorGossip(0, shared_attention(model, {1: 0.25}))
    (sent,) = gossip.messages("mix", 0)
    assert (sent.kind, sent.payload.size) == (MessageKind.ATTENTION, n_values)
    before = [values.detach().clone() for values in model.fusion.parameters()]
    payload = np.arange(n_values, dtype=np.float32)
    gossip.absorb([Message(MessageKind.ATTENTION, 1, 0, 0, "mix", payload)])
    at = 0
    for old, new in zip(before, model.fusion.parameters(), strict=True):
        theirs = torch.from_numpy(payload[at : at + old.numel()]).view_as(old)
        torch.testing.assert_close(new.detach(), 0.75 * old + 0.25 * theirs)
        at += old.numel()


@pytest.mark.parametrize(("fusion", "modalities"), [("mean", ("rf", "gps")), ("attention_mlp", ("gps",))])
def test_a_fusion_that_learns_nothing_is_not_sent(fusion: str, modalities: tuple[Modality, ...]) -> None:
    assert shared_attention(fused(fusion, modalities), {1: 0.25}) == []


def test_a_client_without_neighbors_sends_and_expects_nothing() -> None:
    encoders: dict[Modality, FlatModule] = {"gps": FlatModule(nn.Linear(2, 1)), "rf": FlatModule(nn.Linear(2, 1))}
    gossip = VectorGossip(0, shared_encoders(encoders, {"gps": {}}))  # no weights at all for rf
    assert gossip.messages("mix", 0) == []
    assert gossip.expected("mix", 0) == frozenset()
