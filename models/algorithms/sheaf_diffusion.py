"""Ours: heads diffuse along the sheaf once per round, with mixing weights, instead of being pulled in every local step.

Each client moves its head by sum_j m_ij P_ij^T (P_ij w_i - P_ji w_j), with m_ij the Metropolis-Hastings weights of the
whole graph. Where all maps are the identity this *is* head averaging; where heads have different sizes, or outputs in
another order, only what the maps make comparable is averaged. Against (11) it needs one exchange instead of two, in the
same phase as the encoders, and no step size: it contracts for any coupling up to 1 while |P| <= 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageKind, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..sharing.uncoupled import UncoupledModels
from ..sharing.vector_gossip import VectorGossip, shared_encoders
from ..sheaf.head_diffusion import HeadDiffusion
from ..training.client_setup import ClientSetup

MIX = "mix"


class SheafDiffusion:
    """One client: local steps, then encoders and heads are mixed together."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._models = UncoupledModels(setup)
        (name,) = setup.models
        self._gossip = VectorGossip(
            setup.client_id, shared_encoders(self._models.encoders, setup.mixing), setup.sharing
        )
        self.diffusion = HeadDiffusion(setup, setup.models[name].head.data)
        self.parts = Parts(models=self._models, diffusion=self.diffusion, gossip=self._gossip)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._models.flops + 2.0 * self.diffusion.product_flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self._models.train(round_index)
        return self._gossip.messages(phase, round_index) + self.diffusion.messages(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index) | self.diffusion.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._gossip.absorb(arrived)
        self.diffusion.absorb([message for message in arrived if message.kind is MessageKind.PROJECTION])

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return {**self._models.health(), "relative_residual": self.diffusion.relative_residual}

    def state(self) -> State:
        return self.parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self.parts, state)
