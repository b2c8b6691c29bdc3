"""Where a learner lives and works, as its base station sees it: it asks for a turn, and collects what the turn left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..contracts import Learner, Message, MessageSlot, NodeId, Phase, State
from .compute_pool import ComputePool

#: Looks at a learner at the end of a round, told which.
Observe = Callable[[Learner, int], Mapping[str, Any]]


class PhaseInput(NamedTuple):
    """A phase that has ended on the clock, and whose messages the learner has yet to absorb."""

    phase: str
    round_index: int
    messages: Sequence[Message]


class PhaseOutput(NamedTuple):
    """What a learner's turn left: the messages that it sends, and what it would like to hear in this phase."""

    messages: Sequence[Message]
    expected: frozenset[MessageSlot]


class LearnerHost(Protocol):
    """A learner in this process or in another one. Asked for one thing at a time; the answer may take real time.

    Attributes:
        client_id: whose learner it is.
    """

    client_id: NodeId

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        """The phases of this round."""
        ...

    def compute(self, arrived: PhaseInput | None, phase: str, round_index: int) -> Future[PhaseOutput]:
        """Absorb what has arrived, if anything, then do the work of this phase."""
        ...

    def report(self, arrived: PhaseInput | None, round_index: int) -> Future[Mapping[str, Any]]:
        """Absorb what has arrived, if anything, then report on the round."""
        ...

    def state(self) -> Future[State]:
        """A copy of all that the learner remembers."""
        ...

    def restore(self, state: State) -> Future[None]:
        """Let the learner go on from a state; raises what `Learner.restore` raises."""
        ...


class LocalHost:
    """A learner in this process.

    Args:
        learner: the learner.
        pool: does its work.
        observe: reports on it; runs in the pool.
    """

    def __init__(self, learner: Learner, pool: ComputePool, observe: Observe) -> None:
        self.client_id = learner.client_id
        self._learner, self._pool, self._observe = learner, pool, observe

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return self._learner.phases(round_index)

    def compute(self, arrived: PhaseInput | None, phase: str, round_index: int) -> Future[PhaseOutput]:
        return self._pool.submit(partial(compute_phase, self._learner, arrived, phase, round_index))

    def report(self, arrived: PhaseInput | None, round_index: int) -> Future[Mapping[str, Any]]:
        return self._pool.submit(partial(report_round, self._learner, self._observe, arrived, round_index))

    def state(self) -> Future[State]:
        return self._pool.submit(self._learner.state)

    def restore(self, state: State) -> Future[None]:
        return self._pool.submit(partial(self._learner.restore, state))


def compute_phase(learner: Learner, arrived: PhaseInput | None, phase: str, round_index: int) -> PhaseOutput:
    """The work itself, wherever it is done."""
    _absorb(learner, arrived)
    messages = learner.compute(phase, round_index)
    return PhaseOutput(messages, learner.expected(phase, round_index))


def report_round(learner: Learner, observe: Observe, arrived: PhaseInput | None, round_index: int) -> Mapping[str, Any]:
    """The last work of a round, wherever it is done."""
    _absorb(learner, arrived)
    return observe(learner, round_index)


def _absorb(learner: Learner, arrived: PhaseInput | None) -> None:
    if arrived is not None:
        learner.absorb(arrived.phase, arrived.round_index, arrived.messages)
