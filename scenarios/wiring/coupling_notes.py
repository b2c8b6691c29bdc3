"""What is known before the first round: of a coupling, of the size of what a server learns, of how a graph is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ...datasets.rows.graph_partition import metis_is_installed
from ...emulator.contracts import Learner, NodeId
from ...models.hyper.hyper_learners import generating_server
from ...models.sheaf.map_starts import MapStart
from ...models.sheaf.stability import sheaf_laplacian_limit, step_limit
from ..schema.neighborhood import Neighborhood
from ..schema.rules.coupling_strength import coupled_graph
from ..schema.scenario import Scenario

#: Megabytes of one checkpoint of a server's networks from which it is warned of.
LARGE_CHECKPOINT_MB = 100.0

Starts = Mapping[NodeId, Mapping[NodeId, MapStart]]


def coupling_notes(
    neighborhood: Neighborhood, starts: Starts, vectors: Mapping[NodeId, Tensor], decay: Mapping[NodeId, float]
) -> tuple[str, ...]:
    """Sentences for the head of a run; none where heads are coupled, or nothing is.

    Args:
        neighborhood: of the run.
        starts: client -> neighbor -> initial map; empty without maps.
        vectors: client -> its model before the first round.
        decay: client -> weight decay that the coupling comes to in expectation; empty where it comes to no such thing.
    """
    scenario = neighborhood.scenario
    spec, coupling = scenario.algorithm_spec, scenario.sheaf.coupling
    if not spec.couples_models or coupling == 0.0:
        return ()
    least, most = min(decay.values(), default=0.0), max(decay.values(), default=0.0)
    strength = f"{most:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    if scenario.training.weight_decay == "as_sheaf":
        return (f"weight decay {strength} in place of the coupling, and no messages",)
    norm = _laplacian_norm(neighborhood, starts, vectors)
    step_size = scenario.training.model_step_size
    longest = (
        f"training.model_step_size {step_size:g} must stay below {step_limit(0.0, coupling, norm):.3g} = 2 /"
        f" (sheaf.coupling {coupling:g} * {norm:.3g}, the most that the sheaf Laplacian's eigenvalues can be),"
        " and lower where losses curve"
    )
    if spec.has_maps and decay and scenario.sheaf.map_share == "end":
        comes_to = (
            f"in expectation over its maps the coupling is weight decay of {strength}; training.weight_decay ="
            " 'as_sheaf' is the control"
        )
        return longest, comes_to
    return (longest,)


def checkpoint_warnings(scenario: Scenario, learners: Sequence[Learner]) -> tuple[str, ...]:
    """Sentence about a server whose networks make checkpoints large; none where there are no such checkpoints."""
    server = generating_server(learners) if scenario.checkpoint_every else None
    if server is None:
        return ()
    n_bytes = sum(3 * one.numel() * one.element_size() for one in server.generator.parameters())
    if n_bytes < LARGE_CHECKPOINT_MB * 1e6:
        return ()
    sentence = (
        f"the server's networks have {server.n_parameters / 1e6:.1f} million parameters, so that a checkpoint has"
        f" {n_bytes / 1e6:,.0f} MB; raise checkpoint_every ({scenario.checkpoint_every}), or lower hyper.hidden, or set"
        " hyper.output = 'factors'"
    )
    return (sentence,)


def partition_warnings(scenario: Scenario) -> tuple[str, ...]:
    """Sentence about a graph that METIS should cut and does not; none where it does, or where there is no graph."""
    if scenario.data.owners not in ("metis", "metis_overlap") or metis_is_installed():
        return ()
    sentence = (
        "METIS is not installed, so that the graph is cut breadth first, with more edges between parts; for METIS run:"
        " pip install 'sheafedge[graphs]'"
    )
    return (sentence,)


def _laplacian_norm(neighborhood: Neighborhood, starts: Starts, vectors: Mapping[NodeId, Tensor]) -> float:
    """Largest eigenvalue of the sheaf Laplacian, or of the graph's; from above, at most twice as large."""
    if not neighborhood.scenario.algorithm_spec.has_maps:
        return 2.0 * max((degree for _, degree in coupled_graph(neighborhood).degree), default=0)
    return sheaf_laplacian_limit(starts, {client: len(vector) for client, vector in vectors.items()}, tolerance=1e-2)
