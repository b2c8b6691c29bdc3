"""Rules about the network: its graph, its links, faults on it, waiting for messages, and a server."""

from __future__ import annotations

from collections.abc import Iterator

from ....emulator.contracts import ConfigError, TopologyError
from ....emulator.edge.device_profiles import DEVICE_PROFILES
from ....models.algorithms.algorithm_table import ALGORITHMS
from ..link_models import EdgeUse
from ..link_section import EdgeModel, EdgeSettings, edge_model
from ..neighborhood import MOST_CHECKED_CLIENTS, Neighborhood, neighborhood_of
from ..scenario_fields import ScenarioFields
from .rule import Case, Rule

#: Clients that a server generates models for: matrices of all pairs then have 0.8 GB.
MOST_GENERATED = 10_000

NETWORK_RULES: tuple[Rule[ScenarioFields], ...] = (
    # --- the graph ---
    Rule(
        "topology.edge_list",
        lambda s: s.topology.kind == "edge_list" and not s.topology.edge_list and s.server_id is None,
        "topology.edge_list is empty; give a file with one edge 'i j' per line",
    ),
    Rule("topology.kind", lambda s: _no_graph(s) if is_drawn_early(s) else False, "{reason}"),
    # --- links ---
    Rule(
        "links.edges",
        lambda s: (
            {"index": index, "client": client, "last": s.clients.n_clients - 1}
            for index, exception in enumerate(s.links.edges)
            for client in exception.clients or ()
            if not 0 <= client < s.clients.n_clients
        ),
        "links.edges.{index}: there is no client {client}; give ids from 0 to {last}",
    ),
    Rule(
        "links.edges",
        lambda s: (
            {"index": index, "group": group, "known": ", ".join(known.name for known in s.clients.groups)}
            for index, exception in enumerate(s.links.edges)
            for group in exception.groups or ()
            if group not in {known.name for known in s.clients.groups}
        ),
        "links.edges.{index}: there is no group {group!r}; choose among {known}",
    ),
    Rule("links.model", lambda s: _refused_by_their_models(s), "{where}{reason}"),
    # --- waiting until everything is delivered ---
    Rule(
        "links.queue_bytes",
        lambda s: s.network.missing == "wait" and s.links.queue_bytes > 0,
        "network.missing = 'wait' never ends for a message that a queue of links.queue_bytes = {s.links.queue_bytes}"
        " refuses; set it to 0, or use 'skip'",
    ),
    Rule(
        "link.loss_probability",
        lambda s: (
            {"where": where}
            for where, edge in _edge_models(s)
            if s.network.missing == "wait" and edge.link.loss_probability >= 1.0
        ),
        "{where}network.missing = 'wait' never ends with link.loss_probability = 1; use 'skip' or lower the loss",
    ),
    Rule(
        "link.blocked_loss_probability",
        lambda s: (
            {"where": where}
            for where, edge in _edge_models(s)
            if s.network.missing == "wait" and edge.link.blocked_loss_probability >= 1.0
        ),
        "{where}network.missing = 'wait' never ends for a message that meets link.blocked_loss_probability = 1; use"
        " 'skip' or lower it",
    ),
    Rule(
        "faults",
        lambda s: (
            {"kind": fault.kind} for fault in s.faults if s.network.missing == "wait" and fault.spec.loses_messages
        ),
        "faults: {kind!r} loses messages for which network.missing = 'wait' would wait without end; set it to 'skip' or"
        " 'stale'",
    ),
    # --- faults of nodes and edges ---
    Rule(
        "faults",
        lambda s: (
            {"kind": fault.kind, "client": client, "last": s.clients.n_clients - 1}
            for fault in s.faults
            for client in fault.clients
            if client >= s.clients.n_clients
        ),
        "faults: {kind!r} names client {client}, but the clients are 0 to {last}; change it, or clients.n_clients",
    ),
    Rule(
        "faults",
        lambda s: [{"client": min(off)}] if (off := _off_for_good(s)) and s.network.mode == "asynchronous" else False,
        "faults: client {client} is off for good, and in network.mode = 'asynchronous' it would never finish its"
        " rounds; give the fault for_s",
    ),
    Rule(
        "faults",
        lambda s: _off_for_good(s) >= set(range(s.clients.n_clients)),
        "faults: in the end all clients are off for good, and no round ever ends; give one for_s",
    ),
    # --- clients that take part in some rounds only ---
    Rule(
        "clients.sampled",
        lambda s: s.clients.sampled > s.clients.n_clients,
        "clients.sampled = {s.clients.sampled} is more than clients.n_clients = {s.clients.n_clients}; lower it, or set"
        " it to 0, with which all take part in every round",
    ),
    Rule(
        "clients.sampled",
        lambda s: _samples(s) and s.algorithm_spec.pooled,
        "algorithm {s.algorithm!r} trains one model on the rows of all clients, of which clients.sampled ="
        " {s.clients.sampled} would leave some out; set it to 0",
    ),
    Rule(
        "clients.sampled",
        lambda s: _samples(s) and s.network.mode == "asynchronous",
        "clients.sampled = {s.clients.sampled} draws clients for a round of all, and with network.mode = 'asynchronous'"
        " every client has rounds of its own; set it to 0, or network.mode = 'synchronous'",
    ),
    Rule(
        "clients.sampled",
        lambda s: _samples(s) and s.algorithm_spec.couples and s.sheaf.exchange == "single",
        "clients.sampled = {s.clients.sampled} does not go with sheaf.exchange = 'single', which finds the projections"
        " of a round from the messages of the one before, in which other neighbors took part; use 'double'",
    ),
    # --- algorithms with a server, and what only those have ---
    Rule(
        "network.mode",
        lambda s: s.server_id is not None and s.network.mode == "asynchronous",
        "algorithm {s.algorithm!r} has a server that averages what a round brought, which network.mode = 'asynchronous'"
        " does not have; set it to 'synchronous'",
    ),
    Rule(
        "topology.kind",
        lambda s: s.server_id is not None and s.topology.kind == "mobile",
        "algorithm {s.algorithm!r} has a server, which topology.kind = 'mobile' gives no place; choose another kind, as"
        " the algorithm does not read it",
    ),
    Rule(
        "data.mode",
        lambda s: s.server_id is not None and s.data.mode == "live",
        "algorithm {s.algorithm!r} has a server that weighs clients by their rows, which grow with data.mode = 'live';"
        " set it to 'replay'",
    ),
    Rule(
        "faults",
        lambda s: _servers_that_are_not_there(s),
        "faults: {kind!r} names the server, which algorithm {s.algorithm!r} does not have; leave it out, or use an"
        " algorithm that has one, such as {such}",
    ),
    Rule(
        "faults",
        lambda s: ({"kind": fault.kind} for fault in s.faults if fault.names_server and fault.spec.shown is not None),
        "faults: {kind!r} is about sensors, and the server has none; name clients",
    ),
    # --- servers that generate models ---
    Rule(
        "clients.n_clients",
        lambda s: (
            [{"most": MOST_GENERATED}] if s.algorithm_spec.generates and s.clients.n_clients > MOST_GENERATED else False
        ),
        "algorithm {s.algorithm!r} has a server that compares all clients with all; set clients.n_clients to at most"
        " {most:,}, got {s.clients.n_clients:,}, or use 'fedper'",
    ),
    Rule(
        "network.missing",
        lambda s: s.algorithm_spec.generates and s.network.missing == "stale",
        "algorithm {s.algorithm!r} learns from what local steps have changed, which network.missing = 'stale' would use"
        " twice; set it to 'skip' or 'wait'",
    ),
    Rule(
        "sharing.codec",
        lambda s: s.algorithm_spec.generates and s.sharing.codec == "top_k",
        "algorithm {s.algorithm!r} sends what local steps have changed, and sharing.codec = 'top_k' sends values, the"
        " largest changes of them; set it to 'int8', 'float16' or 'float32'",
    ),
    Rule(
        "hyper.late_clients",
        lambda s: s.algorithm_spec.generates and not s.algorithm_spec.embeds and s.hyper.late_clients > 0,
        "algorithm {s.algorithm!r} knows clients by their numbers, of which late ones would have none that the server"
        " has learned; set hyper.late_clients to 0, or use 'fedsheafhn'",
    ),
    Rule(
        "hyper.late_clients",
        lambda s: s.algorithm_spec.embeds and s.hyper.late_clients >= s.clients.n_clients,
        "hyper.late_clients must leave the server clients to learn from, got {s.hyper.late_clients} of"
        " {s.clients.n_clients}; lower it",
    ),
    Rule(
        "clients.sampled",
        lambda s: s.algorithm_spec.embeds and s.hyper.late_clients > 0 and _samples(s),
        "clients.sampled = {s.clients.sampled} does not go with hyper.late_clients, which join in a round of their own"
        " and stay; set one of them to 0",
    ),
    Rule(
        "hyper.join_round",
        lambda s: (
            [{"least": least}]
            if s.algorithm_spec.embeds and s.hyper.late_clients > 0 and s.rounds < (least := _rounds_to_join(s))
            else False
        ),
        "hyper.join_round = {s.hyper.join_round} leaves late clients no round with the model that they receive; lower"
        " it, or set rounds to at least {least}, got {s.rounds}",
    ),
    # --- emulated devices ---
    Rule(
        "compute.profile",
        lambda s: (
            {"name": name, "field": field, "known": ", ".join(sorted(known))}
            for known in [{*DEVICE_PROFILES, *s.compute.profiles}]
            for field, name in [
                ("compute.profile", s.compute.profile),
                *(("clients.groups: profile", group.profile) for group in s.clients.groups),
                ("server.profile", s.server.profile),
            ]
            if name is not None and name not in known
        ),
        "unknown {field} {name!r}; choose one of: {known}",
    ),
)

#: Of the edges that a scenario names.
EDGE_RULES: tuple[Rule[Neighborhood], ...] = (
    Rule(
        "links.edges",
        lambda s: (
            {"index": index, "one": one, "other": other, "near": _neighbors(s, one)}
            for index, exception in enumerate(s.scenario.links.edges)
            for one, other in [exception.clients or (0, 0)]
            if exception.clients and s.links.has_node(one) and s.links.has_node(other)
            if not s.links.has_edge(one, other)
        ),
        "links.edges.{index}: clients {one} and {other} are no neighbors; {one} has edges to {near}",
    ),
    Rule(
        "faults",
        lambda s: (
            {"kind": fault.kind, "one": one, "other": other, "near": _neighbors(s, one)}
            for fault in s.scenario.faults
            for one, other in fault.edges
            if not isinstance(one, str) and not isinstance(other, str)
            if s.links.has_node(one) and s.links.has_node(other) and not s.links.has_edge(one, other)
        ),
        "faults: {kind!r} names the edge [{one}, {other}], which is not there; the neighbors of client {one} are:"
        " {near}",
    ),
)


def _samples(s: ScenarioFields) -> bool:
    """Whether some clients take no part in some rounds."""
    return 0 < s.clients.sampled < s.clients.n_clients


def is_drawn_early(scenario: ScenarioFields) -> bool:
    """Whether the graph follows from the scenario alone, and soon enough to be drawn whenever it is checked."""
    if scenario.server_id is not None:
        return True
    return scenario.topology.kind != "edge_list" and scenario.clients.n_clients <= MOST_CHECKED_CLIENTS


def _no_graph(s: ScenarioFields) -> list[Case]:
    try:
        neighborhood_of(s)
    except TopologyError as error:
        return [{"reason": error}]
    return []


def _neighbors(s: Neighborhood, client: int) -> str:
    names = {s.scenario.server_id: "the server"}
    return ", ".join(names.get(node, str(node)) for node in sorted(s.links[client])) or "none"


def _settings_of_edges(s: ScenarioFields) -> Iterator[tuple[str, EdgeSettings | None]]:
    """All settings of edges, and where they stand; None: those of `[link]` and `[links]` alone."""
    if s.server_id is not None:  # all edges end at the server
        yield "server.link: " if s.server.link != EdgeSettings() else "", s.server.link
        return
    yield "", None
    yield from ((f"links.edges.{index}: ", exception) for index, exception in enumerate(s.links.edges))


def _edge_models(s: ScenarioFields) -> Iterator[tuple[str, EdgeModel]]:
    """Every combination of model and numbers that an edge can have and that is possible, and where it is said."""
    for where, settings in _settings_of_edges(s):
        try:
            yield where, edge_model(s.links, s.link, settings)
        except ConfigError:
            continue  # a rule of its own says so


def _refused_by_their_models(s: ScenarioFields) -> Iterator[Case]:
    """Numbers that the model of an edge refuses."""
    waits, is_live = s.network.missing == "wait", s.data.mode == "live"
    for where, settings in _settings_of_edges(s):
        try:
            edge = edge_model(s.links, s.link, settings)
            edge.model.check(edge.settings, EdgeUse(edge.link, waits=waits, is_live=is_live))
        except ConfigError as error:
            yield {"where": where, "reason": error}


def _off_for_good(s: ScenarioFields) -> set[int]:
    stopped = [fault for fault in s.faults if fault.spec.stops_nodes and fault.is_for_good]
    return {node for fault in stopped for node in fault.nodes if not isinstance(node, str)}


def _rounds_to_join(s: ScenarioFields) -> int:
    """Rounds of a run in which late clients have one round with their model, which the exchange after theirs brings."""
    every = s.sharing.every
    return (-(-s.hyper.join_round // every) + 1) * every + 1


def _servers_that_are_not_there(s: ScenarioFields) -> Iterator[Case]:
    for fault in s.faults:
        if s.server_id is None and fault.names_server and fault.spec.shown is None:
            yield {"kind": fault.kind, "such": next(repr(name) for name, one in ALGORITHMS.items() if one.server)}
