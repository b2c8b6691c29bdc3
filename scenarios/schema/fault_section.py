"""What can fail in a scenario: entries of `[[faults]]`, on schedule or at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import ConfigError, Modality
from .data_section import first_repeated
from .section import Probability, Section

NodeNumber = Annotated[int, Field(ge=0)]
#: Below this, drawing the timetable of an hour takes longer than emulating it.
SHORTEST_MEAN_S = 0.001

FaultKind = Literal["node_off", "link_down", "partition", "corrupted", "clock_drift"]
#: Kind -> the fields that say what fails, the first of them necessary.
_CONCERNS: dict[str, tuple[str, ...]] = {
    "node_off": ("nodes",),
    "link_down": ("edges",),
    "partition": ("groups",),
    "corrupted": ("share", "edges"),
    "clock_drift": ("nodes", "modality", "ppm", "jump_s"),
}
_EXAMPLES = {
    "nodes": "nodes = [3, 7]",
    "edges": "edges = [[0, 1]]",
    "groups": "groups = [[0, 1, 2], [3, 4]]",
    "share": "share = 0.05",
    "modality": 'modality = "camera"',
    "ppm": "ppm = 2000",
    "jump_s": "jump_s = 0.5",
}


class FaultSection(Section):
    """One entry of `[[faults]]`.

    Attributes:
        kind: "node_off": nodes compute, send and hear nothing. "link_down": edges carry nothing, either way.
            "partition": no edge between two of the groups carries anything. "corrupted": messages arrive with bits
            flipped, which their receivers notice. "clock_drift": the clock of a sensor runs ahead, so that it shows
            what it saw a while before the labels and the other sensors.
        nodes: client numbers, for "node_off" and "clock_drift".
        edges: pairs of client numbers, for "link_down", and for "corrupted", where none means all.
        groups: lists of client numbers, for "partition"; clients in none of them are one more group.
        share: of messages, for "corrupted".
        modality: of the sensor, for "clock_drift".
        ppm: parts per million that its clock runs too fast, from the start of the recording on.
        jump_s: by which it jumps ahead at the instant `at_s` of the recording.
        at_s: simulated instant at which it begins; from the start where nothing is said.
        for_s: how long it lasts; without it, for good.
        mean_up_s, mean_down_s: at random instead: mean time to the next failure and mean time to repair, both
            exponential, for every node or edge on its own; a partition comes and goes as a whole, and so does the time
            in which an entry corrupts.
    """

    kind: FaultKind
    nodes: tuple[NodeNumber, ...] = ()
    edges: tuple[tuple[NodeNumber, NodeNumber], ...] = ()
    groups: tuple[tuple[NodeNumber, ...], ...] = ()
    share: Probability = 0.0
    modality: Modality | None = None
    ppm: Annotated[float, Field(ge=0.0, le=1e6)] = 0.0
    jump_s: Annotated[float, Field(ge=0.0)] = 0.0
    at_s: Annotated[float, Field(ge=0.0)] | None = None
    for_s: Annotated[float, Field(gt=0.0)] | None = None
    mean_up_s: Annotated[float, Field(ge=SHORTEST_MEAN_S)] | None = None
    mean_down_s: Annotated[float, Field(ge=SHORTEST_MEAN_S)] | None = None

    @pydantic.model_validator(mode="after")
    def _says_what_fails(self) -> Self:
        takes = _CONCERNS[self.kind]
        if not getattr(self, takes[0]):
            raise ConfigError(f"faults: {self.kind!r} does not say what fails; add {_EXAMPLES[takes[0]]}")
        for field in _EXAMPLES:
            if field not in takes and getattr(self, field):
                raise ConfigError(
                    f"faults: {self.kind!r} does not know {field}, got {_shown(getattr(self, field))}; it takes"
                    f" {' and '.join(takes)}, such as {_EXAMPLES[takes[0]]}"
                )
        if self.kind == "clock_drift" and (self.modality is None or self.ppm == self.jump_s == 0.0):
            lacking = "modality" if self.modality is None else "ppm"
            raise ConfigError(f"faults: 'clock_drift' does not say enough; add {_EXAMPLES[lacking]}")
        return self

    @pydantic.model_validator(mode="after")
    def _names_each_once(self) -> Self:
        for field, named in (("nodes", list(self.nodes)), ("groups", [one for group in self.groups for one in group])):
            if (again := first_repeated(named)) is not None:
                raise ConfigError(f"faults: {field} of {self.kind!r} names client {again} twice; name it once")
        if looped := [edge for edge in self.edges if edge[0] == edge[1]]:
            raise ConfigError(f"faults: {self.kind!r} names an edge from client {looped[0][0]} to itself; remove it")
        return self

    @pydantic.model_validator(mode="after")
    def _says_when(self) -> Self:
        random = (self.mean_up_s, self.mean_down_s)
        if (random[0] is None) != (random[1] is None):
            missing = "mean_up_s" if random[0] is None else "mean_down_s"
            raise ConfigError(f"faults: {self.kind!r} at random needs both of its mean times; add {missing}")
        if self.kind == "clock_drift" and (self.is_random or self.for_s is not None):
            raise ConfigError("faults: 'clock_drift' stays; leave out for_s, mean_up_s and mean_down_s")
        if self.is_random and (self.at_s is not None or self.for_s is not None):
            raise ConfigError(
                f"faults: {self.kind!r} is either on schedule (at_s, for_s) or at random (mean_up_s, mean_down_s);"
                " make two entries of it"
            )
        return self

    @property
    def is_random(self) -> bool:
        """Whether nobody knows when."""
        return self.mean_up_s is not None

    @property
    def is_for_good(self) -> bool:
        """Whether it is never repaired."""
        return not self.is_random and self.for_s is None

    @property
    def clients(self) -> Iterator[int]:
        """Numbers of all clients that it names."""
        yield from self.nodes
        for group in (*self.edges, *self.groups):
            yield from group


def check_faults(faults: Sequence[FaultSection], *, n_clients: int, waits: bool, in_step: bool) -> None:
    """Refuse faults of clients that there are not, and those that a run would wait for without end.

    Args:
        faults: of the scenario.
        n_clients: of the run.
        waits: for lost messages, without a deadline.
        in_step: rounds end for all together, also without those that are off.

    Raises:
        ConfigError: names the fault and the remedy.
    """
    for fault in faults:
        if strangers := [client for client in fault.clients if client >= n_clients]:
            raise ConfigError(
                f"faults: {fault.kind!r} names client {strangers[0]}, but the clients are 0 to {n_clients - 1}; change"
                " it, or clients.n_clients"
            )
        if waits and fault.kind != "clock_drift":
            raise ConfigError(
                f"faults: {fault.kind!r} loses messages for which network.missing = 'wait' would wait without end; set"
                " it to 'skip' or 'stale'"
            )
    off_for_good = {node for fault in faults if fault.kind == "node_off" and fault.is_for_good for node in fault.nodes}
    if off_for_good and not in_step:
        raise ConfigError(
            f"faults: client {min(off_for_good)} is off for good, and in network.mode = 'asynchronous' it would never"
            " finish its rounds; give the fault for_s"
        )
    if len(off_for_good) == n_clients:
        raise ConfigError("faults: in the end all clients are off for good, and no round ever ends; give one for_s")


def _shown(value: Any) -> str:
    """A value as a scenario file writes it."""
    return repr(value).replace("(", "[").replace(",)", "]").replace(")", "]")
