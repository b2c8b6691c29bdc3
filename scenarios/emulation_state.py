"""The state of a whole emulation between two rounds: all that a run needs to go on as if it had never stopped."""

from __future__ import annotations

from ..emulator.contracts import NodeId, State
from .build import Emulation


def emulation_state(emulation: Emulation) -> State:
    """Clock, counters, messages on air, links, inboxes and learners."""
    return {
        "now_s": emulation.env.now,
        "recorder": emulation.recorder.state(),
        "network": emulation.network.state(),
        "links": {_edge_name(*ends): link.state() for ends, link in emulation.links.items()},
        "inboxes": {str(node): inbox.state() for node, inbox in emulation.inboxes.items()},
        "learners": [learner.state() for learner in emulation.learners],
    }


def restore_emulation(emulation: Emulation, state: State, next_round: int) -> None:
    """Let an emulation that was built to start at the state's instant go on from there."""
    emulation.recorder.restore(state["recorder"])
    for ends, link in emulation.links.items():
        link.restore(state["links"][_edge_name(*ends)])
    for node, inbox in emulation.inboxes.items():
        inbox.restore(state["inboxes"][str(node)], next_round)
    for learner, learned in zip(emulation.learners, state["learners"], strict=True):
        learner.restore(learned)
    emulation.network.restore(state["network"])


def _edge_name(sender: NodeId, receiver: NodeId) -> str:
    return f"{sender}-{receiver}"
