"""Sheaf-DMFL and Sheaf-DMFL-Att: averaged encoders, personal heads coupled through learned restriction maps.

One round, with the letters of the paper's Algorithm 1 (Ghalkha et al. 2025):

    project     B  send P^r w^r, hold what the neighbors send
    mix         A  one backward pass, C encoders (15) and attention (17), E head (11); S times
                D  send the encoders, average those that arrive (6)
    reproject   F  send P^r w^{r+1};  G  step the maps (12)

The head step comes before the averaging of encoders because its gradient is the one of the single backward pass at the
old parameters; with S = 1 this is the paper's round exactly. With S > 1 the neighbors' projections are held.
The two variants differ only in the fusion of the model they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Message, MessageKind, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..sharing.vector_gossip import VectorGossip, shared_encoders
from ..sheaf.coupling_health import finite
from ..sheaf.equations import head_step
from ..sheaf.head_coupling import HeadCoupling
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining
from ..training.minibatches import PassedBatch

PROJECT, MIX, REPROJECT = "project", "mix", "reproject"


class SheafDmfl:
    """One client of Sheaf-DMFL(-Att).

    Args:
        setup: of the client.
        penalty: what a minibatch costs beyond its loss, for algorithms that build on this one.
    """

    def __init__(self, setup: ClientSetup, penalty: Callable[[PassedBatch], Tensor] | None = None) -> None:
        self.client_id = setup.client_id
        self._settings, self._sheaf = setup.training, setup.sheaf
        (name,) = setup.models
        self.training = LocalTraining(
            setup.client_id,
            setup.models[name],
            setup.rows,
            setup.objective,
            setup.training,
            setup.batch_draws[name],
            penalty,
        )
        self._name = name
        self._gossip = VectorGossip(
            setup.client_id, shared_encoders(self.training.encoders, setup.mixing), setup.sharing
        )
        starts = setup.map_starts if setup.sheaf.coupling > 0.0 else {}
        self.coupling = HeadCoupling(
            setup.client_id,
            starts,
            self.training.head,
            setup.sheaf,
            n_outputs=setup.models[name].layout.n_outputs,
            redrawn=setup.redrawn_maps,
        )
        self.parts = Parts(training=self.training, coupling=self.coupling, gossip=self._gossip)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        sheaf = self._sheaf
        product = self.coupling.maps.product_flops
        mix = Phase(MIX, self._settings.local_steps * (self.training.flops_per_step + 2.0 * product))
        if sheaf.coupling == 0.0:
            return (mix,)
        project, reproject = Phase(PROJECT, product), Phase(REPROJECT, product)
        if not sheaf.learns_maps:
            return (project, mix)
        if sheaf.exchange == "single" and round_index > 0:
            return (mix, reproject)
        return (project, mix, reproject)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        if phase == PROJECT:
            return self.coupling.projections(phase, round_index, self.training.head)
        if phase == REPROJECT:
            return self.coupling.reprojections(phase, round_index, self.training.head)
        self._train(round_index)
        return self._gossip.messages(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        if phase == MIX:
            return self._gossip.expected(phase, round_index)
        kind = MessageKind.PROJECTION if phase == PROJECT else MessageKind.REPROJECTION
        return self.coupling.expected(kind, phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        if phase == PROJECT:
            self.coupling.hear(arrived)
        elif phase == MIX:
            self._gossip.absorb(arrived)
        else:
            self.coupling.step_maps(arrived, self.training.head)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return {self._name: self.training.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        coupling = self.coupling
        return {
            "loss": self.training.loss,
            "relative_residual": finite(coupling.relative_residual),
            **coupling.health.figures(),
        }

    def state(self) -> State:
        return self.parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self.parts, state)

    def _train(self, round_index: int) -> None:
        """S times: backward at the current parameters, then encoders, attention and head from those gradients."""
        training = self.training
        for _ in range(self._settings.local_steps):
            loss = training.backward()
            head = head_step(
                training.head,
                training.head_gradient,
                self.coupling.pull(training.head),
                step_size=self._settings.head_step_size,
                coupling=self._sheaf.coupling,
            )
            training.step_encoders()
            training.step_attention()
            training.set_head(head)
        alpha = self._settings.head_step_size
        training.check_finite(loss, round_index, lambda: self.coupling.broken_bound(training.head, alpha))
