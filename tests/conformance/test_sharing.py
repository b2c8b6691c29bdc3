"""What every algorithm owes a user who asks for fewer bits: all that is averaged obeys, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from doubles.table_rows import rows
from integration.tiny import Walk, state_of, tiny, walk, wired
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.counters import KindTraffic
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from torch import Tensor

N_ROUNDS = 2  # one without and one with an exchange, where every second has one
AVERAGED = {
    MessageKind.ENCODER, MessageKind.HEAD, MessageKind.ATTENTION, MessageKind.CLASSIFIER, MessageKind.FACTORS
}  # fmt: skip
SHARING = [name for name, algorithm in ALGORITHMS.items() if algorithm.kinds & AVERAGED]
LOSSY = {"link.loss_probability": 0.3, "link.retry_limit": 0}

#: Payload bytes of a vector that takes n bytes whole.
FORMULAS = {
    "float16": lambda n: n // 2,
    "int8": lambda n: 8 * -(-(n // 4) // 7),
    "top_k": lambda n: 8 * max(1, round(0.1 * (n // 4))),
}


def rounds(walked: Walk) -> Iterator[list[Message]]:
    """Messages of each round, all of which arrive; everybody expects just these."""
    learners = walked.emulation.learners
    for round_index in range(N_ROUNDS):
        of_round: list[Message] = []
        for phase in learners[0].phases(round_index):
            sent = [message for learner in learners for message in learner.compute(phase.name, round_index)]
            for learner in learners:
                mine = [message for message in sent if message.receiver == learner.client_id]
                assert learner.expected(phase.name, round_index) == {message.slot for message in mine}
                learner.absorb(
                    phase.name, round_index, sorted(mine, key=lambda m: (m.sender, m.kind, m.modality or ""))
                )
            of_round += sent
        yield of_round


@dataclass(frozen=True)
class Played:
    """Messages round by round, and all that all clients learned, before and after."""

    sent: list[list[Message]]
    start: dict[str, Tensor]
    end: dict[str, Tensor]


@cache
def played(algorithm: str, codec: str = "float32", every: int = 1) -> Played:
    walked = wired(tiny({"algorithm": algorithm, "sharing.codec": codec, "sharing.every": every}))
    start = states(walked)
    sent = list(rounds(walked))
    return Played(sent, start, states(walked))


def states(walked: Walk) -> dict[str, Tensor]:
    return {
        f"{learner.client_id} {name}": values.clone()
        for learner in walked.emulation.learners
        for name, values in state_of(walked.emulation, learner).items()
    }


@pytest.mark.parametrize("codec", FORMULAS)
@pytest.mark.parametrize("algorithm", rows(SHARING))
def test_all_that_is_averaged_is_sent_in_fewer_bits_and_all_else_as_before(algorithm: str, codec: str) -> None:
    whole, few = (dict(enumerate(played(algorithm, which).sent)) for which in ("float32", codec))
    for round_index, messages in whole.items():
        assert len(messages) == len(few[round_index])
        for one, other in zip(messages, few[round_index], strict=True):
            assert (one.slot, one.receiver) == (other.slot, other.receiver)
            shared = one.kind in AVERAGED
            expected = FORMULAS[codec](one.payload.nbytes) if shared else one.payload.nbytes
            assert other.payload.nbytes == expected
            assert other.payload.dtype.str == ({"float16": "<f2"}.get(codec, "<u8") if shared else "<f4")


@pytest.mark.parametrize("codec", FORMULAS)
@pytest.mark.parametrize("algorithm", rows(SHARING))
def test_models_end_close_to_those_of_whole_messages_and_not_at_them(algorithm: str, codec: str) -> None:
    begun, whole, few = played(algorithm).start, played(algorithm).end, played(algorithm, codec).end
    moved = sum(float((whole[name] - begun[name]).square().sum()) for name in whole)
    apart = sum(float((whole[name] - few[name]).square().sum()) for name in whole)
    assert all(bool(torch.isfinite(values).all()) for values in few.values())
    assert 0.0 < apart < moved


@pytest.mark.parametrize("algorithm", rows(SHARING))
def test_in_rounds_between_exchanges_only_what_is_not_averaged_is_sent(algorithm: str) -> None:
    always, seldom = played(algorithm).sent, played(algorithm, every=2).sent
    for round_index in range(N_ROUNDS):
        # two rounds of an exchange with a server: one opens it, the other closes it
        absent = "collect" if round_index % 2 == 0 else "broadcast"
        shared = [m.slot for m in always[round_index] if m.kind in AVERAGED and m.phase != absent]
        shared = shared if ALGORITHMS[algorithm].server or round_index % 2 else []
        others = [m.slot for m in always[round_index] if m.kind not in AVERAGED]
        sent = seldom[round_index]
        assert [m.slot for m in sent if m.kind in AVERAGED] == shared
        assert [m.slot for m in sent if m.kind not in AVERAGED] == others


@pytest.mark.parametrize("missing", ["skip", "stale"])
@pytest.mark.parametrize("codec", FORMULAS)
def test_all_transports_give_the_same_run_over_lossy_links(codec: str, missing: str) -> None:
    if (codec, missing) == ("top_k", "stale"):
        return  # refused
    edits = {**LOSSY, "network.missing": missing, "sharing.codec": codec}
    runs = [walk(tiny({**edits, "network.transport": transport})) for transport in ("memory", "zmq")]
    assert runs[0].emulation.recorder.traffic.partial_messages > 0
    assert runs[0].trace_hash == runs[1].trace_hash
    assert runs[0].trace_hash != walk(tiny({**LOSSY, "network.missing": missing})).trace_hash
    assert all(np.isfinite(list(losses.values())).all() for losses in runs[0].losses)


def test_the_recorder_counts_the_bytes_that_were_spared() -> None:
    def encoders(**edits: Any) -> KindTraffic:
        return walk(tiny(edits)).emulation.recorder.traffic.by_kind["encoder"]

    payloads = 3 * [m.payload.nbytes for m in played("sheaf_dmfl_att").sent[0] if m.modality]
    whole, few, seldom = encoders(), encoders(**{"sharing.codec": "int8"}), encoders(**{"sharing.every": 3})
    assert whole.messages == few.messages == 3 * seldom.messages == len(payloads)
    assert whole.bytes - few.bytes == sum(n - FORMULAS["int8"](n) for n in payloads)
    assert whole.bytes == 3 * seldom.bytes
