"""State of a whole emulation between two rounds, from which a run continues bit for bit."""

from __future__ import annotations

from collections.abc import Iterable

from ...emulator.contracts import Link, NodeId, State
from ...emulator.network.fifo import Fifo, FifoLink
from ...emulator.network.medium import Medium, Sender
from ...emulator.network.port import Port, PortLink
from ...emulator.saved_state import SavedState, optional_state, restore_optional
from ..wiring.emulation import Emulation


def emulation_state(emulation: Emulation) -> State:
    """State tree of clock and streams, counters, messages in queues and on air, links, inboxes and learners."""
    if emulation.nodes is not None:
        return {
            "clock": emulation.env.state(),
            "recorder": emulation.recorder.state(),
            "network": emulation.network.state(),
            "nodes": emulation.nodes.state(),
        }
    senders = _senders(emulation.links.values())
    ports = [sender for sender in senders if isinstance(sender, Port)]
    # objects cannot be stored: a message on air names its queue by number
    numbers: dict[Sender, int] = {port: number for number, port in enumerate(ports)}
    return {
        "clock": emulation.env.state(),
        "recorder": emulation.recorder.state(),
        "network": emulation.network.state(),
        "channels": {_edge_name(*ends): optional_state(_channel(link)) for ends, link in emulation.links.items()},
        "senders": [sender.state() for sender in senders],
        "media": [medium.state(numbers) for medium in _media(ports)],
        "radio": optional_state(emulation.radio),
        "inboxes": {str(node): inbox.state() for node, inbox in emulation.inboxes.items()},
        "learners": [ticket.result() for ticket in [host.state() for host in emulation.hosts]],
    }


def restore_emulation(emulation: Emulation, saved: SavedState, next_round: int) -> None:
    """Restore the state of an emulation that was built to start at the instant of that state.

    Args:
        emulation: emulation built from the same scenario.
        saved: state from `emulation_state`.
        next_round: first round to play; messages of those before are late.

    Raises:
        KeyError, ValueError: the state is that of another emulation; of these, `ConfigError` names the part.
    """
    emulation.env.restore(saved.part("clock"))
    emulation.recorder.restore(saved.part("recorder"))
    if emulation.nodes is not None:
        # before what is on air, which is delivered to their inboxes
        emulation.nodes.restore(saved.part("nodes"), next_round)
        emulation.network.restore(saved.part("network"))
        return
    channels, inboxes = saved.part("channels"), saved.part("inboxes")
    for ends, link in emulation.links.items():
        restore_optional(_channel(link), channels.part(_edge_name(*ends)))
    restore_optional(emulation.radio, saved.part("radio"))
    for node, inbox in emulation.inboxes.items():
        inbox.restore(inboxes.part(str(node)), next_round)
    learners = saved.part("learners").listed(len(emulation.hosts))
    # all are started before the first is waited for: worker processes restore side by side
    restored = [host.restore(learner.state) for host, learner in zip(emulation.hosts, learners, strict=True)]
    for ticket in restored:
        ticket.result()
    # before the queues, which refer to its messages
    offers = emulation.network.restore(saved.part("network"))
    senders = _senders(emulation.links.values())
    for sender, one in zip(senders, saved.part("senders").listed(len(senders)), strict=True):
        if isinstance(sender, Port):
            sender.restore(one, offers)
        else:
            sender.restore(one)
    ports = [sender for sender in senders if isinstance(sender, Port)]
    media = _media(ports)
    for medium, carried in zip(media, saved.part("media").listed(len(media)), strict=True):
        medium.restore(carried, ports)


def _channel(link: Link) -> object:
    return link.channel if isinstance(link, FifoLink | PortLink) else None


def _senders(links: Iterable[Link]) -> list[Fifo | Port]:
    """Queues of all links, each once, in the order of their first links."""
    return list(dict.fromkeys(link.sender for link in links if isinstance(link, FifoLink | PortLink)))


def _media(ports: Iterable[Port]) -> list[Medium]:
    return list(dict.fromkeys(port.medium for port in ports))


def _edge_name(sender: NodeId, receiver: NodeId) -> str:
    return f"{sender}-{receiver}"
