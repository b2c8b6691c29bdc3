"""Who takes part in the exchanges of a run with a server: drawn by the seed, known to all nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from ...emulator.contracts import NodeId
from ...emulator.random_streams import named_stream
from ...models.training.participation import Participation
from ..schema.scenario import Scenario
from .client import Client


def participation_of(scenario: Scenario, clients: Sequence[Client]) -> Participation | None:
    """The server of a run and its participants; None where the algorithm has no server."""
    if scenario.server_id is None:
        return None
    n_rows = {client.client_id: len(client.train) for client in clients}
    n_sampled = scenario.server.sampled or len(clients)
    drawn = partial(participants, scenario.seed, len(clients), n_sampled)
    return Participation(scenario.server_id, n_rows, drawn, scenario.sharing.every)


@lru_cache(maxsize=64)  # asked several times per phase by every node of a run
def participants(seed: int, n_clients: int, n_sampled: int, exchange: int) -> frozenset[NodeId]:
    """Clients of one exchange, drawn without replacement from a stream of its own.

    >>> participants(0, 5, 5, exchange=3) == frozenset(range(5))
    True
    """
    drawn = named_stream(seed, "participants", exchange).permutation(n_clients)[:n_sampled]
    return frozenset(drawn.tolist())
