"""Settings of the rules with personal models, and of those that hold local training back. No torch, as all settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .settings import require, require_finite_at_least


@dataclass(frozen=True, slots=True)
class PersonalizationSettings:
    """Settings of local rules, with the letters of their papers; a rule reads those of its row and no others.

    Attributes:
        proximal: mu of FedProx; local steps also pull the model back to where it was received. 0 is plain training.
        attraction: lambda of Ditto, pFedMe and TDPFed, between the personal model and the shared one. In Ditto and
            TDPFed 0 trains the personal model alone; in pFedMe 0 would never move the shared one.
        personal_steps: steps of the personal model per round in Ditto; per minibatch in pFedMe, K, and in TDPFed, s.
        personal_step_size: alpha of Per-FedAvg, of the one step from the shared model to the personal one; step size of
            the personal model in TDPFed.
        global_step_size: eta of pFedMe; a local step moves the shared model by eta * lambda of the way to the personal.
        server_mixing: beta in (0, 1] of every server, the share of the way to its clients' mean that it goes; 1 takes
            the mean, as all but pFedMe do. TDPFed alone may go beyond, up to 2.
        mixing: alpha of APFL at the start, in [0, 1], the share of the personal model in the mixture.
        mixing_step_size: step size of the gradient steps of alpha, one per local step; 0 leaves it as it starts.
        prototypes: what `fedproto_decentralized` averages per class: the "embedding" that the head reads, of one width
            at all clients, or the "logits" that it answers, for models of any sizes; pulled by training.prototype_pull.
    """

    proximal: float = 0.1
    attraction: float = 1.0
    personal_steps: int = 5
    personal_step_size: float = 0.05
    global_step_size: float = 0.1
    server_mixing: float = 1.0
    mixing: float = 0.5
    mixing_step_size: float = 0.1
    prototypes: Literal["embedding", "logits"] = "embedding"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        section = "personalization"
        for name, hint in (
            ("proximal", "0 leaves local training as it is"),
            ("attraction", "0 couples nothing"),
            ("personal_step_size", "0 leaves the personal model at the shared one"),
            ("global_step_size", "0 freezes the shared model"),
            ("mixing_step_size", "0 leaves the mixture as it starts"),
        ):
            require_finite_at_least(f"{section}.{name}", getattr(self, name), 0.0, hint)
        require(self.personal_steps >= 1, f"{section}.personal_steps", self.personal_steps, "must be at least 1")
        mixes = 0.0 < self.server_mixing <= 2.0
        require(mixes, f"{section}.server_mixing", self.server_mixing, "must lie in (0, 2] (1 goes all the way)")
        share = 0.0 <= self.mixing <= 1.0
        require(share, f"{section}.mixing", self.mixing, "must lie in [0, 1] (0 is the shared model alone)")
