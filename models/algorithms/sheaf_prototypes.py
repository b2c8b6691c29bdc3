"""Ours: Sheaf-DMFL-Att whose clients also draw what their heads read towards class means that neighbors agree on.

Coupled heads agree on little while the embeddings that they read differ from client to client; the class means (of the
fused embedding, over the last round's rows of a client and its neighbors) give all of them one place per class. Local
loss = loss + prototype_pull * squared distance of the fused embedding to the mean of its class, mean over rows and
features as in FedProto (Tan et al. 2022), which has a server and no coupling. The means travel with the encoders, one
vector per neighbor. A strong pull is also met by embeddings that shrink, and then slows learning.

Privacy: beside what Sheaf-DMFL sends, neighbors learn the class means of a client's embeddings and *how many of its
rows have which class*, which is the distribution of its labels. Classes are matched by their numbers, so clients that
number outputs in orders of their own would be drawn to the means of other classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Message, MessageKind, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..objectives import n_classes
from ..sharing.prototypes import Prototypes, prototype_messages, prototype_slots
from ..training.client_setup import ClientSetup
from ..training.minibatches import PassedBatch
from .sheaf_dmfl import MIX, SheafDmfl


class SheafPrototypes:
    """One client: Sheaf-DMFL-Att with a penalty, and messages of class means."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        (model,) = setup.models.values()
        layout = model.layout
        self._pull = setup.training.prototype_pull / layout.width
        self._neighbors = tuple(sorted(setup.head_mixing))
        self.prototypes = Prototypes(n_classes(setup.objective, layout.n_outputs), layout.width, like=model.head)
        self.sheaf = SheafDmfl(setup, self._penalty)
        self._parts = Parts(sheaf=self.sheaf.parts, prototypes=self.prototypes)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return self.sheaf.phases(round_index)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        if phase != MIX:
            return self.sheaf.compute(phase, round_index)
        self.prototypes.begin_round()
        messages = self.sheaf.compute(phase, round_index)
        means = prototype_messages(self.prototypes, self.client_id, self._neighbors, phase, round_index)
        return [*messages, *means]

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        slots = self.sheaf.expected(phase, round_index)
        if phase != MIX:
            return slots
        return slots | prototype_slots(self._neighbors, phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        means = [message.payload for message in arrived if message.kind is MessageKind.PROTOTYPES]
        self.sheaf.absorb(phase, round_index, [m for m in arrived if m.kind is not MessageKind.PROTOTYPES])
        if phase == MIX:
            self.prototypes.absorb(means)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self.sheaf.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self.sheaf.health()

    def state(self) -> State:
        return self._parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self._parts, state)

    def _penalty(self, passed: PassedBatch) -> Tensor:
        """Distance to the class means, [], while the rows are counted towards the next ones."""
        fused = passed.fused.unsqueeze(1)  # [batch, 1, width]
        self.prototypes.see(fused.detach(), passed.labels)
        return self._pull * self.prototypes.distance(fused, passed.labels)
