"""Ours: every client trains a shared and an own model, and learns from rows kept aside how much to trust each.

The shared twin is trained by sheaf diffusion, the own twin by nobody else. How much of the coupling a client wants is
so decided where it shows, in its answers, and per client: whoever gains from the neighbors listens to them, whoever
loses answers alone. It costs a second model; messages are those of sheaf diffusion. After half of the rounds the choice
stands, and both twins train on the rows that were kept aside too.
Related: mixtures of local and federated models (Deng et al. 2020, APFL), which have a server and mix parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..sharing.uncoupled import UncoupledModels
from ..training.client_setup import ClientSetup
from ..training.local_training import predict
from ..training.minibatches import class_weights
from ..training.training_rows import PartlyPrivateRows
from ..twin_model import blended
from .sheaf_diffusion import SheafDiffusion


class SheafTwin:
    """One client with its twins."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        (self._name,) = setup.models
        assert setup.twin is not None
        assert setup.private is not None
        self._twin, self._rows = setup.twin, PartlyPrivateRows(setup.rows, setup.private)
        self._private_rounds = setup.private_rounds
        own = setup.twin.own
        setup = replace(setup, rows=self._rows)
        draws = setup.batch_draws[self._name]
        self._own = UncoupledModels(replace(setup, models={"own": own}, batch_draws={"own": draws.spawn(1)[0]}))
        self.shared = SheafDiffusion(setup)
        self._objective, self._balanced = setup.objective, setup.training.class_weights == "balanced"
        self._parts = Parts(shared=self.shared.parts, own=self._own, weighed=self._twin, released=self._rows)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return tuple(Phase(phase.name, phase.flops + self._own.flops) for phase in self.shared.phases(round_index))

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        if round_index >= self._private_rounds:  # a client may have missed the round itself
            self._rows.release()
        self._own.train(round_index)
        return self.shared.compute(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self.shared.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self.shared.absorb(phase, round_index, arrived)
        if not self._rows.released:
            self._choose()

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        twin = self._twin
        shared, own = (torch.from_numpy(predict(model, inputs)) for model in (twin.shared, twin.own))
        return {self._name: blended(shared, own, twin.share.cpu(), twin.temperatures.cpu()).numpy()}

    def health(self) -> Mapping[str, float]:
        return {**self.shared.health(), "own_loss": self._own.health()["loss"], "share": float(self._twin.share)}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self._parts, state)

    def _choose(self) -> None:
        """Weigh the twins as they are now."""
        label = self._rows.private.label
        inputs, labels = self._rows.private.inputs(np.arange(len(label))), torch.from_numpy(label)
        shared, own = (torch.from_numpy(predict(model, inputs)) for model in (self._twin.shared, self._twin.own))
        weights = class_weights(label, self._objective, shared) if self._balanced else None
        self._twin.choose_share(shared, own, lambda logits: self._objective(logits, labels, weights))
