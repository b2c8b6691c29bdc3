"""One client's side of the sheaf coupling: projections out, neighbors' projections in, pull on a vector, map steps.

The vector is what the stalk of a client holds: its flattened head in Sheaf-DMFL, its whole model in Sheaf-FMTL.

Everything is stacked over the client's edges, in the row order of its restriction maps. A coordinate of an edge that
did not arrive from the other end neither pulls nor changes its row of the map. With `edge_trust` an edge pulls less the
more its ends differ; the map steps remain those of (12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import Figures, Message, MessageKind, MessageSlot, NodeId, State
from ...emulator.saved_state import SavedState
from ..settings import SheafSettings
from ..sharing.chained_learner import ChainPhase, FunctionExchange
from ..sharing.payload import arrived_values, from_neighbors, to_neighbors, to_payload
from ..state.tensors import finite, restored_tensor, to_array
from .coupling_health import CouplingHealth, step_strengths
from .edge_residuals import RESIDUALS, EdgeResiduals
from .equations import edge_trust, map_step_sizes, reproject_locally
from .kronecker_maps import KroneckerMaps
from .map_starts import MapStart
from .map_storage import stored_maps
from .restriction_maps import RestrictionMaps
from .stability import UNSTABLE_FROM, map_norm_sq

PROJECT, REPROJECT = "project", "reproject"


class _Arrived(NamedTuple):
    """Messages of the neighbors, stacked over edges.

    Attributes:
        values: [n_rows] their projections, 0 where nothing came.
        rows: [n_rows] 1 where a coordinate came, else 0.
        edges: [n_edges] 1 where anything of an edge came that can be used, else 0.
        norms_sq: [n_edges] squared norms of the neighbors' vectors, 0 where none came.
    """

    values: Tensor
    rows: Tensor
    edges: Tensor
    norms_sq: Tensor


class VectorCoupling:
    """Restriction maps of one client, and the projections that last arrived from the other ends.

    Args:
        client_id: the sender of its messages.
        starts: neighbor -> initial map, see `restriction_maps`.
        vector: [d_i] initial vector, for size, dtype and device.
        settings: of the scenario.
        n_outputs: of the head that the vector is; needed by Kronecker maps only.
        redrawn: round -> maps that every later round starts from, of the same sizes; None: maps stay and learn.

    Attributes:
        maps: its restriction maps.
        relative_residual: |residual|^2 as a share of both ends' |projection|^2, over the edges of the last exchange.
        health: figures for monitors.
    """

    def __init__(
        self,
        client_id: NodeId,
        starts: Mapping[NodeId, MapStart],
        vector: Tensor,
        settings: SheafSettings,
        *,
        n_outputs: int = 1,
        redrawn: Callable[[int], Mapping[NodeId, MapStart]] | None = None,
    ) -> None:
        self.maps: RestrictionMaps = stored_maps(settings.map_storage, starts, vector, n_outputs)
        self._client_id, self._settings, self._n_outputs, self._redrawn = client_id, settings, n_outputs, redrawn
        sizes = torch.tensor([rows.stop - rows.start for rows in self.maps.rows.values()], dtype=torch.int64)
        self._edge_of_row = torch.repeat_interleave(torch.arange(len(sizes)), sizes).to(vector.device)
        self._edge = {neighbor: index for index, neighbor in enumerate(self.maps.rows)}
        self._peer = vector.new_zeros(self.maps.n_rows)  # neighbors' projections, held during the local steps
        self._trust = vector.new_zeros(self.maps.n_rows)  # of the neighbor of each row, 0 where nothing arrived
        self._projection = vector.new_zeros(self.maps.n_rows)
        self._reprojection = vector.new_zeros(self.maps.n_rows)
        self._stepped_residual = vector.new_zeros(self.maps.n_rows)  # what the last map step was made from
        self.health = CouplingHealth(starts.values(), self.maps.project(vector), vector)
        self.relative_residual = 0.0
        self._residuals = EdgeResiduals()

    @property
    def pull_flops(self) -> float:
        """Floating-point operations of one `pull`."""
        return 2.0 * self.maps.product_flops

    def phases(self, vector: Callable[[], Tensor]) -> tuple[list[ChainPhase], list[ChainPhase]]:
        """Phases of a round before and after the local steps: B, then F and G of Algorithm 1.

        Args:
            vector: gives the coupled vector [d_i] as it is now.
        """
        sheaf = self._settings
        project = FunctionExchange(
            frozenset({MessageKind.PROJECTION}),
            lambda phase, round_index: self.projections(phase, round_index, vector()),
            partial(self.expected, MessageKind.PROJECTION),
            self.hold,
        )
        reproject = FunctionExchange(
            frozenset({MessageKind.REPROJECTION}),
            lambda phase, round_index: self.reprojections(phase, round_index, vector()),
            partial(self.expected, MessageKind.REPROJECTION),
            lambda arrived: self.step_maps(arrived, vector()),
        )
        # with the single exchange, the last reprojections determine the projections of every round but the first
        projects_once = sheaf.exchange == "single" and sheaf.learns_maps

        def product_flops() -> float:
            return self.maps.product_flops

        before = ChainPhase(
            PROJECT,
            [project],
            flops=product_flops,
            in_round=lambda round_index: sheaf.coupling > 0.0 and (round_index == 0 or not projects_once),
        )
        after = ChainPhase(REPROJECT, [reproject], flops=product_flops, in_round=lambda _round: sheaf.learns_maps)
        return [before], [after]

    @property
    def sends_norm(self) -> bool:
        """Whether a reprojection carries |w|^2 as one more float: the clamp and the single exchange need it."""
        return self._settings.clamp_map_step or self._settings.exchange == "single"

    def expected(self, kind: MessageKind, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """One projection from every neighbor."""
        return from_neighbors(kind, self.maps.rows, phase, round_index)

    def projections(self, phase: str, round_index: int, vector: Tensor) -> list[Message]:
        """Step B: the vector's image on every edge, under maps of this round where they are redrawn."""
        if self._redrawn is not None and round_index > 0:
            self.maps = stored_maps(self._settings.map_storage, self._redrawn(round_index), vector, self._n_outputs)
        self._projection = self.maps.project(vector)
        self.health.record_projection(self._projection, vector @ vector)
        stacked = to_payload(self._projection)
        parts = {neighbor: stacked[rows] for neighbor, rows in self.maps.rows.items()}
        return to_neighbors(MessageKind.PROJECTION, self._client_id, parts, phase, round_index)

    def hold(self, arrived: Sequence[Message]) -> None:
        """Hold the neighbors' projections; coordinates that are not among them do not pull this round."""
        self._peer, came, edges_arrived, _ = self._stacked(arrived)
        self._trust = came * self._trusts(came * self._projection, self._peer)
        residual = came * (self._projection - self._peer)
        self._record_residual(residual, edges_arrived)
        if not self.sends_norm:  # then s_e is not sent, but follows from the residual that the last step left
            before = came * self._stepped_residual
            self.health.record_step_sizes(step_strengths(before, residual, self._reprojection, self.maps.rows.values()))

    def pull(self, vector: Tensor) -> Tensor:
        """Sum over neighbors whose projections arrived of P_ij^T (P_ij w_i - P_ji w_j), [d_i]: the sheaf term of (11).

        Each term counts with the trust in its edge, found from what both ends sent and held like the projections.
        """
        return self.maps.pull(self._trust * (self.maps.project(vector) - self._peer))

    def held_pull(self) -> Callable[[Tensor], Tensor]:
        """`pull` for the local steps of this round, between which maps, projections and trust stand still.

        Equal up to rounding, and cheaper where the maps have a normal form, several times so for long histories.
        """
        form = self.maps.normal_form(self._trust)
        if form is None:
            return self.pull
        constant = self.maps.pull(self._trust * self._peer)
        return lambda vector: form.product(vector) - constant

    def reprojections(self, phase: str, round_index: int, vector: Tensor) -> list[Message]:
        """Step F: the new vector's image under the old maps, with |w|^2 appended where it is needed."""
        # kept: the map step needs it under the same maps
        self._reprojection = self.maps.project(vector)
        stacked = to_payload(self._reprojection)
        tail = to_payload((vector @ vector).reshape(1)) if self.sends_norm else stacked[:0]
        parts = {neighbor: np.concatenate([stacked[rows], tail]) for neighbor, rows in self.maps.rows.items()}
        return to_neighbors(MessageKind.REPROJECTION, self._client_id, parts, phase, round_index)

    def step_maps(self, arrived: Sequence[Message], vector: Tensor) -> None:
        """Step G: equation (12) on coordinates that arrived; with the single exchange also `hold` of the next round."""
        peer, came, edges_arrived, norms_sq = self._stacked(arrived)
        own = self._reprojection
        residual = came * (own - peer)
        scale = float(came @ (own * own + peer * peer))
        self.relative_residual = float(residual @ residual) / scale if scale > 0.0 else 0.0
        eta, coupling = self._settings.map_step_size, self._settings.coupling
        steps = torch.full_like(norms_sq, eta)
        if self._settings.clamp_map_step:
            steps = map_step_sizes(eta, coupling, vector @ vector, norms_sq)
        # a step size belongs to an edge; rows of an edge share it
        step_of_row = steps[self._edge_of_row]
        scaled = step_of_row * coupling * residual
        self.maps.step(scaled, vector)  # (12)
        self._stepped_residual = residual
        self._record_residual(residual, edges_arrived)
        if isinstance(self.maps, KroneckerMaps):
            self.health.record_maps(self.maps.norm_sq, self.maps.project(vector), vector @ vector)
        else:
            self.health.record_map_step(scaled, own, vector @ vector)
        if self.sends_norm:
            self.health.record_step_sizes((edges_arrived * steps * coupling * (vector @ vector + norms_sq)).tolist())
        if self._settings.exchange == "single":
            norm_of_row = norms_sq[self._edge_of_row]
            self._peer = reproject_locally(
                peer, -residual, step_size=step_of_row, coupling=coupling, norm_sq=norm_of_row
            )
            # trust of the next round is found from projections that both ends can derive
            own = reproject_locally(own, residual, step_size=step_of_row, coupling=coupling, norm_sq=vector @ vector)
            self._trust = came * self._trusts(own, self._peer)

    def _trusts(self, own: Tensor, peer: Tensor) -> Tensor:
        """[n_rows] trust in every edge, on its rows."""
        scale, trusts = self._settings.edge_trust, torch.ones_like(peer)
        for rows in self.maps.rows.values() if scale > 0.0 else ():
            trusts[rows] = edge_trust(own[rows], peer[rows], scale)
        return trusts

    def _record_residual(self, residual: Tensor, edges_arrived: Tensor) -> None:
        """Note the residual [n_rows] of an exchange, and its norm on every edge that was heard."""
        self.health.record_residual(residual)
        heard = zip(self.maps.rows.items(), edges_arrived.tolist(), strict=True)
        self._residuals.note_rows(residual, {neighbor: rows for (neighbor, rows), came in heard if came})

    def figures(self) -> Figures:
        """Residuals, figures of its health, and `map_truncation` once maps are not those of all their steps any more.

        Half the sum of the squared norms of `residuals` is the energy.
        """
        truncation = self.maps.truncation
        # only then: figures are part of the trace, and shorter runs keep theirs
        more = {} if truncation is None else {"map_truncation": finite(truncation)}
        figures = {"relative_residual": finite(self.relative_residual), **self.health.figures(), **more}
        return {**figures, **self._residuals.figures()}

    def broken_bound(self, vector: Tensor, step_size: float, field: str = "training.head_step_size") -> str:
        """Which limit of a step size does not hold, as a part of a sentence; empty where none is known to be broken.

        Args:
            vector: [d_i] as it is now.
            step_size: of the vector, alpha.
            field: of the scenario that says it.
        """
        if self.health.overshot:
            return (
                f" after a map step of {self.health.overshot:.3g} (sheaf.map_step_size * sheaf.coupling * squared norms"
                " of two vectors; stable below 2, and always with sheaf.clamp_map_step = true)"
            )
        strength = step_size * self._settings.coupling * map_norm_sq(self.maps, vector)
        if strength >= UNSTABLE_FROM:
            return f" with {field} * sheaf.coupling * squared norm of its maps = {strength:.3g} (stable below 2)"
        return ""

    def state(self) -> State:
        """Maps, projections of the last exchanges, and health."""
        return {
            "maps": self.maps.state(),
            "peer": to_array(self._peer),
            "trust": to_array(self._trust),
            "projection": to_array(self._projection),
            "reprojection": to_array(self._reprojection),
            "stepped_residual": to_array(self._stepped_residual),
            "health": self.health.state(),
            "relative_residual": self.relative_residual,
            **self._residuals.state(),
        }

    def restore(self, saved: SavedState) -> None:
        held = ("peer", "trust", "projection", "reprojection", "stepped_residual")
        parts = saved.parts("maps", *held, "health", "relative_residual", added=[RESIDUALS])
        self.maps.restore(parts["maps"])
        self._peer, self._trust, self._projection, self._reprojection, self._stepped_residual = (
            restored_tensor(parts[name], self._peer) for name in held
        )
        self.health.restore(parts["health"])
        self.relative_residual = parts["relative_residual"].number()
        self._residuals.restore(parts)

    def _stacked(self, arrived: Sequence[Message]) -> _Arrived:
        peer, rows_arrived = torch.zeros_like(self._peer), torch.zeros_like(self._peer)
        norms_sq = self._peer.new_zeros(len(self.maps.rows))
        edges_arrived = torch.zeros_like(norms_sq)
        for message in arrived:
            rows, edge = self.maps.rows[message.sender], self._edge[message.sender]
            n_values = rows.stop - rows.start
            if message.received is not None and not message.received[n_values:].all():
                continue  # without the norm behind the coordinates, the largest safe map step is unknown
            peer[rows], rows_arrived[rows] = arrived_values(message, n_values, peer)
            edges_arrived[edge] = 1.0
            if len(message.payload) > n_values:
                norms_sq[edge] = float(message.payload[n_values])
        return _Arrived(peer, rows_arrived, edges_arrived, norms_sq)
