"""Decentralised parallel SGD on whole models, which only neighbors with the same modalities can average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Learner, Message, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, SavedState, restore_whole
from ..sharing.train_then_mix import MIX, TrainThenMix
from ..sharing.uncoupled import UncoupledModels
from ..sharing.vector_gossip import SharedVector, VectorGossip, shared_model
from ..state.tensors import restored_tensor, to_array
from ..training.client_setup import ClientSetup


def dpsgd_adapt_then_combine(setup: ClientSetup) -> Learner:
    """The variant in which neighbors average what local steps made of their models: x <- W (x - step(x)).

    Source: adapt-then-combine diffusion (Chen and Sayed 2012), which most code named D-PSGD runs.
    """
    models = UncoupledModels(setup)
    return TrainThenMix(setup.client_id, models, {MIX: _whole_model(setup, models)}, setup.sharing)


class Dpsgd:
    """The variant as first published: neighbors average the models that they started from, x <- W x - step(x).

    Averaging does not wait for the gradient, so both can go on at the same time. Running statistics are no variables of
    SGD: neighbors' old ones are averaged with the own new ones, because a step taken off an average smaller than its
    start could leave a negative variance. Source: Lian et al. 2017, algorithm 1.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._models = UncoupledModels(setup)
        self._shared = _whole_model(setup, self._models)
        self._gossip = VectorGossip(setup.client_id, self._shared, setup.sharing)
        self._parameters = [self._trained_part(one) for one in self._shared]
        self._start = _Start(self._parameters)
        self._parts = Parts(models=self._models, before=self._start, gossip=self._gossip)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._models.flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        messages = self._gossip.messages(phase, round_index)
        self._start.values = [values.clone() for values in self._parameters]
        self._models.train(round_index)
        return messages

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        parameters, start = self._parameters, self._start.values
        trained = [values.clone() for values in parameters]
        for values, before in zip(parameters, start, strict=True):
            values.copy_(before)
        self._gossip.absorb(arrived)
        for values, before, after in zip(parameters, start, trained, strict=True):
            values.copy_(after + (values - before))  # the same as W x - step(x), and exactly `after` where none arrived
        self._start.values = []

    def _trained_part(self, one: SharedVector) -> Tensor:
        """View of the trained part of a vector; what follows it are an encoder's running statistics."""
        n_trained = len(one.vector if one.modality is None else self._models.encoders[one.modality].trainable)
        return one.vector[:n_trained]

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()

    def state(self) -> State:
        return self._parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self._parts, state)


class _Start:
    """Parameters that a round started from, held between `compute` and `absorb` only.

    Args:
        parameters: views of the trained parts of shared vectors.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self.values: list[Tensor] = []

    def state(self) -> State:
        return [to_array(values) for values in self.values]

    def restore(self, saved: SavedState) -> None:
        likes = self._parameters if saved.state != [] else []
        self.values = [restored_tensor(one, like) for one, like in zip(saved.listed(len(likes)), likes, strict=True)]


def _whole_model(setup: ClientSetup, models: UncoupledModels) -> list[SharedVector]:
    (name,) = setup.models
    personal = setup.training.personal_encoders
    return shared_model(setup.models[name], models.encoders, setup.group_mixing, personal=personal)
