"""`ReferenceProblem`s as learners on the emulator: the same numbers and batches on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from doubles.random_maps import random_starts
from integration.played import Played, Setting, State, maps_of, play, state_of_model
from numpy.typing import NDArray
from reference.problems import random_problem
from reference.sheaf_dmfl import Edge, ReferenceProblem, metropolis_hastings, modality_graph
from sheafedge.emulator.contracts import Learner, Modality, NodeId
from sheafedge.emulator.network.edge_generators import TopologyOptions
from sheafedge.emulator.network.topology import build_topology
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.fusion import AttentionFusion
from sheafedge.models.head import HeadLayout
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sheaf.equations import structured_starts
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn

GROUPS: tuple[tuple[Modality, ...], ...] = (("rf", "gps"), ("gps",), ("rf",))
STARTS = {"random": random_starts, "structured": structured_starts}


@dataclass(frozen=True)
class Case:
    """A problem for the reference and for the emulator.

    Attributes:
        problem: what the reference reads; its maps are matrices.
        starts: [(i, j)] the same maps as the learners get them, matrices or rows of the identity.
        map_storage, exchange: choices that the reference knows nothing of.
    """

    problem: ReferenceProblem
    starts: Mapping[Edge, Tensor]
    map_storage: Literal["factored", "dense"] = "factored"
    exchange: Literal["double", "single"] = "double"

    def changed(self, **options: Any) -> Case:
        """The same case with other options of its problem."""
        return replace(self, problem=replace(self.problem, **options))


def random_network(seed: int, n_clients: int) -> tuple[dict[int, tuple[Modality, ...]], tuple[Edge, ...]]:
    """Clients with GPS, with RF and with both, at least one of each, on a random graph that carries them."""
    draws = named_stream(seed, "test network")
    owned = {i: GROUPS[i] if i < len(GROUPS) else GROUPS[draws.integers(len(GROUPS))] for i in range(n_clients)}
    shuffled = dict(zip(draws.permutation(n_clients).tolist(), owned.values(), strict=True))
    owned = {i: shuffled[i] for i in range(n_clients)}
    sets = {i: frozenset(modalities) for i, modalities in owned.items()}
    graph = build_topology("erdos_renyi", sets, draws, TopologyOptions(edge_probability=0.5))
    return owned, tuple((i, j) for i, j in graph.edges)


def random_case(
    seed: int,
    *,
    n_clients: int = 6,
    map_start: str = "random",
    compression: float = 0.3,
    map_storage: Literal["factored", "dense"] = "factored",
    exchange: Literal["double", "single"] = "double",
    **options: Any,
) -> Case:
    """A random network and problem whose maps start as a scenario would start them."""
    owned, edges = random_network(seed, n_clients)
    problem = random_problem(owned, edges, seed=seed, **options)
    width = len(problem.attention[0][owned[0][0]])
    blocks = owned if problem.fusion == "concat" else dict.fromkeys(owned, ("fused",))
    layouts = {i: HeadLayout(problem.n_classes, tuple((str(k), width) for k in names)) for i, names in blocks.items()}
    starts: dict[Edge, Tensor] = {}
    for i, j in edges:
        draws = named_stream(seed, "test maps", i, j)
        starts[i, j], starts[j, i] = STARTS[map_start](layouts[i], layouts[j], compression, draws)
    maps = {(i, j): rows_of_identity(start, layouts[i].dim) for (i, j), start in starts.items()}
    return Case(replace(problem, maps=maps), starts, map_storage, exchange)


def rows_of_identity(start: Tensor, head_dim: int) -> NDArray[np.float64]:
    """A start as the matrix that it stands for, [d_ij, d_i]."""
    return start.numpy() if start.ndim == 2 else np.eye(head_dim)[start.numpy()]


class InOrder(np.random.Generator):
    """A stream whose permutations leave everything in place: batches then come in the order of the rows."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return np.arange(x)


def rows_of(problem: ReferenceProblem, client: NodeId) -> RowsInMemory:
    """All batches of a client, one after the other."""
    batches = [step[client] for steps in problem.batches for step in steps]
    inputs: Any = {k: np.concatenate([inputs[k] for inputs, _ in batches]) for k in problem.modalities[client]}
    return RowsInMemory(inputs, np.concatenate([labels for _, labels in batches]))


def model_of(problem: ReferenceProblem, client: NodeId, dtype: torch.dtype) -> ClientModel:
    """The model with the problem's initial values."""
    owned: tuple[Any, ...] = problem.modalities[client]
    encoders: dict[Any, nn.Module] = {}
    for k in owned:
        (first, bias), (second, last_bias) = problem.encoders[client][k]
        encoder = window_mlp(first.shape[1:], len(first), len(second)).to(dtype)
        parts = {"1.weight": first, "1.bias": bias, "3.weight": second, "3.bias": last_bias}
        encoder.load_state_dict({name: torch.from_numpy(values) for name, values in parts.items()})
        encoders[k] = encoder
    model = ClientModel(
        {k: nn.Identity() for k in owned},
        encoders,
        fusion=problem.fusion,
        embedding_dim=len(second),
        n_outputs=problem.n_classes,
    ).to(dtype)
    model.head.data.copy_(torch.from_numpy(problem.heads[client]))
    if isinstance(model.fusion, AttentionFusion):
        beta = np.stack([problem.attention[client][k] for k in model.modalities])
        model.fusion.scoring.data.copy_(torch.from_numpy(beta))
    return model


def setup_of(case: Case, client: NodeId, dtype: torch.dtype, optimizer: Literal["sgd", "adam"]) -> ClientSetup:
    """One client of a case, as the algorithms take it."""
    problem = case.problem
    mixing: dict[Any, dict[NodeId, float]] = {}
    for k in problem.modalities[client] if problem.mixing == "metropolis_hastings" else ():
        owners, edges = modality_graph(problem, k)
        row = metropolis_hastings(owners, edges)[owners.index(client)]
        mixing[k] = {j: w for j, w in zip(owners, row.tolist(), strict=True) if j != client and w > 0.0}
    return ClientSetup(
        client_id=client,
        group="all",
        models={"fused": model_of(problem, client, dtype)},
        rows=rows_of(problem, client),
        objective=cross_entropy,
        batch_draws={"fused": InOrder()},
        training=TrainingSettings(
            local_steps=problem.local_steps,
            batch_size=len(problem.batches[0][0][client][1]),
            head_step_size=problem.head_step_size,
            encoder_step_size=problem.encoder_step_size,
            encoder_optimizer=optimizer,
            attention_step_size=problem.attention_step_size,
        ),
        sheaf=SheafSettings(
            coupling=problem.coupling,
            map_step_size=problem.map_step_size,
            clamp_map_step=problem.clamp_map_step,
            map_storage=case.map_storage,
            exchange=case.exchange,
        ),
        mixing=mixing,
        map_starts={j: start for (i, j), start in case.starts.items() if i == client},
    )


def emulated(
    case: Case,
    setting: Setting | None = None,
    *,
    algorithm: str = "",
    dtype: torch.dtype = torch.float64,
    optimizer: Literal["sgd", "adam"] = "sgd",
) -> Played:
    """The trajectory of a case on the emulator; the algorithm is the one of its fusion unless given."""
    problem = case.problem
    chosen = ALGORITHMS[algorithm or ("sheaf_dmfl_att" if problem.fusion == "attention" else "sheaf_dmfl")]
    setups = {i: setup_of(case, i, dtype, optimizer) for i in sorted(problem.modalities)}
    learners = chosen.learners(list(setups.values()))

    def state_of(learner: Learner) -> State:
        return state_of_model(setups[learner.client_id].models["fused"]) | maps_of(learner)

    return play(learners, problem.edges, chosen.kinds, problem.n_rounds, state_of, setting or Setting())
