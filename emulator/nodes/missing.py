"""Policies for messages that do not arrive in time; a scenario names one of `MISSING_POLICIES`."""

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
    """Decision about what a learner absorbs when a phase ends.

    Attributes:
        waits: the node waits until every expected message has arrived, and links repeat until it has.
    """

    waits: bool

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        """Messages to absorb, out of those that arrived and those that the policy has kept."""
        ...

    def late(self, message: Message) -> None:
        """Take note of a message that arrived after its phase, or was overtaken by a newer one."""
        ...

    def state(self) -> State:
        """Messages that it may use again."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Take such messages over."""
        ...


class Skip:
    """Policy "skip": a neighbor without a message neither pulls nor is averaged."""

    waits = False

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        return list(arrived.values())

    def late(self, message: Message) -> None:
        """Late messages are dropped."""

    def state(self) -> State:
        return None

    def restore(self, saved: SavedState) -> None:
        """No message is used twice."""


class Wait(Skip):
    """Policy "wait": a phase ends only when everything has arrived; links repeat without limit."""

    waits = True


class Stale:
    """Policy "stale": the last value of the neighbor stands in, also for single packets that were lost.

    Late messages update that value.
    """

    waits = False

    def __init__(self) -> None:
        self._last: dict[Topic, Message] = {}

    def complete(self, expected: frozenset[MessageSlot], arrived: Mapping[MessageSlot, Message]) -> list[Message]:
        messages = []
        # In any order: the inbox sorts what comes out.
        for slot in expected:
            message = arrived.get(slot)
            if message is not None:
                self._remember(message)
            last = self._last.get(topic_of(slot))
            if last is not None:
                messages.append(last)
        return messages

    def late(self, message: Message) -> None:
        self._remember(message)

    def state(self) -> State:
        return [_plain(message) for message in self._last.values()]

    def restore(self, saved: SavedState) -> None:
        messages = [_message(one) for one in saved.listed()]
        self._last = {topic_of(message.slot): message for message in messages}

    def _remember(self, message: Message) -> None:
        """Keep the newest value of every coordinate; a message that was overtaken on its way only fills gaps."""
        before = self._last.get(topic_of(message.slot))
        # The newer of the two counts, in whatever order they came; the older one only fills its gaps.
        if before is not None and before.round_index > message.round_index:
            before, message = message, before
        if before is not None and message.received is not None:
            payload = np.where(message.received, message.payload, before.payload)
            # A coordinate that has never arrived stays unknown.
            known = None if before.received is None else message.received | before.received
            message = replace(message, payload=payload, received=None if known is None or known.all() else known)
        self._last[topic_of(message.slot)] = message


def topic_of(slot: MessageSlot) -> Topic:
    """Topic of a message: its slot without the round."""
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
