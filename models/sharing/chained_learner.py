"""A learner as a chain of exchanges: local work, messages to neighbors, use of what arrived, phase by phase.

An algorithm lists what its clients exchange; the calls of `Learner` are answered here, once for all of them. As optax
chains transformations of gradients, each with a state of its own, exchanges stand side by side and know nothing of each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Figures, Message, MessageKind, MessageSlot, Modality, NodeId, Phase, State
from ...emulator.saved_state import Stateful, restore_whole
from ..sheaf.stalk import Stalk
from .vector_gossip import SharedVector

#: Modality -> [n, ...] inputs of rows in physical units.
Inputs = Mapping[Modality, NDArray[np.floating[Any]]]
#: Name of a model -> [n, n_outputs] its logits.
Logits = Mapping[str, NDArray[np.floating[Any]]]


class Exchange(Protocol):
    """One vector, or several of a kind, that a client sends to its neighbors and gets from them in a phase."""

    @property
    def kinds(self) -> frozenset[MessageKind]:
        """Kinds of its messages; no other exchange of the same phase has them."""
        ...

    def messages(self, phase: str, round_index: int, /) -> Sequence[Message]:
        """Messages to send, computed from the client's state after the local work of the phase."""
        ...

    def expected(self, phase: str, round_index: int, /) -> frozenset[MessageSlot]:
        """Slots of the messages that neighbors send."""
        ...

    def absorb(self, arrived: Sequence[Message], /) -> None:
        """Use messages of its kinds, ordered by slot; those that are missing are not among them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FunctionExchange:
    """An exchange made of functions, for objects that send messages of several kinds; see `Exchange`."""

    kinds: frozenset[MessageKind]
    messages: Callable[[str, int], Sequence[Message]]
    expected: Callable[[str, int], frozenset[MessageSlot]]
    absorb: Callable[[Sequence[Message]], None]


def _no_work(_round_index: int) -> None:
    """A phase without local work."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainPhase:
    """One phase of a round: local work, then exchanges side by side.

    Attributes:
        name: unique inside a round.
        exchanges: in the order of their messages.
        work: done before messages are computed, given the round.
        finish: done when everything was absorbed, given the round.
        flops: floating-point operations of the phase in the next round.
        more_flops: those that only some rounds have, given the round.
        in_round: whether a round has this phase.
        active: whether the client works in it in a round; else it neither works nor finishes, and spends nothing.
    """

    name: str
    exchanges: Sequence[Exchange] = ()
    work: Callable[[int], None] = _no_work
    finish: Callable[[int], None] = _no_work
    flops: Callable[[], float] = lambda: 0.0
    more_flops: Callable[[int], float] = lambda _round_index: 0.0
    in_round: Callable[[int], bool] = lambda _round_index: True
    active: Callable[[int], bool] = lambda _round_index: True


@dataclass(slots=True, eq=False)
class ChainedLearner:
    """The `Learner` that plays a chain of phases.

    >>> from sheafedge.emulator.saved_state import Parts
    >>> train = ChainPhase("mix", work=lambda round_index: print("trained in round", round_index))
    >>> learner = ChainedLearner(0, [train], Parts(), models=lambda inputs: {}, figures=dict)
    >>> learner.compute("mix", 3)
    trained in round 3
    []

    Attributes:
        client_id: node id of the client.
        chain: phases, in the order in which a round has them.
        parts: all that changes from call to call, by name; its state is that of the learner.
        models: answers `Learner.predict`.
        figures: answers `Learner.health`.
        shared: phase -> vectors averaged there, of learners that do nothing else but train before the first phase, so
            that a client that is trained elsewhere can take their place; None for all others.
        stalk: what neighbors see through maps; None: there are no maps.
    """

    client_id: NodeId
    chain: Sequence[ChainPhase]
    parts: Stateful
    models: Callable[[Inputs], Logits]
    figures: Callable[[], Figures]
    shared: Mapping[str, Sequence[SharedVector]] | None = None
    stalk: Stalk | None = None

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return tuple(
            Phase(phase.name, phase.flops() + phase.more_flops(round_index) if phase.active(round_index) else 0.0)
            for phase in self.chain
            if phase.in_round(round_index)
        )

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        played = self._named(phase)
        if played.active(round_index):
            played.work(round_index)
        return [message for exchange in played.exchanges for message in exchange.messages(phase, round_index)]

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        slots = (exchange.expected(phase, round_index) for exchange in self._named(phase).exchanges)
        return frozenset().union(*slots)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        played = self._named(phase)
        for exchange in played.exchanges:
            # by kind and not by slot: a stale message keeps the round of its sender
            exchange.absorb([message for message in arrived if message.kind in exchange.kinds])
        if played.active(round_index):
            played.finish(round_index)

    def predict(self, inputs: Inputs) -> Logits:
        return self.models(inputs)

    def health(self) -> Figures:
        return self.figures()

    def state(self) -> State:
        return self.parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self.parts, state)

    def _named(self, name: str) -> ChainPhase:
        return next(phase for phase in self.chain if phase.name == name)
