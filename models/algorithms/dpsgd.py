"""Decentralised parallel SGD on whole models, which only neighbors with the same modalities can average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Learner, Message, MessageSlot, Modality, Phase
from ..client_setup import ClientSetup
from ..train_then_mix import MIX, TrainThenMix
from ..uncoupled import UncoupledModels
from ..vector_gossip import SharedVector, VectorGossip, shared_model


def dpsgd_adapt_then_combine(setup: ClientSetup) -> Learner:
    """The variant in which neighbors average what local steps made of their models: x <- W (x - step(x)).

    Source: adapt-then-combine diffusion (Chen and Sayed 2012), which most code named D-PSGD runs.
    """
    models = UncoupledModels(setup)
    return TrainThenMix(setup.client_id, models, {MIX: _whole_model(setup, models)})


class Dpsgd:
    """The variant as first published: neighbors average the models that they started from, x <- W x - step(x).

    Averaging does not wait for the gradient, so both can go on at the same time. Source: Lian et al. 2017, algorithm 1.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._models = UncoupledModels(setup)
        self._shared = _whole_model(setup, self._models)
        self._gossip = VectorGossip(setup.client_id, self._shared)
        self._steps = [one.vector.new_zeros(one.vector.shape) for one in self._shared]

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._models.flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        messages = self._gossip.messages(phase, round_index)
        before = [one.vector.clone() for one in self._shared]
        self._models.train(round_index)
        self._steps = [one.vector - start for one, start in zip(self._shared, before, strict=True)]
        return messages

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        for one, step in zip(self._shared, self._steps, strict=True):
            one.vector.sub_(step)
        self._gossip.absorb(arrived)
        for one, step in zip(self._shared, self._steps, strict=True):
            one.vector.add_(step)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()


def _whole_model(setup: ClientSetup, models: UncoupledModels) -> list[SharedVector]:
    (name,) = setup.models
    personal = setup.training.personal_encoders
    return shared_model(setup.models[name], models.encoders, setup.group_mixing, personal=personal)
