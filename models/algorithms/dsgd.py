"""Decentralised SGD per modality: unimodal models whose encoders are averaged; nothing crosses modalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, Phase
from ..client_setup import ClientSetup
from ..encoder_gossip import EncoderGossip
from ..local_training import LocalTraining
from .local import train_alone

MIX = "mix"


class Dsgd:
    """One unimodal model per modality; a client reports its best modality.

    Source: the DSGD baseline of Ghalkha et al. 2025, whose text averages encoders only; heads stay personal.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._settings = setup.training
        self._trainings = {
            name: LocalTraining(setup.client_id, model, setup.rows, setup.training, setup.batch_draws[name])
            for name, model in setup.models.items()
        }
        encoders = {m: flat for training in self._trainings.values() for m, flat in training.encoders.items()}
        self._gossip = EncoderGossip(setup.client_id, encoders, setup.mixing)
        self._flops = setup.training.local_steps * sum(t.flops_per_step for t in self._trainings.values())

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        train_alone(tuple(self._trainings.values()), self._settings.local_steps, round_index)
        return self._gossip.messages(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._gossip.absorb(arrived)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return {name: training.predict(inputs) for name, training in self._trainings.items()}

    def health(self) -> Mapping[str, float]:
        return {"loss": float(np.mean([training.loss for training in self._trainings.values()]))}
