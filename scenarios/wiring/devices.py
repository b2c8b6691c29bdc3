"""The emulated device of every client: its group's, and slower for stragglers."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import NodeId
from ...emulator.edge.device_profiles import DEVICE_PROFILES, DeviceProfile
from ...emulator.edge.profile_file import profile_of
from ...emulator.random_streams import named_stream
from ..schema.scenario import Scenario
from .members import members_of


def client_devices(scenario: Scenario) -> dict[NodeId, DeviceProfile]:
    """Device of every client."""
    known = known_devices(scenario)
    default = known[scenario.compute.profile]
    of_group = {
        group.name: default if group.profile is None else known[group.profile] for group in scenario.clients.groups
    }
    slow, factor = stragglers(scenario), scenario.compute.stragglers.factor
    return {
        member.client_id: of_group[member.group].slowed(factor) if member.client_id in slow else of_group[member.group]
        for member in members_of(scenario)
    }


def stragglers(scenario: Scenario) -> frozenset[NodeId]:
    """Clients that are slower than their device, drawn once; the larger of two shares holds those of the smaller."""
    n_clients = scenario.clients.n_clients
    order = named_stream(scenario.seed, "stragglers").permutation(n_clients)
    return frozenset(order[: round(scenario.compute.stragglers.share * n_clients)].tolist())


def known_devices(scenario: Scenario) -> Mapping[str, DeviceProfile]:
    """Devices that a scenario can name: those that come with sheafedge, and its own."""
    own = {name: profile_of(name, dict(table)) for name, table in scenario.compute.profiles.items()}
    return {**DEVICE_PROFILES, **own}
