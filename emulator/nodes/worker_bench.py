"""Where a worker process does its work: asked in packets, answering in packets, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..contracts import Learner, Message, MessageKind, NodeId
from ..network.transport.errors import WireError
from ..network.transport.packed_messages import pack_messages, pack_phases, pack_slots, unpack_messages
from ..network.transport.packed_trees import check_row, pack_tree, unpack_tree
from ..network.transport.packets import Frame, Packet
from .learner_host import Arrived, Observe, take_look, take_turn
from .told_errors import told


class Bench:
    """What a worker works on.

    Args:
        learners: of its clients.
        kinds: what their algorithm may send.
        observe: reports on them.
    """

    def __init__(self, learners: Mapping[NodeId, Learner], kinds: frozenset[MessageKind], observe: Observe) -> None:
        self._learners, self._kinds, self._observe = learners, kinds, observe

    def answer(self, asked: Packet) -> Packet:
        """Do what is asked; what goes wrong is an answer, too."""
        try:
            learner = self._learners.get(asked.fields["client"])
            if learner is None:
                raise WireError(f"client {asked.fields['client']} does not live here")
            return _ANSWERS[asked.type](self, learner, asked)
        except Exception as error:  # noqa: BLE001 - told to the engine, which raises it
            name, sentence = told(error)
            return Packet("failed", {"ticket": asked.fields["ticket"], "error": name, "sentence": sentence})

    def _phases(self, learner: Learner, asked: Packet) -> Packet:
        return _done(asked, {"phases": pack_phases(learner.phases(asked.fields["round"]))})

    def _turn(self, learner: Learner, asked: Packet) -> Packet:
        turn = take_turn(learner, self._arrived(asked), asked.fields["phase"], asked.fields["round"])
        frames: list[Frame] = []
        packed = {"messages": pack_messages(turn.messages, frames), "expected": pack_slots(turn.expected)}
        return _done(asked, packed, frames)

    def _look(self, learner: Learner, asked: Packet) -> Packet:
        round_index = asked.fields["round"]
        row = dict(take_look(learner, self._observe, self._arrived(asked), round_index))
        check_row(row)
        # What the next round costs may depend on what this one has left: it is known now, and needs no question then.
        phases = pack_phases(learner.phases(round_index + 1))
        return _done(asked, {"row": row, "phases": phases})

    def _state(self, learner: Learner, asked: Packet) -> Packet:
        frames: list[Frame] = []
        return _done(asked, pack_tree(learner.state(), frames), frames)

    def _restore(self, learner: Learner, asked: Packet) -> Packet:
        learner.restore(unpack_tree(asked.fields, asked.frames))
        return _done(asked, {})

    def _arrived(self, asked: Packet) -> Arrived | None:
        ended = asked.fields["arrived"]
        messages: list[Message] = unpack_messages(asked.fields["messages"], asked.frames, self._kinds)
        if ended is None:
            return None
        if list(map(type, ended)) != [str, int]:
            raise WireError("a phase that has ended is a name and a round")
        phase, round_index = ended
        return Arrived(phase, round_index, messages)


_ANSWERS: Mapping[str, Callable[[Bench, Learner, Packet], Packet]] = {
    "phases": Bench._phases,
    "turn": Bench._turn,
    "look": Bench._look,
    "state": Bench._state,
    "restore": Bench._restore,
}
#: Types of packets that a bench answers.
ASKED = frozenset(_ANSWERS)


def pack_arrived(arrived: Arrived | None, frames: list[Frame]) -> dict[str, Any]:
    """The fields that carry a phase that has ended."""
    if arrived is None:
        return {"arrived": None, "messages": []}
    return {
        "arrived": [arrived.phase, arrived.round_index],
        "messages": pack_messages(arrived.messages, frames),
    }


def _done(asked: Packet, fields: Mapping[str, Any], frames: list[Frame] | None = None) -> Packet:
    return Packet(f"{asked.type}_done", {"ticket": asked.fields["ticket"], **fields}, frames or [])
