"""Decentralised SGD per modality: unimodal models whose encoders are averaged; nothing crosses modalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, Phase
from ..client_setup import ClientSetup
from ..encoder_gossip import EncoderGossip
from ..uncoupled import UncoupledModels

MIX = "mix"


class Dsgd:
    """One unimodal model per modality; a client reports its best modality.

    Source: the DSGD baseline of Ghalkha et al. 2025, whose text averages encoders only; heads stay personal.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._models = UncoupledModels(setup)
        self._gossip = EncoderGossip(setup.client_id, self._models.encoders, setup.mixing)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._models.flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self._models.train(round_index)
        return self._gossip.messages(phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._gossip.absorb(arrived)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()
