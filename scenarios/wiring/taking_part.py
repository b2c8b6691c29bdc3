"""Who takes part in which round: drawn by the seed, so that all nodes know it and no message has to say it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...emulator.contracts import NodeId
from ...emulator.random_streams import named_stream
from ..schema.scenario_fields import ScenarioFields

#: Round -> the nodes that take part in it.
TakingPart = Callable[[int], frozenset[NodeId]]


@lru_cache(maxsize=64)  # asked several times per phase by every node of a run
def participants(seed: int, n_clients: int, n_sampled: int, exchange: int) -> frozenset[NodeId]:
    """Clients of one exchange, drawn without replacement from a stream of its own.

    >>> participants(0, 5, 5, exchange=3) == frozenset(range(5))
    True
    """
    drawn = named_stream(seed, "participants", exchange).permutation(n_clients)[:n_sampled]
    return frozenset(drawn.tolist())


def clients_of_exchange(scenario: ScenarioFields) -> TakingPart:
    """Number of an exchange, from 0 -> the clients in it; an exchange lasts `sharing.every` rounds."""
    seed, n_clients = scenario.seed, scenario.clients.n_clients
    n_sampled, late = scenario.clients.sampled or n_clients, late_clients(scenario)
    return lambda exchange: participants(seed, n_clients, n_sampled, exchange) - late


def late_clients(scenario: ScenarioFields) -> frozenset[NodeId]:
    """Clients that join late and that the server does not learn from; the larger of two sets holds the smaller one."""
    if not scenario.algorithm_spec.generates:
        return frozenset()
    order = named_stream(scenario.seed, "late_clients").permutation(scenario.clients.n_clients)
    return frozenset(order[: scenario.hyper.late_clients].tolist())


def taking_part(scenario: ScenarioFields) -> TakingPart | None:
    """Round -> the nodes that take part in it, a server always; None: all nodes take part in all rounds."""
    if scenario.clients.sampled in {0, scenario.clients.n_clients}:
        return None
    clients, every, server = clients_of_exchange(scenario), scenario.sharing.every, scenario.server_id
    always = frozenset(() if server is None else (server,))
    return lambda round_index: clients(round_index // every) | always


def observed_in(scenario: ScenarioFields, rounds_done: int) -> list[tuple[int, NodeId]]:
    """Every round so far with every node that is observed in it: those that take part."""
    chosen, n_nodes = taking_part(scenario), scenario.clients.n_clients + (scenario.server_id is not None)
    everybody = range(n_nodes)
    return [(number, node) for number in range(rounds_done) for node in (chosen(number) if chosen else everybody)]


def n_observed(scenario: ScenarioFields) -> int:
    """Observations of a complete run; after the last round those that took no part in it are observed as well."""
    n_nodes, chosen = scenario.clients.n_clients + (scenario.server_id is not None), taking_part(scenario)
    if chosen is None:
        return scenario.rounds * n_nodes
    return sum(len(chosen(number)) for number in range(scenario.rounds - 1)) + n_nodes
