"""Faults of a scenario: entries of `[[faults]]`, on schedule or at random.

A new kind is its mechanism in `emulator/faults/`, or in `datasets/windows/` where it changes recorded frames, and a row
of `FAULT_KINDS`; a value that no other kind has is one more field of `FaultSection`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

import pydantic
from pydantic import Field, PlainValidator

from ...datasets.windows.clock_drift import ClockDrift, rows_seen
from ...emulator.contracts import ConfigError, Modality, NodeId
from ...emulator.faults.fault_plan import Corruption, Edge, FaultPlanDraft
from ...emulator.faults.outages import Outages, Timetable
from .data_section import first_repeated
from .section import Probability, Section

if TYPE_CHECKING:
    from ...datasets.windows.sensed_frames import SensedFrames

#: How faults name the server, whose number follows from that of the clients.
SERVER = "server"


def _named(node: Any) -> Any:
    """A node as a number or as the server; one sentence in place of one per alternative."""
    if node == SERVER or (type(node) is int and node >= 0):
        return node
    raise ConfigError(f'faults: {node!r} names no node; give the number of a client, from 0 on, or "server"')


NodeName = Annotated[int | Literal["server"], PlainValidator(_named)]
#: Below this, drawing the timetable of an hour takes longer than emulating it.
SHORTEST_MEAN_S = 0.001


class FaultEntry(Protocol):
    """One entry of `[[faults]]` on the graph of a run, as the effect of its kind sees it."""

    @property
    def stream_name(self) -> str:
        """Name of a random stream for draws per message."""
        ...

    @property
    def named_nodes(self) -> Sequence[NodeId]:
        """Nodes that the entry names, in its order."""
        ...

    @property
    def named_edges(self) -> Sequence[Edge]:
        """Edges of the graph that the entry names, in order."""
        ...

    @property
    def parting_edges(self) -> Sequence[Edge]:
        """Edges between nodes of different groups of the entry, in order."""
        ...

    def outages(self, *what: object) -> Outages:
        """Outages of the named part: on schedule, or drawn from a random stream of its own."""
        ...


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of faults.

    Attributes:
        fields: of `FaultSection` that say what fails, the first of them necessary.
        add_to: adds an entry to the plan of the run, which nodes and links follow on the simulated clock.
        shown: frames of a base station -> those that the faulty sensor of a client shows in their place.
        needs: fields of which one must be set too, each by what it is needed with.
        stops_nodes: clients that are named do not take part meanwhile.
        loses_messages: so that waiting for all messages never ends.
        is_lasting: it can neither end nor come at random.
    """

    fields: tuple[str, ...]
    add_to: Callable[[FaultPlanDraft, FaultSection, FaultEntry], None] | None = None
    shown: Callable[[SensedFrames, FaultSection, Modality], SensedFrames] | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    stops_nodes: bool = False
    loses_messages: bool = True
    is_lasting: bool = False


def _stop_nodes(plan: FaultPlanDraft, _fault: FaultSection, entry: FaultEntry) -> None:
    for node in entry.named_nodes:
        plan.add_node(node, entry.outages(node))


def _cut_edges(plan: FaultPlanDraft, _fault: FaultSection, entry: FaultEntry) -> None:
    for edge in entry.named_edges:
        plan.add_edge(edge, entry.outages(*edge))


def _part_groups(plan: FaultPlanDraft, _fault: FaultSection, entry: FaultEntry) -> None:
    outages = entry.outages("partition")  # one timetable: a partition comes and goes as a whole
    for edge in entry.parting_edges:
        plan.add_edge(edge, outages)


def _corrupt_messages(plan: FaultPlanDraft, fault: FaultSection, entry: FaultEntry) -> None:
    times = Timetable([entry.outages("corrupted")])
    plan.add_corruption(Corruption(frozenset(entry.named_edges) or None, fault.share, times, entry.stream_name))


def _drifted(frames: SensedFrames, fault: FaultSection, modality: Modality) -> SensedFrames:
    drift = ClockDrift(fault.ppm, fault.jump_s, fault.at_s or 0.0)
    return frames.showing(modality, rows_seen(frames.column("time_s"), frames.column("sequence"), drift))


#: Name -> kind.
FAULT_KINDS: Mapping[str, FaultKind] = {
    "node_off": FaultKind(("nodes",), _stop_nodes, stops_nodes=True),
    "link_down": FaultKind(("edges",), _cut_edges),
    "partition": FaultKind(("groups",), _part_groups),
    "corrupted": FaultKind(("share", "edges"), _corrupt_messages),
    "clock_drift": FaultKind(
        ("nodes", "modality", "ppm", "jump_s"),
        shown=_drifted,
        needs=(("modality",), ("ppm", "jump_s")),
        loses_messages=False,
        is_lasting=True,
    ),
}

if TYPE_CHECKING:  # a type checker cannot read a table
    KindName = str
else:
    KindName = Literal[tuple(FAULT_KINDS)]


class FaultSection(Section):
    """One entry of `[[faults]]`.

    Attributes:
        kind: "node_off": nodes compute, send and receive nothing. "link_down": edges carry nothing, either way.
            "partition": no edge between two of the groups carries anything. "corrupted": messages arrive with bits
            flipped, which their receivers notice. "clock_drift": the clock of a sensor runs ahead, so that it shows
            what it saw a while before the labels and the other sensors.
        nodes: client numbers, for "node_off" and "clock_drift"; "server" is a name of the server here and below.
        edges: pairs of client numbers, for "link_down", and for "corrupted", where none means all.
        groups: lists of client numbers, for "partition"; nodes in none of them are one more group.
        share: share of corrupted messages, for "corrupted".
        modality: modality of the sensor, for "clock_drift".
        ppm: parts per million that its clock runs too fast, from the start of the recording on.
        jump_s: by which it jumps ahead at the instant `at_s` of the recording.
        at_s: simulated instant at which it begins; from the start where it is not set.
        for_s: duration in s; without it the fault is never repaired.
        mean_up_s, mean_down_s: at random instead: mean time to the next failure and mean time to repair, both
            exponential, for every node or edge on its own; a partition comes and goes as a whole, and so does the time
            in which an entry corrupts.
    """

    kind: KindName
    nodes: Annotated[tuple[NodeName, ...], Field(examples=["nodes = [3, 7]"])] = ()
    edges: Annotated[tuple[tuple[NodeName, NodeName], ...], Field(examples=["edges = [[0, 1]]"])] = ()
    groups: Annotated[tuple[tuple[NodeName, ...], ...], Field(examples=["groups = [[0, 1, 2], [3, 4]]"])] = ()
    share: Annotated[Probability, Field(examples=["share = 0.05"])] = 0.0
    modality: Annotated[Modality | None, Field(examples=['modality = "camera"'])] = None
    ppm: Annotated[float, Field(ge=0.0, le=1e6, examples=["ppm = 2000"])] = 0.0
    jump_s: Annotated[float, Field(ge=0.0, examples=["jump_s = 0.5"])] = 0.0
    at_s: Annotated[float, Field(ge=0.0)] | None = None
    for_s: Annotated[float, Field(gt=0.0)] | None = None
    mean_up_s: Annotated[float, Field(ge=SHORTEST_MEAN_S)] | None = None
    mean_down_s: Annotated[float, Field(ge=SHORTEST_MEAN_S)] | None = None

    @pydantic.model_validator(mode="after")
    def _says_what_fails(self) -> Self:
        takes, examples = self.spec.fields, _examples()
        if not getattr(self, takes[0]):
            raise ConfigError(f"faults: {self.kind!r} does not say what fails; add {examples[takes[0]]}")
        for field in examples:
            if field not in takes and getattr(self, field):
                raise ConfigError(
                    f"faults: {self.kind!r} does not know {field}, got {_shown(getattr(self, field))}; it takes"
                    f" {' and '.join(takes)}, such as {examples[takes[0]]}"
                )
        for choices in self.spec.needs:
            if not any(getattr(self, field) for field in choices):
                raise ConfigError(f"faults: {self.kind!r} does not say enough; add {examples[choices[0]]}")
        return self

    @pydantic.model_validator(mode="after")
    def _names_each_once(self) -> Self:
        for field, named in (("nodes", list(self.nodes)), ("groups", [one for group in self.groups for one in group])):
            if (again := first_repeated(named)) is not None:
                raise ConfigError(f"faults: {field} of {self.kind!r} names {_node(again)} twice; name it once")
        if looped := [edge for edge in self.edges if edge[0] == edge[1]]:
            raise ConfigError(f"faults: {self.kind!r} names an edge from {_node(looped[0][0])} to itself; remove it")
        return self

    @pydantic.model_validator(mode="after")
    def _says_when(self) -> Self:
        random = (self.mean_up_s, self.mean_down_s)
        if (random[0] is None) != (random[1] is None):
            missing = "mean_up_s" if random[0] is None else "mean_down_s"
            raise ConfigError(f"faults: {self.kind!r} at random needs both of its mean times; add {missing}")
        if self.spec.is_lasting and (self.is_random or self.for_s is not None):
            raise ConfigError(f"faults: {self.kind!r} stays; leave out for_s, mean_up_s and mean_down_s")
        if self.is_random and (self.at_s is not None or self.for_s is not None):
            raise ConfigError(
                f"faults: {self.kind!r} is either on schedule (at_s, for_s) or at random (mean_up_s, mean_down_s);"
                " make two entries of it"
            )
        return self

    @property
    def spec(self) -> FaultKind:
        """Row of `FAULT_KINDS` for its kind."""
        return FAULT_KINDS[self.kind]

    @property
    def is_random(self) -> bool:
        """Whether its times are drawn."""
        return self.mean_up_s is not None

    @property
    def is_for_good(self) -> bool:
        """Whether it is never repaired."""
        return not self.is_random and self.for_s is None

    @property
    def clients(self) -> Iterator[int]:
        """Numbers of all clients that it names."""
        yield from (node for node in self._named if not isinstance(node, str))

    @property
    def names_server(self) -> bool:
        """Whether it names the server."""
        return any(node == SERVER for node in self._named)

    @property
    def _named(self) -> Iterator[NodeName]:
        yield from self.nodes
        for group in (*self.edges, *self.groups):
            yield from group


def _node(node: NodeName) -> str:
    """A node as sentences name it."""
    return "the server" if node == SERVER else f"client {node}"


def _examples() -> dict[str, str]:
    """Field -> example in TOML, of the fields that name what fails."""
    fields = FaultSection.model_fields.items()
    return {name: str(field.examples[0]) for name, field in fields if field.examples}


def _shown(value: Any) -> str:
    """A value as a scenario file writes it."""
    return repr(value).replace("(", "[").replace(",)", "]").replace(")", "]")
