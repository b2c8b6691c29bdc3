"""Queues before the channels of links, and the media that they send on."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...emulator.contracts import NodeId
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.fifo import Fifo
from ...emulator.network.medium import Medium, OwnMedium, ProcessorSharing, RoundRobin
from ...emulator.network.port import Port
from ..schema.link_models import LINK_MODELS
from ..schema.link_section import LinksSection
from ..schema.network_section import ServerSection


class Cell(NamedTuple):
    """The server of a run, and what the scenario says about it.

    Attributes:
        server: its number.
        section: its section.
    """

    server: NodeId
    section: ServerSection


def link_models(links: LinksSection, cell: Cell | None) -> frozenset[str]:
    """Names of all models that some edge may have."""
    own = None if cell is None else cell.section.link.model
    return links.models if own is None else links.models | {own}


class Senders:
    """Queues before the channels: one per direction, or one per radio."""

    def __init__(self, env: EmulatorEnvironment, section: LinksSection, cell: Cell | None) -> None:
        self._env, self._section, self._cell = env, section, cell
        self._limit_bytes = section.queue_bytes or math.inf
        depends_on_load = any(LINK_MODELS[model].depends_on_load for model in link_models(section, cell))
        self._goes_by_events = section.priorities or depends_on_load
        self._own: Medium = OwnMedium(env)
        self._shared = _shared_medium(env, section, section.medium)
        medium = "own" if cell is None else cell.section.medium
        self._uplink, self._downlink = (_shared_medium(env, section, medium) for _ in range(2))
        self._radios: dict[NodeId, Fifo | Port] = {}

    def of(self, sender: NodeId, receiver: NodeId, *, is_wired: bool) -> Fifo | Port:
        """Queue before the direction from one node to another."""
        medium = self._own if is_wired else self._medium(sender, receiver)
        if is_wired or self._section.transmitter == "per_edge":
            return self._new(medium)
        if sender not in self._radios:
            self._radios[sender] = self._new(medium)
        return self._radios[sender]

    def forget(self, sender: NodeId) -> None:
        """Drop the queue of a radio; where it is needed again it is a new one."""
        self._radios.pop(sender, None)

    def _medium(self, sender: NodeId, receiver: NodeId) -> Medium:
        """Medium of a radio."""
        of_cell = None
        if self._cell is not None and self._cell.server in (sender, receiver):
            of_cell = self._downlink if sender == self._cell.server else self._uplink
        return of_cell or self._shared or self._own

    def _new(self, medium: Medium) -> Fifo | Port:
        """New queue: computed ahead where nothing can overtake or slow down a transmission, else event by event."""
        has_classes = self._section.priorities
        if medium is self._own and not self._goes_by_events:
            return Fifo(self._env, self._limit_bytes)
        chunk_packets = self._section.chunk_packets if has_classes else None
        return Port(
            self._env, medium, limit_bytes=self._limit_bytes, has_classes=has_classes, chunk_packets=chunk_packets
        )


def _shared_medium(env: EmulatorEnvironment, section: LinksSection, kind: str) -> Medium | None:
    """New medium of this kind; None for "own"."""
    if kind == "processor_sharing":
        return ProcessorSharing(env)
    if kind == "round_robin":
        return RoundRobin(env, section.blocks.slot_s, section.blocks.n_blocks)
    return None
