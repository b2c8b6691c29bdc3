"""Parts of clients' models that a server generates, each by one layer for all clients that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ...emulator.contracts import ConfigError, NodeId
from ..training.client_setup import ClientSetup
from .backbone import backbone_parts
from .part_answer import PartAnswer


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedPart:
    """A part of clients' models that one layer answers.

    Attributes:
        name: unique among the parts.
        start: [size] answer that all begin with.
        owners: clients that have it.
    """

    name: str
    start: Tensor
    owners: frozenset[NodeId]


def generated_parts(
    setups: Sequence[ClientSetup], members: Mapping[str, Sequence[NodeId]], seed: int
) -> tuple[list[GeneratedPart], dict[NodeId, list[int]]]:
    """All parts, and of every client the numbers of its own in the order of its backbone.

    The first client that has a part gives it its start.
    """
    starts: dict[str, Tensor] = {}
    owners: dict[str, set[NodeId]] = {}
    names: dict[str, list[str]] = {}
    for setup in sorted(setups, key=lambda setup: setup.client_id):
        if setup.group in names:
            continue
        found = backbone_parts(setup.models["fused"], setup.training.personal_encoders)
        names[setup.group] = [part.name for part in found]
        for part in found:
            starts.setdefault(part.name, PartAnswer(part, setup.hyper, seed).start)
            owners.setdefault(part.name, set()).update(members[setup.group])
    numbers = {name: number for number, name in enumerate(starts)}
    parts = [GeneratedPart(name, start, frozenset(owners[name])) for name, start in starts.items()]
    clients = {client: group for group, of_group in members.items() for client in of_group}
    return parts, {client: [numbers[name] for name in names[clients[client]]] for client in sorted(clients)}


def common_width(setups: Sequence[ClientSetup]) -> int:
    """Width of what heads read.

    Raises:
        ConfigError: it is not the same for all groups.
    """
    widths = {setup.group: setup.models["fused"].layout.width for setup in setups}
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{group!r} {width}" for group, width in widths.items())
        raise ConfigError(
            "model.fusion must give all groups what their heads read in one width, so that a server can compare"
            f" clients by it, got {found}; set it to 'attention' or 'mean', or give the groups encoders of one size"
        )
    return next(iter(widths.values()))
