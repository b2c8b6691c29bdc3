"""A chain of exchanges by itself: order of work, messages of each exchange, phases of a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sheafedge.emulator.contracts import Learner, Message, MessageKind, MessageSlot, Phase
from sheafedge.emulator.saved_state import Parts
from sheafedge.models.sharing.chained_learner import ChainedLearner, ChainPhase, Exchange
from sheafedge.models.sharing.payload import from_neighbors, to_neighbors

NEIGHBORS = (2, 5)


@dataclass
class Noted:
    """An exchange that notes what is done with it."""

    kind: MessageKind
    log: list[str]
    arrived: list[Message] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[MessageKind]:
        return frozenset({self.kind})

    def messages(self, phase: str, round_index: int) -> list[Message]:
        self.log.append(f"sends {self.kind}")
        payloads = dict.fromkeys(NEIGHBORS, np.zeros(1, dtype=np.float32))
        return to_neighbors(self.kind, 0, payloads, phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return from_neighbors(self.kind, NEIGHBORS, phase, round_index)

    def absorb(self, arrived: Sequence[Message]) -> None:
        self.log.append(f"absorbs {self.kind}")
        self.arrived += arrived


def chained(log: list[str]) -> tuple[Learner, list[Noted]]:
    exchanges = [Noted(kind, log) for kind in (MessageKind.HEAD, MessageKind.ENCODER)]
    beside: Sequence[Exchange] = exchanges
    chain = [
        ChainPhase("first", in_round=lambda round_index: round_index == 0),
        ChainPhase(
            "mix",
            beside,
            work=lambda round_index: log.append(f"works in {round_index}"),
            finish=lambda _round_index: log.append("finishes"),
            flops=lambda: 7.0,
        ),
    ]
    return ChainedLearner(0, chain, Parts(), models=lambda _inputs: {}, figures=dict), exchanges


def test_work_comes_before_messages_and_the_finish_behind_all_that_is_absorbed() -> None:
    log: list[str] = []
    learner, _ = chained(log)
    learner.compute("mix", 4)
    learner.absorb("mix", 4, [])
    assert log == ["works in 4", "sends head", "sends encoder", "absorbs head", "absorbs encoder", "finishes"]


def test_every_exchange_gets_the_messages_of_its_kinds_and_no_others() -> None:
    learner, exchanges = chained([])
    sent = learner.compute("mix", 0)
    assert [(message.kind, message.receiver) for message in sent] == [
        (kind, neighbor) for kind in (MessageKind.HEAD, MessageKind.ENCODER) for neighbor in NEIGHBORS
    ]
    learner.absorb("mix", 0, list(reversed(sent)))
    for exchange in exchanges:
        assert [message.kind for message in exchange.arrived] == [exchange.kind] * 2
        assert [message.receiver for message in exchange.arrived] == [5, 2]  # in the order in which they arrived


def test_slots_of_a_phase_are_those_of_all_its_exchanges() -> None:
    learner, exchanges = chained([])
    assert learner.expected("mix", 3) == exchanges[0].expected("mix", 3) | exchanges[1].expected("mix", 3)
    assert learner.expected("first", 0) == frozenset()


def test_a_round_has_the_phases_that_belong_to_it() -> None:
    learner, _ = chained([])
    assert learner.phases(0) == (Phase("first"), Phase("mix", 7.0))
    assert learner.phases(1) == (Phase("mix", 7.0),)
