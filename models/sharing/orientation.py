"""Which end of its codebook a client calls the first: a vote among neighbors in round 0, before anything is trained.

Clients exchange how labels go with the features of untrained encoders (`label_trends`), and choose directions by a vote
(`sign_vote`). A client whose inputs do not tell, such as one with sweeps alone, listens first (`listening`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import (
    MODALITY_SPECS,
    Figures,
    Message,
    MessageKind,
    MessageSlot,
    Modality,
    NodeId,
    State,
)
from ...emulator.saved_state import SavedState
from ..sheaf.beam_frame import BeamFrame
from ..training.client_setup import ClientSetup
from .chained_learner import ChainPhase, FunctionExchange
from .label_trends import label_trends, spread_rows
from .payload import from_neighbors, to_neighbors, to_payload
from .sign_vote import STEPS, Said, SignVote, Step

#: Weight of sweeps beside 1 of other modalities: little is left of them that knows a direction.
WEIGHT_OF_SWEEPS = 0.3
KINDS = frozenset({MessageKind.ORIENTATION})


class Orientation:
    """One client's choice of a direction, and who takes part in what because of it.

    Args:
        setup: client whose labels are beams, with encoders that have not been trained.
        frame: of the client; turned where the vote says so.

    Attributes:
        frame: as given.
        vote: of the client.
        votes: whether its order is trusted and its labels go with anything; one that does not vote exchanges no heads.
    """

    def __init__(self, setup: ClientSetup, frame: BeamFrame) -> None:
        (self._model,) = setup.models.values()
        self._setup, self.frame = setup, frame
        self._shared: dict[NodeId, tuple[Modality, ...]] = {
            neighbor: tuple(m for m in self._model.modalities if neighbor in setup.mixing.get(m, {}))
            for neighbor in sorted(setup.head_mixing)
        }
        sweeps_alone = all(MODALITY_SPECS[modality].per_beam for modality in self._model.modalities)
        self.vote = SignVote(setup.client_id, needs_to_listen=sweeps_alone)
        self.votes = False
        # a neighbor of which nothing was heard is neither, and gets no heads
        self._voters, self._abstainers = frozenset[NodeId](), frozenset[NodeId]()
        self._trends: dict[Modality, Tensor] = {}

    def phases(self) -> list[ChainPhase]:
        """Phases of round 0, before anything is trained: evidence, then the steps of the vote."""
        flops = self._flops()

        def phase(number: int, step: Step) -> ChainPhase:
            said = FunctionExchange(KINDS, partial(self._say, step), self._expected, partial(self._hear, step))
            return ChainPhase(f"orient {number}", [said], in_round=_is_first)

        evidence = FunctionExchange(KINDS, self._show, self._expected, self._see)
        first = ChainPhase("orient", [evidence], work=self._look, flops=lambda: flops, in_round=_is_first)
        steps = [phase(number, step) for number, step in enumerate(STEPS, start=1)]
        return [first, *steps[:-1], replace(steps[-1], finish=self._settle)]

    def is_listening(self, round_index: int) -> bool:
        """Whether the client neither sends nor trains in this round."""
        return self.votes and self.vote.listens and round_index < self._setup.sheaf.listen_rounds

    def is_silent(self, neighbor: NodeId, round_index: int) -> bool:
        """Whether a neighbor sends nothing in this round."""
        return neighbor in self.vote.listeners and round_index < self._setup.sheaf.listen_rounds

    def shares_head_with(self, neighbor: NodeId) -> bool:
        """Whether heads are exchanged with a neighbor at all."""
        return self.votes and neighbor in self._voters

    def figures(self) -> Figures:
        """Direction, and by how much neighbors preferred it in the vote."""
        return {"turned": float(self.frame.turned), "direction_margin": self.vote.margin}

    def _flops(self) -> float:
        passes = 2 if self.frame.reads_sweeps else 1
        # a pass forward is a third of a step
        return passes * self._model.training_flops(self._setup.rows) / 3.0 * len(spread_rows(self._setup.rows))

    def _look(self, _round_index: int) -> None:
        draws = self._setup.common_draws(f"label trends of {self._setup.client_id}")
        self._trends, clear = label_trends(self._model, self.frame, self._setup.rows, draws)
        self.votes = clear and self.frame.is_trusted

    def _settle(self, _round_index: int) -> None:
        if self.vote.sign < 0.0:
            self.frame.turn(self._model.head.data)

    def _evidence(self, modalities: Iterable[Modality]) -> Tensor:
        """[1 + n * embedding_dim] whether the client votes, then the trends of these modalities; 0 if it does not."""
        votes = self._model.head.new_tensor([float(self.votes)])
        return torch.cat([votes, *(self._trends[modality].to(votes) * votes for modality in modalities)])

    def _show(self, phase: str, round_index: int) -> list[Message]:
        payloads = {neighbor: to_payload(self._evidence(shared)) for neighbor, shared in self._shared.items()}
        return to_neighbors(MessageKind.ORIENTATION, self._setup.client_id, payloads, phase, round_index)

    def _see(self, arrived: Sequence[Message]) -> None:
        """Evidence of every edge: the inner product of what both ends show."""
        for message in arrived:
            if message.payload[0] == 0.0:
                self._abstainers |= {message.sender}
                continue
            self._voters |= {message.sender}
            shared = self._shared[message.sender]
            own = to_payload(self._evidence(shared))[1:].astype(np.float64)
            products = (own * message.payload[1:]).reshape(len(shared), -1).sum(axis=1) if shared else np.zeros(0)
            weights = [WEIGHT_OF_SWEEPS if MODALITY_SPECS[modality].per_beam else 1.0 for modality in shared]
            self.vote.weights[message.sender] = float(np.dot(weights, products))

    def _say(self, step: Step, phase: str, round_index: int) -> list[Message]:
        if not self.votes:
            return []
        payloads = dict.fromkeys(self._shared, to_payload(self._model.head.new_tensor(self.vote.say(step))))
        return to_neighbors(MessageKind.ORIENTATION, self._setup.client_id, payloads, phase, round_index)

    def _hear(self, step: Step, arrived: Sequence[Message]) -> None:
        # who speaks, votes: its evidence may have been lost
        self._voters |= {message.sender for message in arrived}
        self.vote.hear(step, {message.sender: Said(*map(float, message.payload)) for message in arrived})

    def _expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        senders = [neighbor for neighbor in self._shared if neighbor not in self._abstainers]
        return from_neighbors(MessageKind.ORIENTATION, senders, phase, round_index)

    def state(self) -> State:
        return {
            "vote": self.vote.state(),
            "votes": self.votes,
            "voters": sorted(self._voters),
            "abstainers": sorted(self._abstainers),
            "trends": {str(modality): trend.numpy().copy() for modality, trend in self._trends.items()},
            "frame": self.frame.state(),
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("vote", "votes", "voters", "abstainers", "trends", "frame")
        self.vote.restore(parts["vote"])
        self.votes = parts["votes"].flag()
        self._voters, self._abstainers = (
            frozenset(one.count() for one in parts[name].listed()) for name in ("voters", "abstainers")
        )
        found, dim = parts["trends"].named(), self._model.fusion.blocks[0][1]
        if strange := sorted(found.keys() - {*self._model.modalities}):
            parts["trends"].refuse(f"name modalities among {', '.join(self._model.modalities)}", strange[0])
        self._trends = {
            modality: torch.from_numpy(found[modality].array(np.dtype(np.float64), dim))
            for modality in self._model.modalities
            if modality in found
        }
        self.frame.restore(parts["frame"])


def _is_first(round_index: int) -> bool:
    return round_index == 0
