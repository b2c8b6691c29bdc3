"""The emulated device of every client: its group's, and slower for stragglers."""

from __future__ import annotations

from dataclasses import replace

from ..emulator.contracts import ConfigError, DeviceProfile, NodeId
from ..emulator.edge.device_profiles import DEVICE_PROFILES
from ..emulator.engine import named_stream
from .members import members_of
from .schema import Scenario


def client_devices(scenario: Scenario) -> dict[NodeId, DeviceProfile]:
    """Device of every client.

    Raises:
        ConfigError: a profile that there is not.
    """
    everybody = _profile("compute.profile", scenario.compute.profile)
    of_group = {
        group.name: everybody if group.profile is None else _profile("clients.groups: profile", group.profile)
        for group in scenario.clients.groups
    }
    slow, factor = stragglers(scenario), scenario.compute.stragglers.factor
    return {
        member.client_id: _slowed(of_group[member.group], factor)
        if member.client_id in slow
        else of_group[member.group]
        for member in members_of(scenario)
    }


def stragglers(scenario: Scenario) -> frozenset[NodeId]:
    """Clients that are slower than their device, drawn once; the larger of two shares holds those of the smaller."""
    n_clients = scenario.clients.n_clients
    order = named_stream(scenario.seed, "stragglers").permutation(n_clients)
    return frozenset(order[: round(scenario.compute.stragglers.share * n_clients)].tolist())


def _slowed(profile: DeviceProfile, factor: float) -> DeviceProfile:
    return replace(profile, flops_per_s=profile.flops_per_s / factor, overhead_s=profile.overhead_s * factor)


def _profile(field: str, name: str) -> DeviceProfile:
    if name not in DEVICE_PROFILES:
        raise ConfigError(f"unknown {field} {name!r}; choose one of: {', '.join(sorted(DEVICE_PROFILES))}")
    return DEVICE_PROFILES[name]
