"""The learner whose neighbors pull at one vector of each other's in every local step: the head, or the whole model.

What is coupled and how neighbors pull are given, so that Sheaf-DMFL (heads, beside averaged encoders), Sheaf-FMTL
(whole models) and dFedU (whole models, without maps) are one construction. Neighbors' messages are held during the
local steps of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from ...emulator.contracts import Figures, State
from ...emulator.saved_state import Parts, SavedState
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.vector_gossip import VectorGossip, consensus_figures
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining
from ..training.whole_model import WholeModel
from .equations import coupled_step
from .restriction_maps import RestrictionMaps
from .stalk import Stalk

MIX, TRAIN = "mix", "train"


class Coupling(Protocol):
    """How the neighbors of a client pull at its vector."""

    @property
    def maps(self) -> RestrictionMaps:
        """The maps through which they do, as they are now."""
        ...

    @property
    def pull_flops(self) -> float:
        """Floating-point operations of one `pull`."""
        ...

    def phases(self, vector: Callable[[], Tensor], /) -> tuple[list[ChainPhase], list[ChainPhase]]:
        """Phases before and after the local steps; `vector` gives the coupled vector [d_i] as it is now."""
        ...

    def pull(self, vector: Tensor, /) -> Tensor:
        """What is taken off the vector, times step size and coupling, [d_i]."""
        ...

    def held_pull(self) -> Callable[[Tensor], Tensor]:
        """`pull` for the local steps of one round, equal up to rounding."""
        ...

    def broken_bound(self, vector: Tensor, step_size: float, field: str, /) -> str:
        """Which limit of a step size does not hold, as a part of a sentence; empty where none is known."""
        ...

    def figures(self) -> Figures:
        """For monitors."""
        ...

    def state(self) -> State: ...

    def restore(self, saved: SavedState) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class CoupledPart:
    """The vector that a client couples, and the training that it is part of.

    Attributes:
        training: of the client.
        vector, gradient: give the vector [d_i] as it is now, and its last gradient.
        assign: replaces the values of the vector.
        step_size, field: alpha, and the field of the scenario that says it.
        is_model: whether the vector is the whole model.
    """

    training: LocalTraining | WholeModel
    vector: Callable[[], Tensor]
    gradient: Callable[[], Tensor]
    assign: Callable[[Tensor], None]
    step_size: float
    field: str
    is_model: bool = False


def head_part(training: LocalTraining) -> CoupledPart:
    """The head alone; encoders and fusion have steps of their own."""
    return CoupledPart(
        training,
        lambda: training.head,
        lambda: training.head_gradient,
        training.set_head,
        training.settings.head_step_size,
        "training.head_step_size",
    )


def model_part(training: WholeModel) -> CoupledPart:
    """All that the client trains."""
    return CoupledPart(
        training,
        lambda: training.vector,
        lambda: training.gradient,
        training.assign,
        training.settings.model_step_size,
        "training.model_step_size",
        is_model=True,
    )


class CoupledStep:
    """A local step of what a client couples, by its last gradient: equation (11), or Sheaf-FMTL, or dFedU.

    Args:
        part: what is coupled.
        coupling: with the neighbors; None: there is none.
        strength: lambda.
    """

    def __init__(self, part: CoupledPart, coupling: Coupling | None, strength: float) -> None:
        self._part, self._coupling, self._strength = part, coupling, strength

    def __call__(self) -> None:
        self._take(None if self._coupling is None else self._coupling.pull)

    def held(self) -> Callable[[], None]:
        """The same for the steps of one round."""
        return partial(self._take, None if self._coupling is None else self._coupling.held_pull())

    def _take(self, pull: Callable[[Tensor], Tensor] | None) -> None:
        part = self._part
        vector, gradient = part.vector(), part.gradient()
        if pull is None:
            part.assign(vector - part.step_size * gradient)
            return
        pulled = pull(vector)
        part.assign(coupled_step(vector, gradient, pulled, step_size=part.step_size, coupling=self._strength))


def coupled_learner(
    setup: ClientSetup, part: CoupledPart, coupling: Coupling | None, gossip: VectorGossip | None = None
) -> ChainedLearner:
    """One client.

    Args:
        setup: of the client.
        part: what is coupled.
        coupling: with the neighbors; None: the client trains by the same steps alone.
        gossip: averages other vectors with neighbors after the local steps; None: nothing is averaged.
    """
    (name,) = setup.models
    training, strength = part.training, setup.sheaf.coupling
    step = CoupledStep(part, coupling, strength)

    def reason() -> str:
        return "" if coupling is None else coupling.broken_bound(part.vector(), part.step_size, part.field)

    def flops() -> float:
        of_pull = 0.0 if coupling is None else coupling.pull_flops
        return setup.training.local_steps * (training.flops_per_step + of_pull)

    def figures() -> Figures:
        of_coupling = {} if coupling is None else coupling.figures()
        return {"loss": training.loss, **of_coupling, **consensus_figures([] if gossip is None else [gossip])}

    before, after = ([], []) if coupling is None else coupling.phases(part.vector)
    local = ChainPhase(
        TRAIN if gossip is None else MIX,
        [] if gossip is None else [gossip],
        work=lambda round_index: training.train(round_index, step, reason),
        flops=flops,
    )
    parts = {"training": training, "coupling": coupling, "gossip": gossip}
    return ChainedLearner(
        setup.client_id,
        [*before, local, *after],
        parts=Parts(**{name: part for name, part in parts.items() if part is not None}),
        models=lambda inputs: {name: training.predict(inputs)},
        figures=figures,
        stalk=None if coupling is None else _stalk(part, coupling, strength),
    )


def _stalk(part: CoupledPart, coupling: Coupling, strength: float) -> Stalk:
    return Stalk(part.vector, lambda: coupling.maps, strength, part.is_model)
