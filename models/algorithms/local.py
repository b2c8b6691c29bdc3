"""Stand-alone training: no message ever leaves the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, Phase
from ..client_setup import ClientSetup
from ..uncoupled import UncoupledModels

TRAIN = "train"


class Local:
    """Every client for itself, with the models it was given (fused, or one per modality)."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._models = UncoupledModels(setup)

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(TRAIN, self._models.flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self._models.train(round_index)
        return ()

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return frozenset()

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        """Nothing ever arrives."""

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return self._models.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._models.health()
