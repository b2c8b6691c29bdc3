"""Message buffers of a node: `Inbox` for nodes that wait for a phase's messages, `Mailbox` for those that do not."""

from __future__ import annotations

from collections.abc import Generator

import simpy

from ..contracts import Message, MessageSlot, State
from ..recorder import Recorder
from ..saved_state import SavedState
from .missing import MissingPolicy, Topic, topic_of


class Inbox:
    """Inbox of a node in synchronous mode: files messages by slot; early ones are kept, late ones go to the policy.

    A round is over when its last phase has ended, or when the node leaves it; what arrives for it then is late.

    Args:
        env: the simulated clock.
        policy: decides about missing and late messages.
        recorder: counts late messages.
    """

    def __init__(self, env: simpy.Environment, policy: MissingPolicy, recorder: Recorder) -> None:
        self._env, self._policy, self._recorder = env, policy, recorder
        self._arrived: dict[MessageSlot, Message] = {}
        self._awaited: set[MessageSlot] = set()
        self._complete: simpy.Event | None = None
        self._round_index = 0
        self._ended: set[str] = set()

    def state(self) -> State:
        """State between two rounds, when no phase is open."""
        return {"policy": self._policy.state()}

    def restore(self, saved: SavedState, next_round: int) -> None:
        """Go on with a round; messages of those before are late."""
        self.begin_round(next_round)
        self._policy.restore(saved.part("policy"))

    def begin_round(self, round_index: int) -> None:
        """Start a round: all rounds before it are over."""
        self._round_index = round_index
        # Phases have the same names in every round.
        self._ended.clear()
        self._arrived = {slot: message for slot, message in self._arrived.items() if slot.round_index >= round_index}

    def put(self, message: Message) -> None:
        """Take a message that has arrived now."""
        slot, now = message.slot, self._round_index
        # Over is what belongs to a round before, or to a phase of this one that has ended.
        if slot.round_index < now or (slot.round_index == now and slot.phase in self._ended):
            self._recorder.late(message)
            self._policy.late(message)
            return
        self._arrived[slot] = message
        self._awaited.discard(slot)
        if self._complete is not None and not self._awaited and not self._complete.triggered:
            self._complete.succeed()

    def gather(
        self, round_index: int, phase: str, expected: frozenset[MessageSlot], deadline_s: float | None
    ) -> Generator[simpy.Event, object, list[Message]]:
        """Wait until all expected messages are there or the deadline has come; then the phase has ended.

        Args:
            round_index, phase: round and name of the phase.
            expected: slots to wait for.
            deadline_s: simulated instant; None waits without limit.

        Returns:
            messages to absorb, by the missing-message policy, ordered by sender, kind and modality.
        """
        if round_index > self._round_index:
            self.begin_round(round_index)
        # Messages of neighbors that are ahead may have arrived before this node expects them.
        self._awaited = {slot for slot in expected if slot not in self._arrived}
        if self._awaited:
            self._complete = self._env.event()
            if deadline_s is None or self._policy.waits:
                yield self._complete
            else:
                yield self._complete | self._env.timeout(max(0.0, deadline_s - self._env.now))
            self._complete = None
        self._ended.add(phase)  # from now on messages of this phase are late
        arrived = {slot: self._arrived.pop(slot) for slot in expected if slot in self._arrived}
        messages = self._policy.complete(expected, arrived)
        # Sums of floats depend on their order, and a set has none: without sorting, runs would not repeat.
        return sorted(messages, key=lambda m: (m.sender, m.kind, m.modality or ""))


class Mailbox:
    """Mailbox of a node in asynchronous mode: keeps the newest message of every topic, and gives each out once.

    A message used twice would pull twice towards an old state of its sender. With the policy `Skip`, the weight of a
    neighbor without a new message stays with the own model; with `Stale`, its last message counts until a newer comes.

    Args:
        policy: decides about missing and overtaken messages.
        recorder: counts overtaken messages.
    """

    def __init__(self, policy: MissingPolicy, recorder: Recorder) -> None:
        self._policy, self._recorder = policy, recorder
        self._unread: dict[Topic, Message] = {}
        self._newest: dict[Topic, int] = {}

    def put(self, message: Message) -> None:
        """Take a message that has arrived now; of two about one topic only the newer one will be used."""
        topic = topic_of(message.slot)
        # Also against messages that were taken already: an older state must not follow a newer one.
        if message.round_index < self._newest.get(topic, 0):  # a later message has overtaken it on the link
            self._recorder.overtaken(message)
            self._policy.late(message)
            return
        self._newest[topic] = message.round_index
        if (unread := self._unread.get(topic)) is not None:
            self._recorder.overtaken(unread)
            self._policy.late(unread)
        self._unread[topic] = message

    def take(self, expected: frozenset[MessageSlot]) -> list[Message]:
        """Messages to absorb about these topics, of any round, ordered by sender, kind and modality."""
        taken = {slot: self._unread.pop(topic_of(slot)) for slot in expected if topic_of(slot) in self._unread}
        messages = self._policy.complete(expected, taken)
        return sorted(messages, key=lambda m: (m.sender, m.kind, m.modality or ""))
