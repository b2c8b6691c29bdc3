"""Which client belongs to which group, and so owns which sensors."""

from __future__ import annotations

import numpy as np

from ...emulator.contracts import MODALITIES, Modality
from ...emulator.engine import named_stream
from ..schema.scenario import Scenario


def assign_groups(scenario: Scenario) -> list[str]:
    """Group of every client: exact counts by largest remainder, dealt in random order."""
    n_clients, groups = scenario.clients.n_clients, scenario.clients.groups
    exact = np.array([group.share * n_clients for group in groups])
    counts = np.floor(exact + 1e-9).astype(int)
    for index in np.argsort(counts - exact, kind="stable")[: n_clients - counts.sum()]:
        counts[index] += 1
    names = [group.name for group, count in zip(groups, counts, strict=True) for _ in range(count)]
    order = named_stream(scenario.seed, "groups").permutation(n_clients)
    return [names[index] for index in order]


def modalities_of(scenario: Scenario, group: str) -> tuple[Modality, ...]:
    """What the members of a group own, canonical order."""
    section = next(section for section in scenario.clients.groups if section.name == group)
    return tuple(modality for modality in MODALITIES if modality in section.modalities)
