"""The door of local rules: what a client trains between two exchanges, and which of its vectors are exchanged.

A rule knows nothing of who exchanges: neighbors that average, or a server. So every rule goes with every exchange, and
the algorithms of the field are pairs of both, see `algorithm_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights


class LocalRule(Protocol):
    """One client between two exchanges; it owns its models, and the random streams of their training."""

    @property
    def flops(self) -> float:
        """Floating-point operations of one `train`."""
        ...

    def shared(self, weights: Weights, /) -> list[SharedVector]:
        """Vectors that are exchanged, in canonical order; they stay the same objects for the whole run.

        Args:
            weights: of the nodes that the client exchanges each part of its model with.
        """
        ...

    def train(self, round_index: int, /) -> None:
        """Local work of one round.

        Raises:
            DivergedError: numbers have left the finite ones.
        """
        ...

    def received(self) -> None:
        """Take note that the shared vectors are now what an exchange made of them: averaged, or replaced.

        Called once after every exchange, also where all messages were lost; never in rounds without an exchange.
        """
        ...

    def predict(self, inputs: Inputs, /) -> Logits:
        """Logits of every model on inputs: "fused" where the client holds one, else by the names in `algorithm`."""
        ...

    def health(self) -> Mapping[str, float]:
        """Figures for monitors, "loss" among them."""
        ...

    def state(self) -> State:
        """All that changes from round to round."""
        ...

    def restore(self, saved: SavedState, /) -> None:
        """Continue from a state."""
        ...
