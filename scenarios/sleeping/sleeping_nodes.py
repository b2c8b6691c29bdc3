"""Base stations, inboxes and links of the clients of a round, where the others sleep; see `learner_table`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

import networkx as nx

from ...emulator.contracts import Link, Message, NodeId, State
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.fifo import Fifo, FifoLink
from ...emulator.nodes.base_station import BaseStation
from ...emulator.nodes.inbox import Inbox
from ...emulator.nodes.learner_host import LearnerHost
from ...emulator.nodes.missing import MissingPolicy
from ...emulator.nodes.station_context import StationContext
from ...emulator.recorder import Recorder
from ...emulator.saved_state import SavedState, optional_state, restore_optional
from ..links.link_maker import LinkMaker, MadeLink
from ..wiring.taking_part import TakingPart
from .learner_table import LearnerTable

Ends = tuple[NodeId, NodeId]


class LinksOnDemand(Mapping[Ends, Link]):
    """Links of a graph, each made when something is first sent over it, and put away with its client.

    Random streams are named by the ends of a link, so that its losses depend neither on when it is made nor on which
    others there are.

    Args:
        env: clock and streams.
        graph: graph of all links.
        maker: makes them, with queues that need no events.
    """

    def __init__(self, env: EmulatorEnvironment, graph: nx.Graph[NodeId], maker: LinkMaker) -> None:
        self._env, self._graph, self._maker = env, graph, maker
        last = len(graph) - 1
        self._server = last if graph.degree(last) == last else None  # the middle of a star
        self._made: dict[NodeId, dict[Ends, MadeLink]] = {}
        self._channels: dict[Ends, State] = {}

    def __getitem__(self, ends: Ends) -> Link:
        found = self._made.get(self._owner(ends), {}).get(ends)
        return found.link if found is not None else self._make(ends)

    def __iter__(self) -> Iterator[Ends]:
        for one, other in self._graph.edges:
            yield one, other
            yield other, one

    def __len__(self) -> int:
        return 2 * int(self._graph.number_of_edges())

    def put_away(self, client: NodeId) -> None:
        """Keep of the links of a client what their channels and streams remember; one that still sends stays."""
        links = self._made.get(client, {})
        if not all(_is_idle(made.link) for made in links.values()):
            return
        for ends, made in links.items():
            state = optional_state(_fifo_link(made.link).channel)
            if not _is_empty(state):
                self._channels[ends] = state
            for name in made.streams:
                self._env.rest(name, *ends)
        self._made.pop(client, None)
        self._maker.senders.forget(client)

    def state(self) -> State:
        """What channels remember, and queues that still send."""
        made = {ends: one.link for of_client in self._made.values() for ends, one in of_client.items()}
        channels = {ends: optional_state(_fifo_link(link).channel) for ends, link in made.items()}
        busy = {_fifo_link(link).sender: ends for ends, link in made.items() if not _is_idle(link)}
        return {
            "channels": [
                [*ends, state] for ends, state in {**self._channels, **channels}.items() if not _is_empty(state)
            ],
            "senders": [[*ends, sender.state()] for sender, ends in busy.items()],
        }

    def restore(self, saved: SavedState) -> None:
        """Continue from a state, with no link made but those that still send; after the streams."""
        for one in saved.part("channels").listed():
            sender, receiver, state = one.listed(3)
            self._channels[sender.count(), receiver.count()] = state.state
        for one in saved.part("senders").listed():
            sender, receiver, state = one.listed(3)
            _fifo_link(self[sender.count(), receiver.count()]).sender.restore(state)

    def _make(self, ends: Ends) -> Link:
        if not self._graph.has_edge(*ends):
            raise KeyError(ends)
        made = self._maker.made(*ends)
        for name in made.streams:
            self._env.resume(name, *ends)
        if (state := self._channels.pop(ends, None)) is not None:
            restore_optional(_fifo_link(made.link).channel, SavedState(state, owner="a link"))
        self._made.setdefault(self._owner(ends), {})[ends] = made
        return made.link

    def _owner(self, ends: Ends) -> NodeId:
        """The client that a link is put away with: the one of a server's, else its sender."""
        return ends[1] if ends[0] == self._server else ends[0]


class SleepingNodes(Sequence[BaseStation]):
    """Stations and inboxes of a run whose clients sleep while they take no part.

    Args:
        table: learners of all nodes.
        links: links of all nodes.
        host: gives the host of a learner that is awake.
        devices: node -> its emulated device.
        policy: makes the policy of an inbox for missing messages.
        recorder: counts late messages.
        taking_part: round -> nodes that play it.
    """

    def __init__(
        self,
        table: LearnerTable,
        links: LinksOnDemand,
        host: Callable[[NodeId], LearnerHost],
        devices: Mapping[NodeId, DeviceProfile],
        policy: Callable[[], MissingPolicy],
        recorder: Recorder,
        taking_part: TakingPart,
    ) -> None:
        self.table, self.links, self._host, self._devices = table, links, host, devices
        self._policy, self._recorder, self._taking_part = policy, recorder, taking_part
        self._stations: dict[NodeId, BaseStation] = {}
        self._inboxes: dict[NodeId, Inbox] = {}
        self._next_round = 0
        self.context: StationContext | None = None  # set once the network is there, which delivers to the inboxes

    def inbox(self, node: NodeId) -> Inbox:
        """The inbox of a node, in the round that is played, or the next one."""
        if node not in self._inboxes:
            assert self.context is not None, "set before the first round"
            self._inboxes[node] = inbox = Inbox(self.context.env, self._policy(), self._recorder)
            inbox.begin_round(self._next_round)
        return self._inboxes[node]

    def put_away(self, round_index: int) -> None:
        """After a round: put to sleep who takes no part in the next one."""
        self._next_round = round_index + 1
        kept = self._taking_part(self._next_round)
        for client in self.table.sleep_but(kept):
            self._stations.pop(client, None)
            self.links.put_away(client)
            # with "stale" an inbox remembers what was said last
            if self._inboxes[client].state()["policy"] is None:
                del self._inboxes[client]

    def state(self) -> State:
        return {
            "learners": self.table.state(),
            "links": self.links.state(),
            "inboxes": {str(node): inbox.state() for node, inbox in self._inboxes.items()},
        }

    def restore(self, saved: SavedState, next_round: int) -> None:
        """Continue from a state with a round, with all clients asleep."""
        parts, self._next_round = saved.parts("learners", "links", "inboxes"), next_round
        self.table.restore(parts["learners"])
        self.links.restore(parts["links"])
        for node, one in parts["inboxes"].named().items():
            self.inbox(int(node)).restore(one, next_round)

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> BaseStation: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[BaseStation]: ...

    def __getitem__(self, index: int | slice) -> BaseStation | Sequence[BaseStation]:
        if isinstance(index, slice):
            return [self[node] for node in range(len(self))[index]]
        if index not in self._stations:
            assert self.context is not None, "set before the first round"
            host, device = self._host(index), self._devices[index]
            self._stations[index] = BaseStation(host, device, self.inbox(index), self.context)
        return self._stations[index]


class Deliveries(Mapping[NodeId, Callable[[Message], None]]):
    """Receiver -> function that takes its messages; an inbox is there when something arrives."""

    def __init__(self, nodes: SleepingNodes) -> None:
        self._nodes = nodes

    def __getitem__(self, node: NodeId) -> Callable[[Message], None]:
        return self._nodes.inbox(node).put

    def __iter__(self) -> Iterator[NodeId]:
        return iter(range(len(self._nodes)))

    def __len__(self) -> int:
        return len(self._nodes)


def _fifo_link(link: Link) -> FifoLink:
    assert isinstance(link, FifoLink), "clients sleep only where links go without events"
    return link


def _is_idle(link: Link) -> bool:
    """Whether a queue is as a new one: all that it accepted has been sent."""
    sender: Fifo = _fifo_link(link).sender
    return sender.free_at_s <= sender.env.now


def _is_empty(state: State) -> bool:
    return state is None or (isinstance(state, list) and all(map(_is_empty, state)))
