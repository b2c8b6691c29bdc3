"""The watch that computes figures of theory in scored rounds, and holds gradients against the bound of Theorem 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ...models.sheaf.stability import step_limit
from ..schema.scenario import Scenario
from ..wiring.emulation import Emulation
from .client_gradient import client_gradient
from .round_theory import round_theory
from .sheaf_of_run import sheaf_of_run

Rows = list[dict[str, Any]]


class TheoryWatch:
    """Figures of a run, a row before the first round and one after every scored round.

    Args:
        scenario: of the run.
        emulation: with all learners in this process.
    """

    def __init__(self, scenario: Scenario, emulation: Emulation) -> None:
        self._scenario, self._emulation = scenario, emulation
        self._rows: Rows = []

    def is_due(self, rounds_done: int) -> bool:
        """Whether a row is wanted after so many rounds."""
        return rounds_done % self._scenario.evaluate_every == 0 or rounds_done == self._scenario.rounds

    def see(self, rounds_done: int) -> None:
        """Add a row; learners stay as they are."""
        scenario, clients = self._scenario, self._emulation.clients
        run = sheaf_of_run(self._emulation.client_learners, clients, self._emulation.graph)
        gradients = {
            client.client_id: client_gradient(
                client.models["fused"],
                client.data.train,
                scenario.task_spec.objective,
                balanced=scenario.training.class_weights == "balanced",
            )
            for client in clients
        }
        learns = run.has_maps and scenario.sheaf.learns_maps
        row = round_theory(rounds_done, run, clients, gradients, learns_maps=learns)
        self._rows.append({**row.as_dict(), "maps": "own" if run.has_maps else "identity"})

    def summary(self) -> dict[str, Any]:
        """`rows`, and what `gradient_bound` finds."""
        return {"rows": self._rows, "bound": gradient_bound(self._rows, self._scenario)}

    def state(self) -> State:
        """Rows so far."""
        return {"rows": self._rows}

    def restore(self, saved: SavedState) -> None:
        """Restore the rows."""
        self._rows = [dict(row) for row in saved.parts("rows")["rows"].state]


def gradient_bound(rows: Sequence[Mapping[str, Any]], scenario: Scenario) -> dict[str, Any]:
    """The squared gradient in the heads, mean over rows, beside what Theorem 1 allows, corrected.

    One step of the heads lowers Psi by alpha (1 - (L + lambda |L_F|) alpha / 2) |grad_w Psi|^2 or more; so the mean of
    |grad_w Psi|^2 over R rounds of S steps is at most Psi_0 / (rho S R), as long as nothing else raises Psi.

    Args:
        rows: of the watch.
        scenario: of the run.

    Returns:
        `mean_square`, and `bound` or `reason`, with what they were computed from. L and |L_F| are the largest of all
        rows, Psi_0 the first; 0 stands for the smallest Psi. That encoders, attention, minibatches and lost messages do
        not raise Psi is not known, so this is a check of a run and no proof.
    """
    measured = [row["gradient_vectors"] ** 2 for row in rows[:-1]]
    found: dict[str, Any] = {"mean_square": sum(measured) / len(measured) if measured else None}
    if reason := _no_bound(rows, scenario):
        return {**found, "reason": reason}
    coupling = scenario.sheaf.coupling
    smoothness = max(row["smoothness"] for row in rows)
    norm = max(row["largest_eigenvalue"] or 0.0 for row in rows)
    alpha, limit = scenario.training.head_step_size, step_limit(smoothness, coupling, norm)
    found |= {"step_size": alpha, "limit": limit, "smoothness": smoothness, "norm": norm, "start": rows[0]["objective"]}
    if alpha >= limit:
        return {**found, "reason": f"training.head_step_size = {alpha:g} is not below the limit {limit:.3g}"}
    rho = alpha * (1.0 - alpha / limit)
    # a run that was resumed with theory has its first row after the rounds that it had made without
    n_steps = scenario.training.local_steps * (rows[-1]["round"] - rows[0]["round"])
    return {**found, "rho": rho, "bound": rows[0]["objective"] / (rho * n_steps)}


def _no_bound(rows: Sequence[Mapping[str, Any]], scenario: Scenario) -> str:
    """Why the theorem says nothing of this run; empty: it may."""
    if len(rows) < 2:
        return "no round lies between two rows"
    if scenario.algorithm_spec.couples_models:
        return "whole models are coupled, whose smoothness is not known"
    if not scenario.algorithm_spec.couples_heads:
        return f"algorithm {scenario.algorithm!r} does not couple heads by steps on the energy"
    if scenario.training.optimizer == "adam":
        return "heads are stepped by Adam, and the theorem is about plain gradient steps"
    if any(row["smoothness"] is None for row in rows):
        return f"the smoothness of objective {scenario.task_spec.objective!r} is not known"
    return ""
