"""Special cases of Sheaf-FMTL, in which it is another method: to the bit where the operations are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.coupled import (
    RING,
    SAME,
    STAR,
    Setups,
    gap_between,
    largest_gap,
    mapped,
    of_one_input,
    played,
    reference_of,
    vector_of,
    with_maps,
)
from reference.sheaf_fmtl import run_dfedu, run_sheaf_fmtl
from sheafedge.emulator.contracts import NodeId
from sheafedge.models.settings import SheafSettings
from sheafedge.models.sheaf.map_starts import MapStart
from torch import Tensor

FROZEN = SheafSettings(map_step_size=0.0, coupling=0.3)
#: Columns that clients of a server have; nobody has the last one.
OWNED = {1: (0, 1), 2: (1, 2, 3), 3: (1, 3, 4)}


def on_neighbors(setups: Setups, start: MapStart) -> dict[NodeId, dict[NodeId, MapStart]]:
    """The same map on all edges."""
    return {i: dict.fromkeys(setup.group_mixing, start) for i, setup in setups.items()}


def without_loss(setups: Setups, client: NodeId) -> Setups:
    """The same clients, of which one has f = 0, as a server has."""

    def nothing(outputs: Tensor, _labels: Tensor, _weights: Tensor | None) -> Tensor:
        return 0.0 * outputs.sum()

    return {**setups, client: replace(setups[client], objective=nothing)}


def test_identity_maps_that_do_not_learn_are_dfedu() -> None:
    setups, others = (of_one_input(model_step_size=0.3) for _ in range(2))
    identity = torch.arange(len(vector_of(setups[0].models["fused"])))
    one = played("sheaf_fmtl", mapped(setups, FROZEN, on_neighbors(setups, identity)))
    other = played("dfedu", {i: replace(setup, sheaf=FROZEN) for i, setup in others.items()})
    assert 0.0 < gap_between(one, other) < SAME


@pytest.mark.parametrize("start", ["orthonormal", "hadamard"])
def test_full_rank_maps_common_to_both_ends_that_do_not_learn_are_dfedu(start: Any) -> None:
    """P_ij = P_ji orthogonal: |P (w_i - w_j)| = |w_i - w_j|."""
    sheaf = replace(FROZEN, map_start=start, map_share="edge", compression=1.0)
    one = played("sheaf_fmtl", with_maps(of_one_input(model_step_size=0.3, network=True), sheaf))
    plain = of_one_input(model_step_size=0.3, network=True)
    other = played("dfedu", {i: replace(setup, sheaf=FROZEN) for i, setup in plain.items()})
    assert gap_between(one, other) < SAME


@pytest.mark.parametrize("algorithm", ["sheaf_fmtl", "dfedu"])
def test_without_coupling_a_linear_model_is_trained_as_alone_to_the_bit(algorithm: str) -> None:
    off, steps = SheafSettings(coupling=0.0), {"model_step_size": 0.3, "head_step_size": 0.3}
    coupled = {i: replace(setup, sheaf=off) for i, setup in of_one_input(**steps).items()}
    assert gap_between(played(algorithm, coupled), played("local", of_one_input(**steps))) == 0.0


def test_maps_of_zeros_are_local_training_to_the_bit_and_stay_zeros() -> None:
    """The warning of the paper about its own start of maps."""
    sheaf = SheafSettings(coupling=0.3, map_step_size=0.5, clamp_map_step=False)
    setups, steps = of_one_input(model_step_size=0.3), {"model_step_size": 0.3, "head_step_size": 0.3}
    zeros = torch.zeros(4, len(vector_of(setups[0].models["fused"])), dtype=torch.float64)
    coupled = played("sheaf_fmtl", mapped(setups, sheaf, on_neighbors(setups, zeros)))
    assert gap_between(coupled, played("local", of_one_input(**steps))) == 0.0


@pytest.mark.parametrize("start", ["random", "structured"])
def test_of_a_linear_model_it_is_sheaf_dmfl_without_gossip_to_the_bit(start: Any) -> None:
    """The head is the whole model, and equal sizes have the same mean and smaller one."""
    sheaf = SheafSettings(coupling=0.3, map_step_size=0.05, map_start=start, compression=0.3)
    steps = {"model_step_size": 0.2, "head_step_size": 0.2}
    whole, heads = of_one_input(**steps), of_one_input(**steps)
    rows = torch.from_numpy(np.sort(np.random.default_rng(0).choice(21, size=6, replace=False)))
    if start == "random":
        whole, heads = with_maps(whole, sheaf), with_maps(heads, sheaf)
    else:
        whole, heads = (mapped(one, sheaf, on_neighbors(one, rows)) for one in (whole, heads))
    one, other = played("sheaf_fmtl", whole), played("sheaf_dmfl", heads)
    assert gap_between(one, other) == 0.0
    assert gap_between(one, played("local", of_one_input(**steps))) > 1e-6


def test_on_a_star_around_a_client_without_loss_it_mixes_global_and_local_models() -> None:
    """Identity maps: (lambda / 2) sum_i |w_i - w_0|^2, whose w_0 moves towards the mean of the others."""
    setups = without_loss(of_one_input(model_step_size=0.3, values=True), 0)
    identity: MapStart = torch.arange(len(vector_of(setups[0].models["fused"])))
    starts = {0: dict.fromkeys((1, 2, 3), identity), **{i: {0: identity} for i in (1, 2, 3)}}
    star = mapped(setups, FROZEN, starts)
    expected = run_dfedu(reference_of(star, STAR))
    alpha, before = setups[0].training.model_step_size, reference_of(star, STAR).start
    found = played("sheaf_fmtl", star, STAR)
    assert largest_gap(found, [state.models for state in expected]) < SAME
    mean = torch.stack([before[i] for i in (1, 2, 3)]).mean(dim=0)
    left = (1.0 - 3.0 * alpha * FROZEN.coupling) ** 2  # of the way to that mean, after two local steps
    assert float((found.states[0][0]["model"] - (mean + left * (before[0] - mean))).abs().max()) < SAME


def test_selections_are_hybrid_learning_of_clients_with_other_columns() -> None:
    """A server with all columns, clients with some: a coordinate that no client has is never pulled."""
    setups = without_loss(of_one_input(OWNED, model_step_size=0.3), 0)
    starts: dict[NodeId, dict[NodeId, MapStart]] = {0: {}}
    for i, owned in OWNED.items():
        of_server = [6 * output + column for output in range(3) for column in owned] + [18, 19, 20]
        starts[0][i], starts[i] = torch.tensor(of_server), {0: torch.arange(len(of_server))}
    hybrid = mapped(setups, FROZEN, starts)
    before = vector_of(setups[0].models["fused"])
    expected = run_sheaf_fmtl(reference_of(hybrid, STAR))
    found = played("sheaf_fmtl", hybrid, STAR)
    assert largest_gap(found, [state.models for state in expected]) < SAME
    stayed = found.states[-1][0]["model"] == before
    assert stayed.nonzero().flatten().tolist() == [5, 11, 17]  # of the column that nobody has


def test_values_of_a_quadratic_loss_walk_the_reference_on_a_ring() -> None:
    sheaf = SheafSettings(coupling=0.2, compression=0.4, map_step_size=0.05, clamp_map_step=False, map_start="random")
    setups = with_maps(of_one_input(values=True, model_step_size=0.05), sheaf)
    expected = run_sheaf_fmtl(reference_of(setups, RING))
    assert largest_gap(played("sheaf_fmtl", setups), [state.models for state in expected]) < SAME
