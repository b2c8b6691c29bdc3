"""What a client does about messages that did not come: a policy of the scenario, not a branch in the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..contracts import Message, MessageKind, MessageSlot, Modality, NodeId, State
from ..saved_state import SavedState

#: Phase, sender, kind and modality.
Topic = tuple[str, NodeId, MessageKind, Modality | None]


class MissingPolicy(Protocol):
    """Decides what a learner absorbs when a phase ends.

    Attributes:
        waits: the node waits until everything is there, and links repeat until it is.
    """

    waits: bool

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        """Messages to absorb."""
        ...

    def late(self, message: Message) -> None:
        """A message came after its phase."""
        ...

    def state(self) -> State:
        """Messages that it may use again."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Take such messages over."""
        ...


class Skip:
    """Do without: a neighbor that was not heard neither pulls nor is averaged."""

    waits = False

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        return list(arrived.values())

    def late(self, message: Message) -> None:
        """Too late is lost."""

    def state(self) -> State:
        return None

    def restore(self, saved: SavedState) -> None:
        """No message is used twice."""


class Wait(Skip):
    """Go on only when everything has come; links repeat without limit."""

    waits = True


class Stale:
    """Use what the neighbor said last, also for single packets that were lost; late messages count as said."""

    waits = False

    def __init__(self) -> None:
        self._said: dict[Topic, Message] = {}

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        messages = []
        for slot in expected:
            message = arrived.get(slot)
            if message is not None:
                self._remember(message)
            said = self._said.get(topic_of(slot))
            if said is not None:
                messages.append(said)
        return messages

    def late(self, message: Message) -> None:
        self._remember(message)

    def state(self) -> State:
        return [_plain(message) for message in self._said.values()]

    def restore(self, saved: SavedState) -> None:
        messages = [_message(one) for one in saved.listed()]
        self._said = {topic_of(message.slot): message for message in messages}

    def _remember(self, message: Message) -> None:
        """Keep the newest value of every coordinate; a message that was overtaken on its way only fills gaps."""
        before = self._said.get(topic_of(message.slot))
        if before is not None and before.round_index > message.round_index:
            before, message = message, before
        if before is not None and message.received is not None:
            payload = np.where(message.received, message.payload, before.payload)
            known = None if before.received is None else message.received | before.received
            message = replace(message, payload=payload, received=None if known is None or known.all() else known)
        self._said[topic_of(message.slot)] = message


def topic_of(slot: MessageSlot) -> Topic:
    """What a message is about, whatever its round."""
    return slot.phase, slot.sender, slot.kind, slot.modality


def _plain(message: Message) -> State:
    return {
        "kind": str(message.kind), "sender": message.sender, "receiver": message.receiver, "round": message.round_index,
        "phase": message.phase, "payload": message.payload, "modality": message.modality, "received": message.received,
    }  # fmt: skip


def _message(saved: SavedState) -> Message:
    plain = {name: saved.part(name) for name in ("kind", "sender", "receiver", "round", "phase", "payload")}
    return Message(
        MessageKind(plain["kind"].text()),
        plain["sender"].count(),
        plain["receiver"].count(),
        plain["round"].count(),
        plain["phase"].text(),
        plain["payload"].state,
        saved.part("modality").state,
        saved.part("received").state,
    )


MISSING_POLICIES: dict[str, type[Skip] | type[Stale] | type[Wait]] = {"skip": Skip, "stale": Stale, "wait": Wait}
