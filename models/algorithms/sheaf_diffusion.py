"""Ours: heads diffuse along the sheaf once per round, with mixing weights, instead of being pulled in every local step.

Each client moves its head by sum_j m_ij P_ij^T (P_ij w_i - P_ji w_j), with m_ij the Metropolis-Hastings weights along
the edges of the sheaf. Where all maps are the identity this *is* head averaging; where heads have different sizes, or
outputs in another order, only what the maps make comparable is averaged. Against (11) it needs one exchange instead of
two, in the same phase as the encoders, and no step size: it contracts for any coupling up to 1 while |P| <= 1.
Maps stay as they start, or are drawn anew every round. Where clients find the orders of their beams themselves, they
first agree on directions (`orientation`), and some listen before they speak (`listening`). After `sharing.until` rounds
nothing is sent any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ...emulator.contracts import Figures, Message, MessageKind, MessageSlot, NodeId, State
from ...emulator.saved_state import Parts, SavedState
from ..rules.sgd import LocalSgd
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.listening import MixWithListeners
from ..sharing.orientation import Orientation
from ..sharing.payload import arrived_values, from_neighbors, to_neighbors, to_payload, to_tensor
from ..sharing.vector_gossip import VectorGossip, consensus_figures, shared_encoders
from ..sheaf.beam_frame import BeamFrame
from ..sheaf.edge_residuals import RESIDUALS, EdgeResiduals
from ..sheaf.equations import edge_trust
from ..sheaf.map_starts import MapStart
from ..sheaf.map_storage import stored_maps
from ..sheaf.restriction_maps import RestrictionMaps
from ..sheaf.stalk import Stalk
from ..state.tensors import restored_tensor, to_array
from ..training.client_setup import ClientSetup

MIX = "mix"


def sheaf_diffusion(setup: ClientSetup) -> ChainedLearner:
    """One client: local steps, then encoders and heads are mixed together."""
    models = LocalSgd(setup)
    (model,) = setup.models.values()
    gossip = VectorGossip(setup.client_id, shared_encoders(models.encoders, setup.mixing), setup.sharing)
    diffusion = HeadDiffusion(setup, model.head.data)
    if setup.frame is not None:
        return _oriented(setup, setup.frame, models, gossip, diffusion)
    mix = ChainPhase(
        MIX,
        [gossip, diffusion],
        work=models.train,
        flops=lambda: models.flops,
        more_flops=diffusion.round_flops,
    )
    return ChainedLearner(
        setup.client_id,
        [mix],
        parts=Parts(models=models, diffusion=diffusion, gossip=gossip),
        models=models.predict,
        figures=lambda: {**models.health(), **diffusion.figures(), **consensus_figures([gossip])},
        stalk=diffusion.stalk,
    )


def _oriented(
    setup: ClientSetup, frame: BeamFrame, models: LocalSgd, gossip: VectorGossip, diffusion: HeadDiffusion
) -> ChainedLearner:
    """The same of a client that first has to find out which end of its codebook its neighbors call the first."""
    orientation = Orientation(setup, frame)
    mixed = MixWithListeners(setup, orientation, models.encoders, gossip, diffusion)

    def work(round_index: int) -> None:
        if not orientation.is_listening(round_index):
            models.train(round_index)

    def round_flops(round_index: int) -> float:
        trained = 0.0 if orientation.is_listening(round_index) else models.flops
        return trained + diffusion.round_flops(round_index)

    mix = ChainPhase(
        MIX,
        [mixed],
        work=work,
        finish=mixed.finish,
        more_flops=round_flops,
    )
    return ChainedLearner(
        setup.client_id,
        [*orientation.phases(), mix],
        # heads are restored before the frame that says how to read them
        parts=Parts(models=models, diffusion=diffusion, gossip=gossip, orientation=orientation, listening=mixed),
        models=models.predict,
        figures=lambda: {
            **models.health(),
            **diffusion.figures(),
            **consensus_figures([gossip]),
            **orientation.figures(),
        },
        stalk=diffusion.stalk,
    )


class HeadDiffusion:
    """Restriction maps that stay as they start (or are drawn anew every round), and the mixing weight of every edge.

    Args:
        setup: maps, weights and settings of the client.
        head: [d_i] changed in place.
    """

    def __init__(self, setup: ClientSetup, head: Tensor) -> None:
        (model,) = setup.models.values()
        self._client_id, self._head, self._redrawn = setup.client_id, head, setup.redrawn_maps
        self._frame, self._sharing = setup.frame, setup.sharing
        self._storage, self._n_outputs = setup.sheaf.map_storage, model.layout.n_outputs
        self.maps = self._stored(setup.map_starts)
        self._mixing, self._diffusion = setup.sheaf_mixing, setup.sheaf.diffusion
        self._trust_scale = setup.sheaf.edge_trust
        self._projected = head.new_zeros(self.maps.n_rows)
        self.relative_residual = 0.0
        self._residuals = EdgeResiduals()

    @property
    def kinds(self) -> frozenset[MessageKind]:
        return frozenset({MessageKind.PROJECTION})

    @property
    def stalk(self) -> Stalk:
        """The head as neighbors compare it; diffusion has mixing weights in the place of a coupling."""
        return Stalk(lambda: self._upright(self._head), lambda: self.maps, 0.0)

    def round_flops(self, round_index: int) -> float:
        """Operations of a round: one product with all maps projects, one pulls."""
        return 0.0 if self._sharing.is_over(round_index) else 2.0 * self.maps.product_flops

    def messages(self, phase: str, round_index: int) -> list[Message]:
        """The head's image on every edge, under maps of this round where they are redrawn."""
        if self._sharing.is_over(round_index):
            return []
        if self._redrawn is not None and round_index > 0:
            self.maps = self._stored(self._redrawn(round_index))
        self._projected = self.maps.project(self._upright(self._head))
        stacked = to_payload(self._projected)
        parts = {neighbor: stacked[rows] for neighbor, rows in self.maps.rows.items()}
        return to_neighbors(MessageKind.PROJECTION, self._client_id, parts, phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """One projection from every neighbor, until clients train on alone."""
        if self._sharing.is_over(round_index):
            return frozenset()
        return from_neighbors(MessageKind.PROJECTION, self.maps.rows, phase, round_index)

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Step towards the projections that arrived; the weight of all others stays with the own head.

        So does the part of a weight that `edge_trust` takes away; both ends take the same, so the mean of heads stays.
        """
        own, weights = self._projected, self._row_weights()
        peer, came = torch.zeros_like(own), torch.zeros_like(own)
        for message in arrived:  # copied first: a sum over a received buffer may depend on where in memory it lies
            rows = self.maps.rows[message.sender]
            peer[rows], came[rows] = arrived_values(message, rows.stop - rows.start, own)
            if self._trust_scale > 0.0:
                weights[rows] *= edge_trust(came[rows] * own[rows], peer[rows], self._trust_scale)
        residual, scale = came * (own - peer), float(came @ (own * own + peer * peer))
        self._residuals.note_rows(residual, {message.sender: self.maps.rows[message.sender] for message in arrived})
        self.relative_residual = float(residual @ residual) / scale if scale > 0.0 else 0.0
        # from the projections as they were sent: an update in between would break the symmetry of mixing
        self._head.sub_(self._upright(self.maps.pull(weights * residual)))

    def head_of(self, message: Message) -> Tensor | None:
        """[d_i] a neighbor's head with its rows in the order of the own ones, upright; None where a part was lost.

        Asked where maps only put heads in another order, or at another resolution, so that nothing is left out.
        """
        if message.received is not None:
            return None
        whole, came = torch.zeros_like(self._projected), torch.zeros_like(self._projected)
        rows = self.maps.rows[message.sender]
        whole[rows], came[rows] = to_tensor(message.payload, whole), 1.0
        # what a neighbor knows as one output is the same of all own ones that it is the mean of
        return self.maps.pull(whole) / self.maps.pull(came)

    def _upright(self, head: Tensor) -> Tensor:
        """A head, or what is added to one, as neighbors compare it; and back."""
        return head if self._frame is None else self._frame.upright(head)

    def figures(self) -> Figures:
        """Residual as a share, and its norm on every edge that was heard."""
        return {"relative_residual": self.relative_residual, **self._residuals.figures()}

    def state(self) -> State:
        """Maps and the projection last sent; the head belongs to the model."""
        return {
            "maps": self.maps.state(),
            "projected": to_array(self._projected),
            "relative_residual": self.relative_residual,
            **self._residuals.state(),
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("maps", "projected", "relative_residual", added=[RESIDUALS])
        self.maps.restore(parts["maps"])
        self._projected = restored_tensor(parts["projected"], self._projected)
        self.relative_residual = parts["relative_residual"].number()
        self._residuals.restore(parts)

    def _row_weights(self) -> Tensor:
        """[n_rows] share of the way to every neighbor that a round goes."""
        parts = [
            self._head.new_full((rows.stop - rows.start,), self._mixing[neighbor] * self._diffusion)
            for neighbor, rows in self.maps.rows.items()
        ]
        return torch.cat([self._head.new_zeros(0), *parts])

    def _stored(self, starts: Mapping[NodeId, MapStart]) -> RestrictionMaps:
        return stored_maps(self._storage, starts, self._head, self._n_outputs)
