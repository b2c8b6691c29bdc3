"""The exchange of vectors with a server, as the two ends of it see it: one phase down, one phase up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...emulator.contracts import Message, MessageSlot, NodeId
from .chained_learner import FunctionExchange
from .vector_gossip import VectorGossip

#: Of the phase in which the server sends, and of the phase in which clients train and send.
BROADCAST, COLLECT = "broadcast", "collect"
#: Round -> the nodes at the other ends of that round's messages; empty: there are none.
Others = Callable[[int], Collection[NodeId]]


def sending(vectors: VectorGossip, receivers: Others) -> FunctionExchange:
    """The sending half: vectors go out to the receivers of the round, and nothing is expected."""
    return FunctionExchange(
        vectors.kinds,
        messages=lambda phase, round_index: vectors.messages(phase, round_index, receivers(round_index)),
        expected=lambda _phase, _round: frozenset(),
        absorb=lambda _arrived: None,
    )


def receiving(
    vectors: VectorGossip, senders: Others, absorb: Callable[[Sequence[Message]], None] | None = None
) -> FunctionExchange:
    """The receiving half: vectors of the senders of the round come in, and nothing is sent.

    Args:
        vectors: what they are combined with.
        senders: of a round.
        absorb: in place of that of the vectors, which it calls.
    """

    def expected(phase: str, round_index: int) -> frozenset[MessageSlot]:
        return vectors.expected(phase, round_index, senders(round_index))

    return FunctionExchange(vectors.kinds, lambda _phase, _round: (), expected, absorb or vectors.absorb)
