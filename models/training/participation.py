"""Which clients take part in the exchanges with a server, and what they weigh there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...emulator.contracts import NodeId


@dataclass(frozen=True, slots=True)
class Participation:
    """The server of a run and the clients of every exchange; the same at all nodes, so that none has to be told.

    An exchange lasts `every` rounds: it opens with what the server sends to its clients, they train in all of its
    rounds, and it closes with what they send back.

    Attributes:
        server: node id of the server.
        n_rows: client -> its training rows, which is what it weighs in averages.
        drawn: number of an exchange, from 0 -> the clients in it.
        every: rounds of an exchange.
        late: clients that are drawn for no exchange, because they join later in their own way.
        seed: of what the server draws by itself.

    >>> pairs = Participation(2, {0: 10, 1: 30}, lambda exchange: frozenset({exchange % 2}), every=2)
    >>> [(sorted(pairs.opening(r)), sorted(pairs.clients(r)), sorted(pairs.closing(r))) for r in range(3)]
    [([0], [0], []), ([], [0], [0]), ([1], [1], [])]
    """

    server: NodeId
    n_rows: Mapping[NodeId, int]
    drawn: Callable[[int], frozenset[NodeId]]
    every: int = 1
    late: frozenset[NodeId] = frozenset()
    seed: int = 0

    def clients(self, round_index: int) -> frozenset[NodeId]:
        """Clients that train in this round."""
        return self.drawn(round_index // self.every)

    def opening(self, round_index: int) -> frozenset[NodeId]:
        """Clients that the server sends to in this round."""
        return self.clients(round_index) if round_index % self.every == 0 else frozenset()

    def closing(self, round_index: int) -> frozenset[NodeId]:
        """Clients that send to the server in this round."""
        return self.clients(round_index) if (round_index + 1) % self.every == 0 else frozenset()
