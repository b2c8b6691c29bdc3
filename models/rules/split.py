"""Models that are exchanged in part: encoders without what stands behind them (FedPer), or the reverse (LG-FedAvg)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...emulator.contracts import MessageKind, State
from ...emulator.saved_state import SavedState
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights
from ..training.client_setup import ClientSetup
from .local_rule import LocalRule
from .sgd import LocalSgd

#: What stands behind the encoders: fusion and head go together, because both read embeddings.
BEHIND = frozenset({MessageKind.ATTENTION, MessageKind.HEAD})


class SplitModel:
    """A rule whose vectors are exchanged only where they are of certain kinds; all of the model is trained.

    Args:
        rule: trains.
        kinds: of the vectors that are exchanged.
    """

    def __init__(self, rule: LocalRule, kinds: Collection[MessageKind]) -> None:
        self._rule, self._kinds = rule, kinds

    @property
    def flops(self) -> float:
        return self._rule.flops

    def shared(self, weights: Weights) -> list[SharedVector]:
        return [one for one in self._rule.shared(weights) if one.kind in self._kinds]

    def train(self, round_index: int) -> None:
        self._rule.train(round_index)

    def received(self) -> None:
        self._rule.received()

    def predict(self, inputs: Inputs) -> Logits:
        return self._rule.predict(inputs)

    def health(self) -> Mapping[str, float]:
        return self._rule.health()

    def state(self) -> State:
        return self._rule.state()

    def restore(self, saved: SavedState) -> None:
        self._rule.restore(saved)


def fedper(setup: ClientSetup) -> LocalRule:
    """Encoders are exchanged, fusion and head stay personal.

    Source: Arivazhagan et al. 2019, *Federated Learning with Personalization Layers*, the cut behind the encoders.
    """
    return SplitModel(LocalSgd(setup), {MessageKind.ENCODER})


def lg_fedavg(setup: ClientSetup) -> LocalRule:
    """Fusion and head are exchanged, encoders stay personal.

    Source: Liang et al. 2020, *Think Locally, Act Globally*, without its adversarial part.
    """
    return SplitModel(LocalSgd(setup), BEHIND)
