"""Strength of a coupling against the step size of what it pulls at: from 2 on it diverges."""

from __future__ import annotations

import math

from ....models.settings import SheafSettings
from ..neighborhood import Graph, Neighborhood, edges_inside
from ..scenario_fields import ScenarioFields


def coupling_strength(scenario: ScenarioFields, graph: Graph) -> tuple[float, str]:
    """Strength of the coupling, alpha * lambda * |P_i|^2 with the most neighbors, and a text that shows its factors.

    With held projections a client's own step is stable only below 2. Without edges, where the algorithm couples
    nothing, or where |P_i| depends on the size of the model (`sheaf.map_scale`), it is 0.

    Args:
        scenario: whose algorithm it is.
        graph: along which neighbors pull, see `coupled_graph`.
    """
    spec, sheaf, training = scenario.algorithm_spec, scenario.sheaf, scenario.training
    alone = spec.couples_models and training.weight_decay == "as_sheaf"
    unknown = spec.has_maps and sheaf.map_scale > 0.0
    if not spec.couples or alone or unknown or graph.number_of_edges() == 0:
        return 0.0, ""
    field = "model_step_size" if spec.couples_models else "head_step_size"
    step_size, degree = getattr(training, field), max(degree for _, degree in graph.degree)
    norm_sq = stacked_norm_sq(sheaf, degree) if spec.has_maps else float(degree)
    strength = step_size * sheaf.coupling * norm_sq
    of = f"squared norm of the maps of {degree} edges" if spec.has_maps else "neighbors"
    account = (
        f"training.{field} {step_size:g} * sheaf.coupling {sheaf.coupling:g} * {norm_sq:.2g} ({of}) = {strength:.2g}"
    )
    return strength, account


def stacked_norm_sq(sheaf: SheafSettings, degree: int) -> float:
    """Largest squared norm that the maps of one client with so many neighbors have together, before they learn.

    Rows of the identity may be the same on all edges, and add up. Rows that are drawn point elsewhere on every edge:
    their norm is the end of the spectrum of a Gaussian matrix, or of a sum of random projections, for large models.

    Source: V. Marchenko, L. Pastur 1967; free convolution of projections (D. Voiculescu 1987).
    """
    share = sheaf.compression
    if sheaf.map_start in ("random", "uniform"):
        return (1.0 + math.sqrt(degree * share)) ** 2
    if sheaf.map_start in ("orthonormal", "hadamard") and share < 1.0 - 1.0 / degree:
        return (math.sqrt((degree - 1) * share) + math.sqrt(1.0 - share)) ** 2
    return float(degree)


def coupled_graph(s: Neighborhood) -> Graph:
    """Graph along which neighbors pull: without maps, only inside groups."""
    return s.sheaf_graph if s.scenario.algorithm_spec.has_maps else edges_inside(s.graph, s.groups)
