"""Who sends what in which round of an algorithm whose server generates models; known to all nodes without a message."""

from __future__ import annotations

from dataclasses import dataclass

from ...emulator.contracts import NodeId
from ..training.participation import Participation


@dataclass(frozen=True, slots=True)
class HyperSchedule:
    """Rounds in which a client receives a model, trains, and sends an update or an embedding.

    Exchanges go by in periods of `refresh_every`: a client sends its embedding in the first exchange of a period that
    it takes part in, and the server takes all that it has into use when the second exchange of the period opens.

    Attributes:
        participation: of the clients that the server learns from, without late ones.
        refresh_every: exchanges of a period; 0: no embeddings.
        late: clients that join late.
        joins: exchange in which late clients train and send their embedding; they get their model in the next one.

    >>> plan = HyperSchedule(Participation(2, {}, lambda exchange: frozenset({exchange % 2})), refresh_every=4)
    >>> [sorted(plan.embeddings(number)) for number in range(5)], [plan.refreshes(number) for number in range(6)]
    ([[0], [1], [], [], [0]], [False, True, False, False, False, True])
    """

    participation: Participation
    refresh_every: int
    late: frozenset[NodeId] = frozenset()
    joins: int = 0

    def exchange(self, round_index: int) -> int:
        """Number of the exchange that a round belongs to, from 0."""
        return round_index // self.participation.every

    def receives(self, round_index: int) -> frozenset[NodeId]:
        """Clients that the server sends a model to in this round."""
        opening = self.participation.opening(round_index)
        joined = round_index == (self.joins + 1) * self.participation.every
        return opening | self.late if joined else opening

    def updates(self, round_index: int) -> frozenset[NodeId]:
        """Clients that send what their model has changed by in this round."""
        return self.participation.closing(round_index)

    def embeddings(self, round_index: int) -> frozenset[NodeId]:
        """Clients that send their embedding in this round."""
        if self.refresh_every == 0 or (round_index + 1) % self.participation.every:
            return frozenset()
        number = self.exchange(round_index)
        first = number - number % self.refresh_every
        earlier = (self.participation.drawn(before) for before in range(first, number))
        anew = self.participation.drawn(number).difference(*earlier)
        return anew | self.late if number == self.joins else anew

    def refreshes(self, exchange: int) -> bool:
        """Whether the server takes new embeddings into use when this exchange opens."""
        return self.refresh_every > 0 and exchange >= 1 and (exchange - 1) % self.refresh_every == 0

    def trains(self, client: NodeId, round_index: int) -> bool:
        """Whether a client takes local steps in this round: on all of its model, or on its head if it has joined."""
        if client in self.late:
            return self.exchange(round_index) >= self.joins
        return client in self.participation.clients(round_index)

    def has_joined(self, client: NodeId, round_index: int) -> bool:
        """Whether a late client has the model that it is given once, and trains its head alone."""
        return client in self.late and self.exchange(round_index) > self.joins
