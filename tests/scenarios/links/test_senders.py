"""Queues and media of the links of a server: one cell, whose uplinks share one medium and whose downlinks another."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from sheafedge.emulator.contracts import Delivery
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.scenarios.links.link_maker import LinkEnd, make_links
from sheafedge.scenarios.links.senders import Cell
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

N_CLIENTS, SERVER = 4, 4
#: 10,000 bytes at 1 Mbit/s.
AIRTIME_S = 0.08
SIZE_BYTES = 10_000
ROUNDING = 1e-9
PLAIN: dict[str, Any] = {
    "algorithm": "fedavg",
    "clients.n_clients": N_CLIENTS,
    "link.rate_bps": 1e6,
    "link.loss_probability": 0.0,
    "link.propagation_s": 0.0,
    "link.processing_s": 0.0,
    "link.packet_bytes": 1000,
}


def arrivals_s(up: int, down: int, **edits: Any) -> tuple[list[float], list[float]]:
    """Instants at which messages of so many clients arrive that are offered at once, either way."""
    scenario: Scenario = load_scenario("blockage").edited(
        {**PLAIN, **{k.replace("__", "."): v for k, v in edits.items()}}
    )
    env = EmulatorEnvironment(0)
    ends = {node: LinkEnd("camera+rf") for node in range(N_CLIENTS)}
    cell = Cell(SERVER, scenario.server)
    graph = nx.star_graph([SERVER, *range(N_CLIENTS)])
    links = make_links(scenario.links, scenario.link, graph, env, ends, cell=cell, until_delivered=False)
    fates: tuple[list[Delivery], list[Delivery]] = ([], [])
    for client in range(up):
        links[client, SERVER].offer(SIZE_BYTES, 0, fates[0].append)
    for client in range(down):
        links[SERVER, client].offer(SIZE_BYTES, 0, fates[1].append)
    env.run()
    return tuple([fate.arrival_s for fate in way] for way in fates)  # type: ignore[return-value]  # two of them


def test_by_default_every_link_to_the_server_sends_by_itself() -> None:
    up, down = arrivals_s(4, 4)
    assert up == pytest.approx([AIRTIME_S] * 4, abs=ROUNDING)
    assert down == pytest.approx([AIRTIME_S] * 4, abs=ROUNDING)


def test_n_uplinks_of_one_cell_take_n_times_the_airtime_and_downlinks_do_not_slow_them() -> None:
    for n_clients in (1, 2, 4):
        up, down = arrivals_s(n_clients, 1, server__medium="processor_sharing")
        assert up == pytest.approx([n_clients * AIRTIME_S] * n_clients, abs=ROUNDING)
        assert down == pytest.approx([AIRTIME_S], abs=ROUNDING)


def test_the_blocks_of_a_cell_are_dealt_in_turn() -> None:
    slot_s = 0.0005  # of [links.blocks]
    up, _ = arrivals_s(4, 0, server__medium="round_robin")
    assert max(up) == pytest.approx(4 * AIRTIME_S, abs=slot_s)


def test_a_server_with_one_transmitter_sends_one_after_the_other() -> None:
    _, down = arrivals_s(0, 4, links__transmitter="per_node")
    assert sorted(down) == pytest.approx([AIRTIME_S * n for n in (1, 2, 3, 4)], abs=ROUNDING)


def test_links_to_the_server_have_numbers_of_their_own() -> None:
    up, down = arrivals_s(1, 1, server__link={"rate_bps": 4e6})
    assert up == down == pytest.approx([AIRTIME_S / 4], abs=ROUNDING)


def test_a_wire_to_the_server_shares_no_air() -> None:
    up, _ = arrivals_s(4, 0, server__medium="processor_sharing", server__link={"model": "ideal"})
    assert up == [0.0] * 4
