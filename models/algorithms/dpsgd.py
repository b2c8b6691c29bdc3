"""Decentralised parallel SGD on whole models, which only neighbors with the same modalities can average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Learner, Message, MessageSlot, Modality, Phase, State
from ..client_setup import ClientSetup
from ..sharing.train_then_mix import MIX, TrainThenMix
from ..sharing.uncoupled import UncoupledModels
from ..sharing.vector_gossip import SharedVector, VectorGossip, shared_model
from ..state.state_fields import Saved, restore_or_leave, to_array


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
        self._before: list[Tensor] = []  # between `compute` and `absorb` only

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._models.flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        messages = self._gossip.messages(phase, round_index)
        self._before = [self._parameters(one).clone() for one in self._shared]
        self._models.train(round_index)
        return messages

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        parameters = [self._parameters(one) for one in self._shared]
        trained = [values.clone() for values in parameters]
        for values, before in zip(parameters, self._before, strict=True):
            values.copy_(before)
        self._gossip.absorb(arrived)
        for values, before, after in zip(parameters, self._before, trained, strict=True):
            values.copy_(after + (values - before))  # the same as W x - step(x), and exactly `after` for nobody heard
        self._before = []

    def _parameters(self, one: SharedVector) -> Tensor:
        """View of the trained part of a vector; what follows it are an encoder's running statistics."""
        n_trained = len(one.vector if one.modality is None else self._models.encoders[one.modality].trainable)
        return one.vector[:n_trained]

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()

    def state(self) -> State:
        before = [to_array(values) for values in self._before]
        return {"models": self._models.state(), "before": before, "gossip": self._gossip.state()}

    def restore(self, state: State) -> None:
        restore_or_leave(self, state)

    def resume(self, saved: Saved) -> None:
        """See `Stateful`."""
        parts = saved.parts("models", "before", "gossip")
        self._models.resume(parts["models"])
        self._gossip.resume(parts["gossip"])
        in_between = parts["before"].state != []
        likes = [self._parameters(one) for one in self._shared] if in_between else []
        before = parts["before"].listed(len(likes))
        self._before = [one.tensor(like) for one, like in zip(before, likes, strict=True)]


def _whole_model(setup: ClientSetup, models: UncoupledModels) -> list[SharedVector]:
    (name,) = setup.models
    personal = setup.training.personal_encoders
    return shared_model(setup.models[name], models.encoders, setup.group_mixing, personal=personal)
