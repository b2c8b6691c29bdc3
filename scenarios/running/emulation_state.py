"""The state of a whole emulation between two rounds: all that a run needs to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Iterable

from ...emulator.contracts import Link, NodeId, State
from ...emulator.network.fifo import Fifo, FifoLink
from ...emulator.network.medium import Medium, Sender
from ...emulator.network.port import Port, PortLink
from ...emulator.state_tree import restore_to, state_of
from ..wiring.emulation import Emulation


def emulation_state(emulation: Emulation) -> State:
    """Clock and streams, counters, messages in queues and on air, links, inboxes and learners."""
    senders = _senders(emulation.links.values())
    ports = [sender for sender in senders if isinstance(sender, Port)]
    numbers: dict[Sender, int] = {port: number for number, port in enumerate(ports)}
    return {
        "clock": emulation.env.state(),
        "recorder": emulation.recorder.state(),
        "network": emulation.network.state(),
        "channels": {_edge_name(*ends): state_of(_channel(link)) for ends, link in emulation.links.items()},
        "senders": [sender.state() for sender in senders],
        "media": [medium.state(numbers) for medium in _media(ports)],
        "radio": state_of(emulation.radio),
        "inboxes": {str(node): inbox.state() for node, inbox in emulation.inboxes.items()},
        "learners": [ticket.result() for ticket in [host.state() for host in emulation.hosts]],
    }


def restore_emulation(emulation: Emulation, state: State, next_round: int) -> None:
    """Let an emulation that was built to start at the state's instant go on from there.

    Raises:
        KeyError, TypeError, ValueError, IndexError: the state is that of another emulation.
        ConfigError: a learner's is.
    """
    emulation.env.restore(state["clock"])
    emulation.recorder.restore(state["recorder"])
    for ends, link in emulation.links.items():
        restore_to(_channel(link), state["channels"][_edge_name(*ends)])
    restore_to(emulation.radio, state["radio"])
    for node, inbox in emulation.inboxes.items():
        inbox.restore(state["inboxes"][str(node)], next_round)
    restored = [host.restore(learned) for host, learned in zip(emulation.hosts, state["learners"], strict=True)]
    for ticket in restored:
        ticket.result()
    offers = emulation.network.restore(state["network"])
    senders = _senders(emulation.links.values())
    for sender, remembered in zip(senders, state["senders"], strict=True):
        if isinstance(sender, Port):
            sender.restore(remembered, offers)
        else:
            sender.restore(remembered)
    ports = [sender for sender in senders if isinstance(sender, Port)]
    for medium, carried in zip(_media(ports), state["media"], strict=True):
        medium.restore(carried, ports)


def _channel(link: Link) -> object:
    return link.channel if isinstance(link, FifoLink | PortLink) else None


def _senders(links: Iterable[Link]) -> list[Fifo | Port]:
    """Each once, in the order of their first links."""
    return list(dict.fromkeys(link.sender for link in links if isinstance(link, FifoLink | PortLink)))


def _media(ports: Iterable[Port]) -> list[Medium]:
    return list(dict.fromkeys(port.medium for port in ports))


def _edge_name(sender: NodeId, receiver: NodeId) -> str:
    return f"{sender}-{receiver}"
