"""Decentralised parallel SGD on whole models, which only neighbors with the same modalities can average.

The variant that averages what local steps made of models, x <- W (x - step(x)), is the rule `sgd` among neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...emulator.contracts import Learner, Message, MessageKind, MessageSlot, State
from ...emulator.saved_state import Parts, SavedState
from ..rules.sgd import LocalSgd
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.train_then_mix import MIX, group_weights
from ..sharing.vector_gossip import SharedVector, VectorGossip, consensus_figures
from ..state.tensors import restored_tensor, to_array
from ..training.client_setup import ClientSetup


def dpsgd(setup: ClientSetup) -> Learner:
    """The variant as first published: neighbors average the models that they started from, x <- W x - step(x).

    Averaging does not wait for the gradient, so both can go on at the same time. Source: Lian et al. 2017, algorithm 1.
    """
    models = LocalSgd(setup)
    shared = models.shared(group_weights(setup))
    gossip = VectorGossip(setup.client_id, shared, setup.sharing)
    starts = AveragedStarts(gossip, [_trained_part(one, models) for one in shared], models)
    return ChainedLearner(
        setup.client_id,
        [ChainPhase(MIX, [starts], flops=lambda: models.flops)],
        parts=Parts(models=models, before=starts, gossip=gossip),
        models=models.predict,
        figures=lambda: {**models.health(), **consensus_figures([gossip])},
    )


class AveragedStarts:
    """The exchange of models as they were at the start of a round, with the round's training inside it.

    Running statistics are no variables of SGD: neighbors' old ones are averaged with the own new ones, because a step
    taken off an average smaller than its start could leave a negative variance.

    Args:
        gossip: averages shared vectors.
        parameters: views of the trained parts of these vectors.
        models: trained once the messages are made.
    """

    def __init__(self, gossip: VectorGossip, parameters: Sequence[Tensor], models: LocalSgd) -> None:
        self._gossip, self._parameters, self._models = gossip, parameters, models
        self._before: list[Tensor] = []  # from `messages` to `absorb` only

    @property
    def kinds(self) -> frozenset[MessageKind]:
        return self._gossip.kinds

    def messages(self, phase: str, round_index: int) -> list[Message]:
        messages = self._gossip.messages(phase, round_index)
        self._before = [values.clone() for values in self._parameters]
        self._models.train(round_index)
        return messages

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index)

    def absorb(self, arrived: Sequence[Message]) -> None:
        trained = [values.clone() for values in self._parameters]
        for values, before in zip(self._parameters, self._before, strict=True):
            values.copy_(before)
        self._gossip.absorb(arrived)
        for values, before, after in zip(self._parameters, self._before, trained, strict=True):
            values.copy_(after + (values - before))  # the same as W x - step(x), and exactly `after` where none arrived
        self._before = []

    def state(self) -> State:
        return [to_array(values) for values in self._before]

    def restore(self, saved: SavedState) -> None:
        likes = [] if saved.state == [] else self._parameters
        self._before = [restored_tensor(one, like) for one, like in zip(saved.listed(len(likes)), likes, strict=True)]


def _trained_part(one: SharedVector, models: LocalSgd) -> Tensor:
    """View of the trained part of a vector; what follows it are an encoder's running statistics."""
    return one.vector[: len(one.vector if one.modality is None else models.encoders[one.modality].trainable)]
