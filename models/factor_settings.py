"""Settings of the rules that exchange factors of weights. No torch, as all settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .settings import require, require_finite_at_least

#: Momentum of Nesterov's steps, and the longest step against a pull that does not diverge with it: on a quadratic of
#: curvature c they are stable while step * c < (2 + 2 mu) / (1 + 2 mu).
MOMENTUM = 0.9
LONGEST_STEP = (2.0 + 2.0 * MOMENTUM) / (1.0 + 2.0 * MOMENTUM)


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """How weights become sums of rank-one tensors, and how these follow a personal model.

    `tdpfed` also reads training.local_steps (its tau, one minibatch each), and of `[personalization]` attraction
    (lambda), personal_steps (s), personal_step_size and server_mixing (beta, beyond 1 too).

    Attributes:
        ratio: how many times fewer numbers the factors of a weight have than the weight, as nearly as whole ranks
            allow.
        steps: Adam's steps of the factors per minibatch, s'.
        step_size: step size of the factors.
        personal_start: where the personal model starts a round: "reset" at the tensor of the factors as they are, or
            "keep" where the last round left it.
        aggregation: what a server averages: "factors" entry by entry (AFM), or the "tensors" that they make, of which
            it computes factors anew (ACT); a lost packet then voids a client's weight.
    """

    ratio: float = 2.0
    steps: int = 17
    step_size: float = 0.0008
    personal_start: Literal["reset", "keep"] = "reset"
    aggregation: Literal["factors", "tensors"] = "factors"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        # far below 1 the factors have more numbers than ranks of the weight can use
        fits = 0.25 <= self.ratio <= 1e6
        require(fits, "factors.ratio", self.ratio, "must lie in [0.25, 1e6] (2 sends half of the numbers)")
        require(self.steps >= 1, "factors.steps", self.steps, "must be at least 1")
        require_finite_at_least("factors.step_size", self.step_size, 0.0, "0 leaves the factors as they are")
