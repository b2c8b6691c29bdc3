"""Calls of the engine to the learners of a worker process: requests and replies are packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..contracts import Learner, Message, MessageKind, NodeId
from ..network.transport.errors import WireError, describe_error
from ..network.transport.packed_messages import pack_messages, pack_phases, pack_slots, unpack_messages
from ..network.transport.packed_trees import check_row, pack_tree, unpack_tree
from ..network.transport.packets import Frame, Packet
from .learner_host import Observe, PhaseInput, compute_phase, report_round


class LearnerCalls:
    """Executes calls on the learners of a worker process, one after another.

    Args:
        learners: client -> its learner.
        kinds: kinds of messages that their algorithm declares.
        observe: makes the fields of their observations.
    """

    def __init__(self, learners: Mapping[NodeId, Learner], kinds: frozenset[MessageKind], observe: Observe) -> None:
        self._learners, self._kinds, self._observe = learners, kinds, observe

    def execute(self, call: Packet) -> Packet:
        """Execute a call, and return its reply; an error is a reply, too."""
        try:
            learner = self._learners.get(call.fields["client"])
            if learner is None:
                raise WireError(f"client {call.fields['client']} does not live here")
            return _CALLS[call.type](self, learner, call)
        except Exception as error:  # noqa: BLE001 - sent to the engine, which raises it
            name, sentence = describe_error(error)
            return Packet("failed", {"ticket": call.fields["ticket"], "error": name, "sentence": sentence})

    def _phases(self, learner: Learner, call: Packet) -> Packet:
        return _done(call, {"phases": pack_phases(learner.phases(call.fields["round"]))})

    def _compute(self, learner: Learner, call: Packet) -> Packet:
        output = compute_phase(learner, self._arrived(call), call.fields["phase"], call.fields["round"])
        frames: list[Frame] = []
        packed = {"messages": pack_messages(output.messages, frames), "expected": pack_slots(output.expected)}
        return _done(call, packed, frames)

    def _report(self, learner: Learner, call: Packet) -> Packet:
        round_index = call.fields["round"]
        row = dict(report_round(learner, self._observe, self._arrived(call), round_index))
        # Found here, where the learner is, instead of as a malformed packet at the engine.
        check_row(row)
        # The cost of the next round may depend on the result of this one: sent along, it saves a request later.
        phases = pack_phases(learner.phases(round_index + 1))
        return _done(call, {"row": row, "phases": phases})

    def _state(self, learner: Learner, call: Packet) -> Packet:
        frames: list[Frame] = []
        return _done(call, pack_tree(learner.state(), frames), frames)

    def _restore(self, learner: Learner, call: Packet) -> Packet:
        learner.restore(unpack_tree(call.fields, call.frames))
        return _done(call, {})

    def _arrived(self, call: Packet) -> PhaseInput | None:
        ended = call.fields["arrived"]
        messages: list[Message] = unpack_messages(call.fields["messages"], call.frames, self._kinds)
        if ended is None:
            return None
        if list(map(type, ended)) != [str, int]:
            raise WireError("a phase that has ended is a name and a round")
        phase, round_index = ended
        return PhaseInput(phase, round_index, messages)


_CALLS: Mapping[str, Callable[[LearnerCalls, Learner, Packet], Packet]] = {
    "phases": LearnerCalls._phases,
    "turn": LearnerCalls._compute,
    "look": LearnerCalls._report,
    "state": LearnerCalls._state,
    "restore": LearnerCalls._restore,
}
#: Types of packets that are calls.
CALL_TYPES = frozenset(_CALLS)


def pack_arrived(arrived: PhaseInput | None, frames: list[Frame]) -> dict[str, Any]:
    """Fields of a packet that carry the messages of a phase that has ended."""
    if arrived is None:
        return {"arrived": None, "messages": []}
    return {
        "arrived": [arrived.phase, arrived.round_index],
        "messages": pack_messages(arrived.messages, frames),
    }


def _done(call: Packet, fields: Mapping[str, Any], frames: list[Frame] | None = None) -> Packet:
    return Packet(f"{call.type}_done", {"ticket": call.fields["ticket"], **fields}, frames or [])
