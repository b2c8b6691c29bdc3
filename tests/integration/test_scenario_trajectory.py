"""A scenario as a user gets it: its wiring walks the reference trajectory too, and alone means alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from integration.played import largest_difference, of_reference
from integration.tiny import PLAIN_SGD, Walk, problem_of, tiny, walk, wired
from reference.sheaf_dmfl import run_reference
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.wiring.emulation import emulate

SAME = 1e-10  # float64, numbers of order 1, sums in another order
WRONG = 1e-4  # far above every rounding, in float32 too

NETWORKS: dict[str, dict[str, Any]] = {
    "lossless": {},
    "waiting on bad links": {"link.loss_probability": 0.3, "network.missing": "wait"},
    "single exchange": {"link.loss_probability": 0.3, "network.missing": "wait", "sheaf.exchange": "single"},
    "threads and sockets": {"network.transport": "zmq", "compute.executor": "threads"},
    "random maps": {"sheaf.map_start": "random"},
    "aligned maps": {"sheaf.map_start": "aligned", "data.beam_order": "permuted"},
    "unclamped": {"sheaf.clamp_map_step": False, "sheaf.map_step_size": 0.01},
    "three recordings, small batches": {"world.n_sites": 3, "training.batch_size": 5},
    "a star": {
        "topology.kind": "star",
        "clients.groups": [
            {"name": "both", "modalities": ["rf", "gps"], "share": 0.4},
            {"name": "gps", "modalities": ["gps"], "share": 0.6},
        ],
    },
}


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "sheaf_dmfl"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_scenario_walks_the_reference_trajectory(network: str, algorithm: str) -> None:
    """Mixing weights, initial maps, heads, encoders and batches as `build` wires them, on its own links."""
    scenario = tiny({**PLAIN_SGD, "algorithm": algorithm, "rounds": 4, **NETWORKS[network]})
    walked = wired(scenario, torch.float64)
    problem = problem_of(scenario, walked)
    try:
        emulate(walked.emulation, scenario.rounds)
    finally:
        walked.emulation.close()
    assert walked.emulation.recorder.traffic.lost_messages == 0
    assert largest_difference(walked.states, of_reference(run_reference(problem))) < SAME


def meanings(owned: Sequence[str], fusion: str, width: int, n_outputs: int) -> list[tuple[Any, ...]]:
    """What every coordinate of a flat head weighs: (class, block, feature), then the biases."""
    columns = [(block, f) for block in (owned if fusion == "concat" else ["fused"]) for f in range(width)]
    return [(c, *column) for c in range(n_outputs) for column in columns] + [(c,) for c in range(n_outputs)]


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "sheaf_dmfl"])
def test_structured_maps_compare_the_same_coordinate_at_both_ends(algorithm: str) -> None:
    scenario = tiny({"algorithm": algorithm, "topology.kind": "complete"})
    problem = problem_of(scenario, wired(scenario))
    names = {i: meanings(owned, problem.fusion, width=4, n_outputs=8) for i, owned in problem.modalities.items()}
    assert len({len(owned) for owned in problem.modalities.values()}) == 2
    for i, j in problem.edges:
        picked = []
        for a, b in ((i, j), (j, i)):
            rows = problem.maps[a, b].numpy()
            assert ((rows == 0.0) | (rows == 1.0)).all()
            assert (rows.sum(axis=1) == 1.0).all()
            picked.append([names[a][index] for index in rows.argmax(axis=1)])
        assert picked[0] == picked[1]
        assert len(set(picked[0])) == len(picked[0])


#: Algorithm -> the edits under which its clients are those of another algorithm that never sends.
ALONE: dict[str, dict[str, Any]] = {
    "sheaf_dmfl": {"algorithm": "local", "model.fusion": "concat"},
    "sheaf_dmfl_att": {"algorithm": "local"},
    "sheaf_diffusion": {"algorithm": "local"},
    "head_averaging": {"algorithm": "local"},
    "group_averaging": {"algorithm": "local"},
    "dpsgd": {"algorithm": "local"},
    "dpsgd_adapt_then_combine": {"algorithm": "local"},
    "dsgd": {"algorithm": "local_unimodal"},
    "dsgd_heads": {"algorithm": "local_unimodal"},
    "local": {"algorithm": "local"},
    "local_unimodal": {"algorithm": "local_unimodal"},
}


#: They lose something of their own, keep rows aside, or send nothing to begin with; each has tests of its own.
#: Sheaf-FMTL and dFedU take steps of plain gradient descent on the whole model, as no other does. Clients of a server
#: start from what it has sent, and rules other than plain steps hold more than one model.
LIKE_NO_OTHER = {
    "dmml_kd",
    "sheaf_prototypes",
    "averaged_and_tuned",
    "diffused_and_tuned",
    "centralized",
    "sheaf_fmtl",
    "dfedu",
} | {name for name, spec in ALGORITHMS.items() if spec.server or name.endswith("_decentralized")}


def test_every_other_algorithm_has_a_counterpart_that_is_alone() -> None:
    assert ALONE.keys() == ALGORITHMS.keys() - LIKE_NO_OTHER


@cache
def undisturbed(*edits: tuple[str, Any]) -> Walk:
    """A run over links that lose nothing; tests only read it."""
    return walk(tiny(dict(edits)))


@pytest.mark.parametrize("missing", ["skip", "stale"])
@pytest.mark.parametrize("algorithm", ALONE)
def test_a_network_that_loses_everything_is_training_alone(algorithm: str, missing: str) -> None:
    """Bit for bit, in float32 and with Adam, as users train."""
    everything_lost = {"link.loss_probability": 1.0, "network.missing": missing}
    together = walk(tiny({"algorithm": algorithm, **everything_lost}))
    alone = undisturbed(*ALONE[algorithm].items())
    assert largest_difference(learned(together.states), learned(alone.states)) == 0.0
    traffic = together.emulation.recorder.traffic
    assert traffic.lost_messages == traffic.messages
    if ALGORITHMS[algorithm].kinds:
        heard = undisturbed(("algorithm", algorithm))
        assert largest_difference(learned(heard.states), learned(alone.states)) > WRONG


def learned(states: Any) -> Any:
    """Without the maps, which only some algorithms hold."""
    return [
        {i: {name: v for name, v in state.items() if "map to" not in name} for i, state in of_round.items()}
        for of_round in states
    ]
