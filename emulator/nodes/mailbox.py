"""A node's mailbox when nobody waits: the newest that every neighbor has said about every topic, until it is used."""

from __future__ import annotations

from ..contracts import Message, MessageSlot
from ..recorder import Recorder
from .missing import MissingPolicy, Topic, topic_of


class Mailbox:
    """Keeps the newest message of every topic. Each is taken once; what comes again and again is up to the policy.

    A message used twice would pull twice towards what its sender was, and an average in which it counts again is no
    average of anybody's models: with `Skip` the weight of whoever has said nothing new stays with the own model. With
    `Stale` the last words count until newer ones come.
    """

    def __init__(self, policy: MissingPolicy, recorder: Recorder) -> None:
        self._policy, self._recorder = policy, recorder
        self._unread: dict[Topic, Message] = {}
        self._newest: dict[Topic, int] = {}

    def put(self, message: Message) -> None:
        """A message is there now; of two about one topic only the newer one will be used."""
        topic = topic_of(message.slot)
        if message.round_index < self._newest.get(topic, 0):
            self._recorder.overtaken(message)
            self._policy.late(message)
            return
        self._newest[topic] = message.round_index
        if (unread := self._unread.get(topic)) is not None:
            self._recorder.overtaken(unread)
            self._policy.late(unread)
        self._unread[topic] = message

    def take(self, expected: frozenset[MessageSlot]) -> list[Message]:
        """What there is to absorb about these topics, of whatever round, ordered by sender, kind and modality."""
        taken = {slot: self._unread.pop(topic_of(slot)) for slot in expected if topic_of(slot) in self._unread}
        messages = self._policy.complete(expected, taken)
        return sorted(messages, key=lambda m: (m.sender, m.kind, m.modality or ""))
