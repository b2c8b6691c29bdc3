"""Access of a base station to its learner: a phase is submitted, and its output collected later.

`LocalHost` computes in this process, `RemoteHost` (see `remote_host`) in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..contracts import Learner, Message, MessageSlot, NodeId, Phase, State
from .compute_pool import ComputePool

#: Learner and round -> fields of its observation at the end of that round.
Observe = Callable[[Learner, int], Mapping[str, Any]]


class PhaseInput(NamedTuple):
    """Messages of a phase that has ended on the clock, which the learner has yet to absorb."""

    phase: str
    round_index: int
    messages: Sequence[Message]


class PhaseOutput(NamedTuple):
    """Output of a phase: the messages that the learner sends, and the slots of those that it expects."""

    messages: Sequence[Message]
    expected: frozenset[MessageSlot]


class LearnerHost(Protocol):
    """A learner in this process or in another one. It gets one request at a time; the result may take real time.

    Attributes:
        client_id: id of the learner's client.
    """

    client_id: NodeId

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        """The phases of this round."""
        ...

    def compute(self, arrived: PhaseInput | None, phase: str, round_index: int) -> Future[PhaseOutput]:
        """Absorb the messages of the phase before, if any, then do the work of this phase."""
        ...

    def report(self, arrived: PhaseInput | None, round_index: int) -> Future[Mapping[str, Any]]:
        """Absorb the messages of the last phase, if any, then report on the round."""
        ...

    def state(self) -> Future[State]:
        """A copy of the learner's state."""
        ...

    def restore(self, state: State) -> Future[None]:
        """Let the learner go on from a state; raises what `Learner.restore` raises."""
        ...


class LocalHost:
    """`LearnerHost` of a learner in this process.

    Args:
        learner: the learner.
        pool: computes its work.
        observe: makes the fields of its observations; runs in the pool.
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
    """Work of a phase, in this process or in a worker: absorb, then compute."""
    _absorb(learner, arrived)
    messages = learner.compute(phase, round_index)
    return PhaseOutput(messages, learner.expected(phase, round_index))


def report_round(learner: Learner, observe: Observe, arrived: PhaseInput | None, round_index: int) -> Mapping[str, Any]:
    """Last work of a round, in this process or in a worker: absorb, then observe."""
    _absorb(learner, arrived)
    return observe(learner, round_index)


def _absorb(learner: Learner, arrived: PhaseInput | None) -> None:
    if arrived is not None:
        learner.absorb(arrived.phase, arrived.round_index, arrived.messages)
