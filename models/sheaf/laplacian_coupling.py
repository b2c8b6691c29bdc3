"""One client's side of a coupling without maps: neighbors send whole models, and pull at each other's.

The pull is sum_j (w_i - w_j) over the neighbors that were heard, coordinate by coordinate. A coordinate that did not
arrive does not pull.
Source: the Laplacian regularization of dFedU (Dinh et al. 2022), with all edge weights a_ij = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from ...emulator.contracts import Figures, Message, MessageKind, MessageSlot, NodeId, State
from ...emulator.saved_state import SavedState
from ..codecs.codec_table import CODECS
from ..settings import SharingSettings
from ..sharing.chained_learner import ChainPhase, FunctionExchange
from ..sharing.payload import from_neighbors, to_neighbors, to_payload, to_tensor
from ..state.tensors import restored_tensor, to_array
from .edge_residuals import RESIDUALS, EdgeResiduals
from .restriction_maps import FactoredMaps, RestrictionMaps
from .stability import UNSTABLE_FROM

SHARE = "share"


class LaplacianCoupling:
    """What the neighbors' models of the last exchange come to.

    Args:
        client_id: the sender of its messages.
        neighbors: whose models have the same layout.
        vector: [d] initial model.
        sharing: how models are sent; in rounds without an exchange the last models go on pulling.
        coupling: lambda.

    Attributes:
        relative_residual: sum over neighbors of |w_i - w_j|^2 as a share of |w_i|^2 + |w_j|^2, at the last exchange.
    """

    def __init__(
        self,
        client_id: NodeId,
        neighbors: Collection[NodeId],
        vector: Tensor,
        sharing: SharingSettings,
        coupling: float,
    ) -> None:
        self._client_id, self._neighbors, self._coupling = client_id, sorted(neighbors), coupling
        self._sharing, self._codec = sharing, CODECS[sharing.codec](to_payload(vector), sharing)
        self._sum = torch.zeros_like(vector)  # of the neighbors' models, 0 where nothing came
        self._count = torch.zeros_like(vector)  # of the neighbors that each coordinate came from
        self.relative_residual = 0.0
        self._residuals = EdgeResiduals()

    @property
    def maps(self) -> RestrictionMaps:
        """The identity for every neighbor, as maps."""
        like = self._sum
        every = torch.arange(len(like))
        return FactoredMaps(dict.fromkeys(self._neighbors, every), len(like), dtype=like.dtype, device=like.device)

    @property
    def pull_flops(self) -> float:
        """Floating-point operations of one `pull`."""
        return 2.0 * len(self._sum)

    def phases(self, vector: Callable[[], Tensor]) -> tuple[list[ChainPhase], list[ChainPhase]]:
        """One exchange before the local steps."""
        share = FunctionExchange(
            frozenset({MessageKind.MODEL}),
            lambda phase, round_index: self.models(phase, round_index, vector()),
            self.expected,
            lambda arrived: self.hold(arrived, vector()),
        )
        return [ChainPhase(SHARE, [share], in_round=self._sharing.in_round)], []

    def models(self, phase: str, round_index: int, vector: Tensor) -> list[Message]:
        """The own model to every neighbor."""
        if not self._neighbors:
            return []
        # encoded once for all neighbors: a codec with error feedback changes its state every time
        payload = self._codec.encode(to_payload(vector))
        parts = dict.fromkeys(self._neighbors, payload)
        return to_neighbors(MessageKind.MODEL, self._client_id, parts, phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """One model from every neighbor."""
        return from_neighbors(MessageKind.MODEL, self._neighbors, phase, round_index)

    def hold(self, arrived: Sequence[Message], vector: Tensor) -> None:
        """Hold the neighbors' models until the next exchange.

        Raises:
            DataError: a payload is not what a neighbor with the same settings sends.
        """
        self._sum.zero_()
        self._count.zero_()
        apart, scale = {}, 0.0
        for message in arrived:
            values, known = self._codec.decode(message.payload, message.received, len(vector))
            # copied first: a sum over a received buffer may depend on where in memory it lies
            peer, came = to_tensor(values, vector).clone(), torch.ones_like(vector)
            if known is not None:
                came = to_tensor(known, vector).to(vector.dtype)
                peer = torch.where(came > 0.0, peer, 0.0)  # a lost coordinate may hold anything
            self._sum += peer
            self._count += came
            apart[message.sender] = float((came * (vector - peer)).square().sum())
            scale += float(came @ vector.square() + peer @ peer)
        self.relative_residual = sum(apart.values()) / scale if scale > 0.0 else 0.0
        self._residuals.note({neighbor: math.sqrt(square) for neighbor, square in apart.items()})

    def pull(self, vector: Tensor) -> Tensor:
        """Sum over neighbors that were heard of w_i - w_j, [d]."""
        return self._count * vector - self._sum

    def held_pull(self) -> Callable[[Tensor], Tensor]:
        """`pull`, which reads little."""
        return self.pull

    def broken_bound(self, _vector: Tensor, step_size: float, field: str) -> str:
        """Whether the own step is beyond its limit, as a part of a sentence."""
        strength = step_size * self._coupling * float(self._count.max())
        if strength < UNSTABLE_FROM:
            return ""
        return f" with {field} * sheaf.coupling * number of neighbors = {strength:.3g} (stable below 2)"

    def figures(self) -> Figures:
        """Residual as a share, and |w_i - w_j| of every neighbor that was heard."""
        return {"relative_residual": self.relative_residual, **self._residuals.figures()}

    def state(self) -> State:
        """Models of the last exchange, and what the codec has left out."""
        return {
            "sum": to_array(self._sum),
            "count": to_array(self._count),
            "codec": self._codec.state(),
            "relative_residual": self.relative_residual,
            **self._residuals.state(),
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("sum", "count", "codec", "relative_residual", added=[RESIDUALS])
        self._sum = restored_tensor(parts["sum"], self._sum)
        self._count = restored_tensor(parts["count"], self._count)
        self._codec.restore(parts["codec"])
        self.relative_residual = parts["relative_residual"].number()
        self._residuals.restore(parts)
