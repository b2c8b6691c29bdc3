"""A sign for every client, so that those of neighbors agree with the evidence on their edge, by messages alone.

Evidence w_ij > 0 says that neighbors have the same sign, w_ij < 0 that they have not. First signs spread from the
client with the lowest number: every other one takes the mean of what its neighbors say, each times its evidence, which
is diffusion along the sheaf whose maps are these signs. So a group of clients that agree among themselves is turned as
a whole. Then single clients flip while all their neighbors together say so, the one that gains most first.

Source: synchronization over Z2; order of the flips: maximum gain messages (Maheswaran, Pearce, Tambe 2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from statistics import median
from typing import NamedTuple

from ...emulator.contracts import NodeId, State
from ...emulator.saved_state import SavedState

#: Of the median margin of a client and its neighbors; a lower one does not tell which end is which.
CLEAR_SHARE = 0.35


class Step(Enum):
    """What a round of messages is for."""

    SPREAD = "spread"
    FLIP = "flip"
    COMPARE = "compare"
    WEIGH = "weigh"
    ANNOUNCE = "announce"


#: Rounds of messages, in order. Signs reach clients that are no more than 12 edges away.
STEPS = (*[Step.SPREAD] * 12, *[Step.FLIP] * 5, Step.COMPARE, Step.WEIGH, Step.ANNOUNCE)


class Said(NamedTuple):
    """What a client tells its neighbors in a step, two numbers.

    Attributes:
        value: what signs are made of (spread), the sign (flip, compare), the margin (weigh), 1 for a listener and 0 for
            others (announce).
        beside: the client that the signs start from (spread), what a flip would gain (flip); else 0.
    """

    value: float
    beside: float = 0.0


class SignVote:
    """One client's part.

    Args:
        client_id: its number.
        needs_to_listen: it listens however clear its margin is.

    Attributes:
        weights: neighbor -> evidence of the edge, set before the first step; neighbors without any are left out.
        sign: 1 or -1.
        margin: by how much the neighbors together prefer this sign to the other one.
        listens: whether the margin is too small to tell.
        listeners: neighbors that said so of themselves.
    """

    def __init__(self, client_id: NodeId, *, needs_to_listen: bool) -> None:
        self.weights: dict[NodeId, float] = {}
        self.sign, self.margin, self.listens = 1.0, 0.0, needs_to_listen
        self.listeners: frozenset[NodeId] = frozenset()
        self._client_id, self._source, self._value, self._gain = client_id, client_id, 1.0, 0.0

    def say(self, step: Step) -> Said:
        """What to tell all neighbors."""
        if step is Step.SPREAD:
            return Said(self._value, self._source)
        if step is Step.WEIGH:
            return Said(self.margin)
        if step is Step.ANNOUNCE:
            return Said(float(self.listens))
        return Said(self.sign, self._gain if step is Step.FLIP else 0.0)

    def hear(self, step: Step, said: Mapping[NodeId, Said]) -> None:
        """Use what neighbors said in this step; one that was not heard has no say in it."""
        if step is Step.ANNOUNCE:
            self.listeners = frozenset(neighbor for neighbor, one in said.items() if one.value > 0.0)
            return
        counted = {neighbor: one for neighbor, one in said.items() if self.weights.get(neighbor, 0.0) != 0.0}
        if step is Step.SPREAD:
            self._spread(counted)
        elif step is Step.FLIP:
            self._flip(counted)
        elif step is Step.COMPARE:
            self.margin = 2.0 * self._agreement(counted)
        else:
            usual = median([self.margin, *(one.value for one in counted.values())])
            self.listens = self.listens or self.margin <= 0.0 or self.margin < CLEAR_SHARE * usual

    def _spread(self, said: Mapping[NodeId, Said]) -> None:
        source = min([self._source, *(int(one.beside) for one in said.values())])
        if source < self._source:
            self._source, self._value = source, 0.0
        if source == self._client_id:
            return
        # those that do not know of the source yet have no say
        known = {neighbor: one.value for neighbor, one in said.items() if one.beside == source and one.value != 0.0}
        if known:
            total = sum(abs(self.weights[neighbor]) for neighbor in known)
            self._value = sum(self.weights[neighbor] * value for neighbor, value in known.items()) / total
        self.sign = -1.0 if self._value < 0.0 else 1.0

    def _flip(self, said: Mapping[NodeId, Said]) -> None:
        rivals = [(one.beside, -neighbor) for neighbor, one in said.items()]
        # neighbors never flip together, so every flip is for the better
        first = self._gain > 0.0 and all((self._gain, -self._client_id) > rival for rival in rivals)
        if first and self._agreement(said) < 0.0:
            self.sign = -self.sign
        self._gain = max(0.0, -2.0 * self._agreement(said))

    def _agreement(self, said: Mapping[NodeId, Said]) -> float:
        return self.sign * sum(self.weights[neighbor] * one.value for neighbor, one in said.items())

    def state(self) -> State:
        return {
            "weights": {str(neighbor): weight for neighbor, weight in self.weights.items()},
            "sign": self.sign,
            "margin": self.margin,
            "listens": self.listens,
            "listeners": sorted(self.listeners),
            "source": self._source,
            "value": self._value,
            "gain": self._gain,
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("weights", "sign", "margin", "listens", "listeners", "source", "value", "gain")
        self.weights = {int(neighbor): one.number() for neighbor, one in parts["weights"].named().items()}
        self.sign, self.margin = parts["sign"].number(), parts["margin"].number()
        self.listens = parts["listens"].flag()
        self.listeners = frozenset(one.count() for one in parts["listeners"].listed())
        self._source, self._value = parts["source"].count(), parts["value"].number()
        self._gain = parts["gain"].number()
