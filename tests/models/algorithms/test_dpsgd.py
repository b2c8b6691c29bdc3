"""D-PSGD in both variants, against the two lines that define them, with matrices written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from doubles.hand_played import Vectors, averaged, members, mixing_matrix, play_round, scattered, vectors_of
from integration.cases import random_case, setup_of
from integration.tiny import Walk, tiny, wired
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import Learner, Message, MessageKind, NodeId
from sheafedge.models.algorithms.dpsgd import dpsgd
from sheafedge.models.training.training_rows import RowsInMemory
from torch import nn

EXACT = 1e-12  # float64, sums of a handful of terms of order 1
DIFFERENT = 1e-3  # the same numbers, and a mistake

VARIANTS = ("dpsgd", "dpsgd_adapt_then_combine")


def one_round(algorithm: str) -> tuple[Walk, dict[NodeId, Vectors], dict[NodeId, Vectors]]:
    walk = scattered({"algorithm": algorithm})
    before = vectors_of(walk)
    play_round(walk)
    return walk, before, vectors_of(walk)


def expected(variant: str) -> dict[NodeId, Vectors]:
    """From what the same clients do for themselves, with the matrix of the group's own subgraph."""
    walk, before, stepped = one_round("local")
    found: dict[NodeId, Vectors] = {i: {} for i in before}
    for group in walk.emulation.groups:
        weights = mixing_matrix(walk.emulation.graph, members(walk, group))
        for part in before[members(walk, group)[0]]:
            start = {i: before[i][part] for i in weights}
            step = {i: before[i][part] - stepped[i][part] for i in weights}
            if variant == "dpsgd":
                mixed = averaged(weights, start)
                for i in weights:
                    found[i][part] = mixed[i] - step[i]
            else:
                for i, value in averaged(weights, {i: start[i] - step[i] for i in weights}).items():
                    found[i][part] = value
    return found


def largest_gap(one: dict[NodeId, Vectors], other: dict[NodeId, Vectors]) -> float:
    assert one.keys() == other.keys()
    return max(float(np.abs(one[i][part] - other[i][part]).max()) for i in one for part in one[i])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_round_is_what_defines_it(variant: str) -> None:
    _, before, after = one_round(variant)
    assert after[0].keys() == expected(variant)[0].keys()
    assert largest_gap(after, expected(variant)) < EXACT
    assert largest_gap(after, before) > DIFFERENT


def test_the_variants_are_two() -> None:
    """The negative control: the other one's line does not pass, nor does training alone."""
    after = {variant: one_round(variant)[2] for variant in VARIANTS}
    assert largest_gap(after["dpsgd"], expected("dpsgd_adapt_then_combine")) > DIFFERENT
    assert largest_gap(after["dpsgd_adapt_then_combine"], expected("dpsgd")) > DIFFERENT
    assert all(largest_gap(found, one_round("local")[2]) > DIFFERENT for found in after.values())


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_crosses_between_groups(variant: str) -> None:
    walk = scattered({"algorithm": variant})
    group_of = {client.client_id: client.group for client in walk.emulation.clients}
    sent = play_round(walk)
    assert sent
    assert all(group_of[message.sender] == group_of[message.receiver] for message in sent)
    assert any(group_of[a] != group_of[b] for a, b in walk.emulation.graph.edges)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_neighbors_of_its_group_a_client_is_alone_to_the_bit(variant: str) -> None:
    """In float32 and with Adam, as users train: adding and taking off a step would show in the last bits."""
    lonely: dict[str, Any] = {
        "clients.n_clients": 3,
        "clients.groups": [
            {"name": "both", "modalities": ["rf", "gps"], "share": 0.34},
            {"name": "gps", "modalities": ["gps"], "share": 0.33},
            {"name": "rf", "modalities": ["rf"], "share": 0.33},
        ],
        "topology.edge_probability": 1.0,
    }
    walks = [wired(tiny({**lonely, "algorithm": name})) for name in (variant, "local")]
    for round_index in range(3):
        for walk in walks:
            play_round(walk, round_index)
    together, alone = (vectors_of(walk) for walk in walks)
    for i, parts in alone.items():
        for name, values in parts.items():
            assert_array_equal(together[i][name], values)


@pytest.mark.parametrize("variant", VARIANTS)
def test_who_hears_nobody_is_alone_to_the_bit(variant: str) -> None:
    walks = [wired(tiny({"algorithm": name})) for name in (variant, "local")]
    for round_index in range(3):
        for walk in walks:
            for learner in walk.emulation.learners:
                learner.compute("mix", round_index)
                learner.absorb("mix", round_index, ())
    together, alone = (vectors_of(walk) for walk in walks)
    for i, parts in alone.items():
        for name, values in parts.items():
            assert_array_equal(together[i][name], values)


WEIGHT = 0.8  # of the only neighbor


def client_with_statistics() -> tuple[Learner, nn.BatchNorm1d]:
    """A client whose first batch varies much more than the others do, and whose encoder ends in a normalization."""
    case = random_case(3, n_clients=4, local_steps=1, n_rounds=3)
    client = next(i for i, owned in case.problem.modalities.items() if owned == ("gps",))
    setup = setup_of(case, client, torch.float64, "sgd")
    encoder = setup.models["fused"].encoders["gps"]
    assert isinstance(encoder, nn.Sequential)
    normalization = nn.BatchNorm1d(setup.models["fused"].layout.width, momentum=0.9).double()
    encoder.append(normalization)
    assert isinstance(setup.rows, RowsInMemory)
    setup.rows.arrays["gps"][: setup.training.batch_size] *= 30.0
    return dpsgd(replace(setup, group_mixing={99: WEIGHT})), normalization


def test_running_variances_stay_positive_after_a_wild_batch() -> None:
    """Taking the fall of an own variance off an average that is smaller would leave the positive numbers."""
    learner, normalization = client_with_statistics()
    calm: list[Message] = []
    naive = []
    for round_index in range(2):
        sent = [message for message in learner.compute("mix", round_index) if message.kind is MessageKind.ENCODER]
        calm = calm or [replace(message, sender=99) for message in sent]  # the neighbor stays as everybody began
        n = normalization.num_features
        before, neighbor = (message.payload[-n:] for message in (sent[0], calm[0]))
        trained = normalization.running_var.numpy().copy()
        naive.append((1.0 - WEIGHT) * before + WEIGHT * neighbor + trained - before)
        learner.absorb("mix", round_index, calm)
        assert_allclose(normalization.running_var, (1.0 - WEIGHT) * trained + WEIGHT * neighbor, rtol=EXACT)
    assert naive[1].min() < 0.0  # the negative control
