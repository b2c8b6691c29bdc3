"""The learner that most baselines are: local training, then averages with neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, NodeId, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..settings import SharingSettings
from .uncoupled import UncoupledModels
from .vector_gossip import SharedVector, VectorGossip

MIX = "mix"


class TrainThenMix:
    """Adapt, then combine: a round of local steps, then each phase averages its vectors.

    Args:
        client_id: of the learner.
        models: what it trains, in the first phase.
        shared: phase -> what it averages there, in this order; training alone is a phase that shares nothing.
        sharing: how often and in how many bits.
    """

    def __init__(
        self,
        client_id: NodeId,
        models: UncoupledModels,
        shared: Mapping[str, Sequence[SharedVector]],
        sharing: SharingSettings,
    ) -> None:
        self.client_id = client_id
        self._models = models
        self._gossip = {phase: VectorGossip(client_id, vectors, sharing) for phase, vectors in shared.items()}
        self._first = next(iter(shared))
        self._parts = Parts(models=models, gossip=Parts(**self._gossip))

    @property
    def shared(self) -> Mapping[str, Sequence[SharedVector]]:
        """Phase -> what it averages there; all that is asked of a client that is trained elsewhere."""
        return {phase: gossip.shared for phase, gossip in self._gossip.items()}

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return tuple(Phase(phase, self._models.flops if phase == self._first else 0.0) for phase in self._gossip)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        if phase == self._first:
            self._models.train(round_index)
        return self._gossip[phase].messages(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip[phase].expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._gossip[phase].absorb(arrived)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()

    def state(self) -> State:
        return self._parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self._parts, state)
