"""The chain of a local rule and averages: when the rule works, and when it is told of an exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sheafedge.emulator.contracts import Message, MessageKind, State
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.settings import SharingSettings, SheafSettings, TrainingSettings
from sheafedge.models.sharing.chained_learner import Inputs, Logits
from sheafedge.models.sharing.train_then_mix import train_then_mix
from sheafedge.models.sharing.vector_gossip import SharedVector, Weights
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory

SETUP = ClientSetup(
    client_id=0,
    group="all",
    models={},
    rows=RowsInMemory({}, np.zeros(0, dtype=np.int64)),
    objective=lambda logits, _labels, _weights: logits.mean(),
    batch_draws={},
    training=TrainingSettings(),
    sheaf=SheafSettings(),
)


class Noting:
    """A local rule that notes what is asked of it, and its vector at that instant."""

    flops = 7.0

    def __init__(self) -> None:
        self.head, self.log = torch.zeros(1), list[str]()

    def shared(self, weights: Weights) -> list[SharedVector]:
        return [SharedVector(MessageKind.HEAD, None, self.head, weights.rest)]

    def train(self, round_index: int) -> None:
        self.head += 1.0
        self.log.append(f"trains in {round_index}")

    def received(self) -> None:
        self.log.append(f"received {self.head.item():g}")

    def predict(self, inputs: Inputs) -> Logits:
        return {}

    def health(self) -> Mapping[str, float]:
        return {"loss": 0.0}

    def state(self) -> State:
        return {}

    def restore(self, saved: SavedState) -> None:
        saved.parts()


def played(every: int, arrives: bool) -> list[str]:
    """What the rule was asked in two rounds, in which the neighbor's head is 5."""
    rule = Noting()
    setup = replace(SETUP, sharing=SharingSettings(every=every))
    learner = train_then_mix(setup, rule, {"first": rule.shared(Weights({}, {1: 0.5})), "second": ()})
    for round_index in range(2):
        assert [phase.flops for phase in learner.phases(round_index)] == [7.0, 0.0]
        for phase in ("first", "second"):
            learner.compute(phase, round_index)
            head = Message(MessageKind.HEAD, 1, 0, round_index, phase, np.float32([5.0]))
            learner.absorb(phase, round_index, [head] if arrives and learner.expected(phase, round_index) else [])
    return rule.log


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "after the last phase": (
        {"every": 1, "arrives": True},
        ["trains in 0", "received 3", "trains in 1", "received 4.5"],
    ),
    "also when all is lost": (
        {"every": 1, "arrives": False},
        ["trains in 0", "received 1", "trains in 1", "received 2"],
    ),
    "not without an exchange": ({"every": 2, "arrives": True}, ["trains in 0", "trains in 1", "received 3.5"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule_is_told_of_every_exchange(case: str) -> None:
    arguments, log = CASES[case]
    assert played(**arguments) == log
