"""Three stations in a row, 0 - 1 - 2, with scripted learners and links, in step or each at its own pace.

All instants are binary fractions, so exact. A phase of 2 flops takes 2.5, 1.5 and 1.0 s, one of 0 flops 0.5 s each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sheafedge.emulator.contracts import Message, MessageKind, Phase
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.faults.fault_plan import NO_FAULTS, FaultPlan
from sheafedge.emulator.faults.outages import Outage, ScheduledOutages, Timetable
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.nodes.asynchronous_station import AsynchronousStation, play_at_own_pace
from sheafedge.emulator.nodes.base_station import BaseStation, play_rounds
from sheafedge.emulator.nodes.compute_pool import SerialPool
from sheafedge.emulator.nodes.inbox import Inbox, Mailbox
from sheafedge.emulator.nodes.learner_host import LocalHost
from sheafedge.emulator.nodes.missing import MISSING_POLICIES
from sheafedge.emulator.nodes.station_context import StationContext
from sheafedge.emulator.recorder import Recorder

from .emulation import DirectTransport, ScriptedLearner, ScriptedLink

ROW = {0: [1], 1: [0, 2], 2: [1]}
DEVICES = {
    0: DeviceProfile("slow", flops_per_s=1.0, overhead_s=0.5, power_w=4.0),
    1: DeviceProfile("middle", flops_per_s=2.0, overhead_s=0.5, power_w=2.0),
    2: DeviceProfile("fast", flops_per_s=4.0, overhead_s=0.5, power_w=8.0),
}
HEAVY, LIGHT = Phase("heavy", 2.0), Phase("light", 0.0)
DELAY_S = 0.25


def out(*outages: tuple[float, float]) -> Timetable:
    """A timetable with these outages."""
    return Timetable([ScheduledOutages([Outage(*outage) for outage in outages])])


def plan(
    nodes: Mapping[int, Timetable] | None = None, edges: Mapping[tuple[int, int], Timetable] | None = None
) -> FaultPlan:
    """Faults of the row."""
    return FaultPlan(0, frozenset(ROW), nodes or {}, edges or {})


class Stations:
    """A run of the row; what happened can be read afterwards."""

    def __init__(
        self,
        phases: Sequence[Phase] = (HEAVY, LIGHT),
        *,
        faults: FaultPlan = NO_FAULTS,
        policy: str = "skip",
        deadline_s: float | None = 20.0,
        delay_s: float = DELAY_S,
        devices: Mapping[int, DeviceProfile] = DEVICES,
        in_step: bool = True,
    ) -> None:
        self.env = EmulatorEnvironment(seed=0)
        self.observed: list[tuple[Any, ...]] = []
        self.recorder = Recorder(frozenset({MessageKind.ENCODER}), lambda *told: self.observed.append(told))
        self.learners = [ScriptedLearner(node, peers, phases, lambda: self.env.now) for node, peers in ROW.items()]
        kept = MISSING_POLICIES[policy]
        inboxes = {node: Inbox(self.env, kept(), self.recorder) for node in ROW}
        mailboxes = {node: Mailbox(kept(), self.recorder) for node in ROW}
        boxes: Mapping[int, Inbox | Mailbox] = inboxes if in_step else mailboxes
        edges = [(sender, receiver) for sender, peers in ROW.items() for receiver in peers]
        links = {edge: ScriptedLink(self.env, delay_s) for edge in edges}
        deliver: dict[int, Callable[[Message], None]] = {node: box.put for node, box in boxes.items()}
        network = Network(self.env, DirectTransport(), links, deliver, self.recorder, faults)
        barrier = Barrier(self.env, len(ROW))
        context = StationContext(self.env, network, barrier, self.recorder, deadline_s, faults=faults)
        pool = SerialPool()
        hosts = [LocalHost(each, pool, lambda learner, _: learner.health()) for each in self.learners]
        self._in_step = in_step
        self._stations = [
            BaseStation(host, devices[host.client_id], inboxes[host.client_id], context) for host in hosts
        ]
        self._own_pace = [
            AsynchronousStation(host, devices[host.client_id], mailboxes[host.client_id], context) for host in hosts
        ]

    def play(self, rounds: int = 1) -> Stations:
        """So many rounds."""
        if self._in_step:
            play_rounds(self.env, self._stations, range(rounds))
        else:
            play_at_own_pace(self.env, self._own_pace, rounds)
        return self

    def ended_s(self, node: int) -> list[float]:
        """When each round of a node ended."""
        return [told[2] for told in self.observed if told[0] == node]

    def told(self, node: int, key: str) -> list[Any]:
        """What the rows of a node say under this name; None where they say nothing."""
        return [told[3].get(key) for told in self.observed if told[0] == node]

    def computed(self, node: int) -> list[tuple[str, int, float]]:
        """Phase, round and instant of everything that the node computed."""
        calls = self.learners[node].calls
        return [(call.phase, call.round_index, call.now_s) for call in calls if call.name == "compute"]

    def heard(self, node: int) -> list[tuple[int, ...]]:
        """Senders of what the node absorbed, phase by phase."""
        return [call.senders for call in self.learners[node].calls if call.name == "absorb"]

    def off(self) -> list[tuple[int, int]]:
        """Client and round of every look at a node that was off."""
        return [(told[0], told[1]) for told in self.observed if told[3].get("off")]
