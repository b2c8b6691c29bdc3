"""Stability of the coupling of heads: limits that are exceeded before a run, and instabilities during it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ...emulator.contracts import NodeId, State
from ...emulator.saved_state import SavedState
from ...models.settings import SheafSettings
from ...models.sheaf.map_starts import MapStart
from ...models.sheaf.stability import (
    UNSTABLE_FROM,
    map_step_limit,
    sheaf_laplacian_bound,
    sheaf_laplacian_limit,
    step_limit,
)

#: Share of its first value below which the projection of a client's head counts as collapsed.
COLLAPSED_SHARE = 0.1
#: Of the first value. Energies grow in healthy runs too, from heads that start equal: losses must have grown with it,
#: by more than one minibatch differs from the next.
ENERGY_GROWTH, LOSS_GROWTH = 10.0, 1.5
#: Share of what maps have learned from which on it matters that so much was left out of them.
TRUNCATED_SHARE = 0.1

Starts = Mapping[NodeId, Mapping[NodeId, MapStart]]


def coupling_warnings(strength: float, account: str) -> tuple[str, ...]:
    """Warnings about risky step sizes before any step; unstable ones are refused with the scenario.

    Args:
        strength: strength of the coupling, see `learning_rules.coupling_strength`.
        account: text that shows its factors.
    """
    return (f"{account}: above 1 heads overshoot their neighbors",) if strength > 1.0 else ()


def limit_warnings(
    step_size: float,
    sheaf: SheafSettings,
    starts: Starts,
    vectors: Mapping[NodeId, Tensor],
    *,
    whole_models: bool = False,
) -> tuple[str, ...]:
    """Warnings about corrected limits of Theorem 1 that the first round already exceeds, whatever the losses are.

    Args:
        step_size: field of `[training]`, the paper's alpha.
        sheaf: settings with coupling and map step size.
        starts: client -> neighbor -> initial map.
        vectors: client -> what it couples, before the first round.
        whole_models: whether that is its whole model, and not its head.
    """
    field, what = ("model_step_size", "models") if whole_models else ("head_step_size", "heads")
    found = (
        _step_warning(step_size, field, what, sheaf, starts, vectors),
        _map_warning(sheaf, starts, vectors, what),
    )
    return tuple(warning for warning in found if warning)


def _step_warning(
    alpha: float, field: str, what: str, sheaf: SheafSettings, starts: Starts, vectors: Mapping[NodeId, Tensor]
) -> str:
    coupling = sheaf.coupling
    if coupling == 0.0:
        return ""
    if alpha <= step_limit(0.0, coupling, sheaf_laplacian_bound(starts)):
        return ""  # as nearly always, without the norm, which a thousand clients would wait for
    norm = sheaf_laplacian_limit(starts, {client: len(vector) for client, vector in vectors.items()})
    limit = step_limit(0.0, coupling, norm)
    if alpha <= limit:
        return ""
    return (
        f"training.{field} {alpha:g} is above {limit:.3g} = 2 / (sheaf.coupling {coupling:g} * norm of the sheaf"
        f" Laplacian {norm:.3g}), so that {what} oscillate however flat the losses are; lower it or sheaf.coupling"
    )


def _map_warning(sheaf: SheafSettings, starts: Starts, vectors: Mapping[NodeId, Tensor], what: str) -> str:
    if sheaf.clamp_map_step or not sheaf.learns_maps:
        return ""
    squares = {client: float(vector @ vector) for client, vector in vectors.items()}
    # the limit of an edge falls with the squared norms of both ends: the largest pair decides
    edges = [(squares[i] + squares[j], i, j) for i in starts for j in starts[i] if i < j]
    norms_sq, i, j = max(edges, default=(0.0, 0, 0))
    limit = map_step_limit(sheaf.coupling, norms_sq)
    if sheaf.map_step_size <= limit:
        return ""
    return (
        f"sheaf.map_step_size {sheaf.map_step_size:g} is above {limit:.3g} = 2 / (sheaf.coupling {sheaf.coupling:g} *"
        f" squared norms {norms_sq:.3g} of the first {what} of clients {i} and {j}), so that maps overshoot; lower it"
        " or set sheaf.clamp_map_step = true"
    )


class StabilityWatch:
    """Watch over the rows of a run, with one warning per kind of instability.

    Args:
        n_clients: number of clients that report in every round.
        clamps_map_step: whether `sheaf.clamp_map_step` is set, so that it is no remedy.

    Attributes:
        warnings: warnings so far.
    """

    def __init__(self, n_clients: int, *, clamps_map_step: bool) -> None:
        self._n_clients = n_clients
        self._remedy = "lower sheaf.map_step_size" + ("" if clamps_map_step else " or set sheaf.clamp_map_step = true")
        self._warned: dict[str, str] = {}
        self._rows: dict[int, list[Mapping[str, Any]]] = {}
        self._first: Mapping[str, float] | None = None
        self._last: Mapping[str, float] = {}
        self._largest_map_step = 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warned.values())

    def see(self, row: Mapping[str, Any]) -> None:
        """Check the row of one client after one round; rows of algorithms without coupled heads are ignored."""
        if "sheaf_energy" not in row:
            return
        self._check_maps(row)
        rows = self._rows.setdefault(row["round"], [])
        rows.append(row)
        if len(rows) == self._n_clients:
            self._check_round(self._rows.pop(row["round"]))

    def summary(self) -> dict[str, float]:
        """Figures after the first and after the last round: energy and norm of all clients, smallest share of any.

        Beside them the largest map step, and the largest bound on what truncation left out of any client's maps.
        """
        if self._first is None:
            return {}
        ends = {"first": self._first, "last": self._last}
        figures = ("energy", "map_norm", "projection_share")
        figures_by_end = {f"{name}_{end}": values[name] for name in figures for end, values in ends.items()}
        truncation = {name: self._last[name] for name in ("map_truncation",) if name in self._last}
        return {**figures_by_end, "largest_map_step": self._largest_map_step, **truncation}

    def state(self) -> State:
        """State of the watch between two rounds."""
        return {"said": self._warned, "first": self._first, "last": self._last, "map_step": self._largest_map_step}

    def restore(self, saved: SavedState) -> None:
        """Restore the state of the watch."""
        self._warned = {name: sentence.text() for name, sentence in saved.part("said").named().items()}
        self._first, self._last = saved.part("first").state, saved.part("last").state
        self._largest_map_step = saved.part("map_step").number()

    def _check_maps(self, row: Mapping[str, Any]) -> None:
        who = f"client {row['client']}, round {row['round']}"
        share, step = row["projection_share"], row["largest_map_step"]
        self._largest_map_step = max(self._largest_map_step, step)
        if share < COLLAPSED_SHARE:
            self._warn(
                "collapse",
                f"{who}: its maps have collapsed, they show {share:.2g} of what they first showed of its head, and"
                f" neighbors compare almost nothing; {self._remedy}",
            )
        if row.get("map_truncation", 0.0) > TRUNCATED_SHARE:
            self._warn(
                "truncation",
                f"{who}: its factored maps may have lost {row['map_truncation']:.2g} of what they have learned, because"
                " their steps have more directions than are kept; sheaf.map_storage = 'dense' keeps all",
            )
        if step >= UNSTABLE_FROM:
            self._warn(
                "map step",
                f"{who}: a map step of {step:.3g} (sheaf.map_step_size * sheaf.coupling * squared norms of two heads)"
                f" has overshot, stable is below {UNSTABLE_FROM:g}; {self._remedy}",
            )

    def _check_round(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._last = seen = {
            "energy": sum(row["sheaf_energy"] for row in rows),
            "map_norm": math.hypot(*(row["map_norm"] for row in rows)),
            "projection_share": min(row["projection_share"] for row in rows),
            "loss": sum(row["loss"] for row in rows) / len(rows),
        }
        if self._first is None or self._first["energy"] == 0.0:  # heads that start equal have no energy at first
            self._first = seen
        if truncations := [row["map_truncation"] for row in rows if "map_truncation" in row]:
            self._last = {**seen, "map_truncation": max(truncations)}
        first = self._first
        if seen["energy"] > ENERGY_GROWTH * first["energy"] and seen["loss"] > LOSS_GROWTH * first["loss"]:
            worst = max(rows, key=lambda row: row["sheaf_energy"])
            self._warn(
                "energy",
                f"client {worst['client']}, round {worst['round']}: heads drift apart, the energy of the sheaf has"
                f" grown from {first['energy']:.3g} to {seen['energy']:.3g} and the mean loss from {first['loss']:.3g}"
                f" to {seen['loss']:.3g}; lower training.head_step_size or sheaf.coupling",
            )

    def _warn(self, kind: str, warning: str) -> None:
        self._warned.setdefault(kind, warning)
