"""Access of a base station to a learner in a worker process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from ..contracts import Message, MessageKind, NodeId, Phase, State
from ..network.transport.errors import WireError
from ..network.transport.packed_messages import unpack_messages, unpack_phases, unpack_slots
from ..network.transport.packed_trees import check_row, pack_tree, unpack_tree
from ..network.transport.packets import Frame, Packet
from .learner_host import PhaseInput, PhaseOutput
from .worker_calls import pack_arrived
from .worker_server import WorkerServer


class RemoteHost:
    """`LearnerHost` of a learner in a worker process. Clock, links and inbox of its client stay in the engine.

    Args:
        client_id: id of the learner's client.
        kinds: kinds of messages that its algorithm declares.
        server: carries the requests to its worker.
    """

    def __init__(self, client_id: NodeId, kinds: Collection[MessageKind], server: WorkerServer) -> None:
        self.client_id = client_id
        self._kinds, self._server = kinds, server
        self._phases: dict[int, tuple[Phase, ...]] = {}

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        if round_index not in self._phases:  # in the first round, and after a restore
            found: Future[tuple[Phase, ...]] = self._server.request(
                self.client_id, "phases", {"round": round_index}, _phases_in
            )
            self._phases = {round_index: found.result()}
        return self._phases[round_index]

    def compute(self, arrived: PhaseInput | None, phase: str, round_index: int) -> Future[PhaseOutput]:
        frames: list[Frame] = []
        fields = {"round": round_index, "phase": phase, **pack_arrived(arrived, frames)}

        def read(reply: Packet) -> PhaseOutput:
            messages = unpack_messages(reply.fields["messages"], reply.frames, self._kinds)
            for message in messages:
                self._check(message, phase, round_index)
            expected = unpack_slots(reply.fields["expected"])
            # A slot of another phase would never be filled, and the node would wait for its deadline in every round.
            if any((slot.round_index, slot.phase) != (round_index, phase) for slot in expected):
                raise WireError(f"client {self.client_id} expects messages of another phase")
            return PhaseOutput(messages, expected)

        return self._server.request(self.client_id, "turn", fields, read, frames)

    def report(self, arrived: PhaseInput | None, round_index: int) -> Future[Mapping[str, Any]]:
        frames: list[Frame] = []
        fields = {"round": round_index, **pack_arrived(arrived, frames)}

        def read(reply: Packet) -> Mapping[str, Any]:
            row: Mapping[str, Any] = reply.fields["row"]
            check_row(row)
            self._phases = {round_index + 1: _phases_in(reply)}
            return row

        return self._server.request(self.client_id, "look", fields, read, frames)

    def state(self) -> Future[State]:
        return self._server.request(self.client_id, "state", {}, _tree_in)

    def restore(self, state: State) -> Future[None]:
        frames: list[Frame] = []
        # What was known of the next round was known of another state.
        self._phases = {}
        return self._server.request(self.client_id, "restore", pack_tree(state, frames), lambda _: None, frames)

    def _check(self, message: Message, phase: str, round_index: int) -> None:
        if (message.sender, message.phase, message.round_index) != (self.client_id, phase, round_index):
            raise WireError(f"client {self.client_id} answers with a message of another client or phase")
        # Losses are for links to decide.
        if message.received is not None:
            raise WireError(f"client {self.client_id} sends a message that has lost coordinates")


def _phases_in(reply: Packet) -> tuple[Phase, ...]:
    return unpack_phases(reply.fields["phases"])


def _tree_in(reply: Packet) -> State:
    return unpack_tree(reply.fields, reply.frames)
