"""The algorithms that a scenario can name. A new one is a file beside this and a row here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...emulator.contracts import Learner, MessageKind
from ..client_setup import ClientSetup
from .centralized import centralized
from .dmml_kd import DmmlKd
from .dpsgd import Dpsgd, dpsgd_adapt_then_combine
from .dsgd import dsgd, dsgd_heads
from .group_averaging import group_averaging
from .head_averaging import head_averaging
from .local import local
from .sheaf_diffusion import SheafDiffusion
from .sheaf_dmfl import SheafDmfl
from .sheaf_prototypes import SheafPrototypes
from .sheaf_twin import SheafTwin

Learners = Callable[[Sequence[ClientSetup]], list[Learner]]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How to build one algorithm's clients, and what they may send.

    Attributes:
        learners: makes all clients of a run.
        kinds: message kinds that it declares; the wire refuses all others.
        summary: one line for listings.
        fusion: of its multimodal model.
        unimodal: it trains one model per modality instead, and reports the best.
        couples_heads: heads pull at each other in every step, so the coupling's step sizes matter.
        maps_heads: it needs restriction maps.
        equal_heads: it averages heads of neighbors, or class means of what they read, which must have one layout.
        equal_outputs: it averages what neighbors know of their classes, which must be as many.
        private_share: of a client's training rows that it keeps aside to judge what it learned; such an algorithm also
            gets a twin of the model.
        pooled: all clients share one model and one trainer: they train in step, and live in one process.
        links_groups: members of a group are linked with each other, whatever the graph.
    """

    learners: Learners
    kinds: frozenset[MessageKind]
    summary: str
    fusion: str = "attention"
    unimodal: bool = False
    couples_heads: bool = False
    maps_heads: bool = False
    equal_heads: bool = False
    equal_outputs: bool = False
    links_groups: bool = False
    pooled: bool = False
    private_share: float = 0.0


def one_by_one(learner: Callable[[ClientSetup], Learner]) -> Learners:
    """Clients that know nothing of each other but their messages: all of them, except where rows are pooled."""

    def learners(setups: Sequence[ClientSetup]) -> list[Learner]:
        return [learner(setup) for setup in setups]

    return learners


_ENCODERS = frozenset({MessageKind.ENCODER})
_SHEAF = _ENCODERS | {MessageKind.PROJECTION, MessageKind.REPROJECTION}
_MODELS = _ENCODERS | {MessageKind.HEAD, MessageKind.ATTENTION}

ALGORITHMS: dict[str, Algorithm] = {
    "sheaf_dmfl": Algorithm(
        one_by_one(SheafDmfl),
        _SHEAF,
        "sheaf-coupled heads, embeddings concatenated",
        fusion="concat",
        couples_heads=True,
        maps_heads=True,
    ),
    "sheaf_dmfl_att": Algorithm(
        one_by_one(SheafDmfl),
        _SHEAF,
        "sheaf-coupled heads, embeddings weighted by attention",
        couples_heads=True,
        maps_heads=True,
    ),
    "sheaf_diffusion": Algorithm(
        one_by_one(SheafDiffusion),
        _ENCODERS | {MessageKind.PROJECTION},
        "ours: heads diffuse along the sheaf once per round",
        maps_heads=True,
    ),
    "sheaf_prototypes": Algorithm(
        one_by_one(SheafPrototypes),
        _SHEAF | {MessageKind.PROTOTYPES},
        "ours: sheaf-coupled heads, and embeddings drawn to class means that neighbors agree on",
        couples_heads=True,
        maps_heads=True,
        equal_heads=True,
    ),
    "sheaf_twin": Algorithm(
        one_by_one(SheafTwin),
        _ENCODERS | {MessageKind.PROJECTION},
        "ours: sheaf diffusion beside a model of the client's own, weighed on rows kept aside",
        maps_heads=True,
        private_share=0.2,
    ),
    "head_averaging": Algorithm(
        one_by_one(head_averaging),
        _ENCODERS | {MessageKind.HEAD},
        "encoders and heads averaged with neighbors",
        equal_heads=True,
    ),
    "group_averaging": Algorithm(
        one_by_one(group_averaging),
        _MODELS,
        "whole models averaged over the group, encoders with neighbors; needs to know groups",
        links_groups=True,
    ),
    "dpsgd": Algorithm(
        one_by_one(Dpsgd), _MODELS, "whole models averaged with neighbors of the group, as in Lian et al. 2017"
    ),
    "dpsgd_adapt_then_combine": Algorithm(
        one_by_one(dpsgd_adapt_then_combine), _MODELS, "the same, averaged after the local steps"
    ),
    "dsgd": Algorithm(one_by_one(dsgd), _ENCODERS, "encoders averaged, best unimodal model", unimodal=True),
    "dsgd_heads": Algorithm(
        one_by_one(dsgd_heads),
        _ENCODERS | {MessageKind.HEAD},
        "encoders and heads of one modality averaged, best unimodal model",
        unimodal=True,
        equal_heads=True,
    ),
    "dmml_kd": Algorithm(
        one_by_one(DmmlKd),
        _ENCODERS | {MessageKind.CLASSIFIER, MessageKind.PROTOTYPES},
        "distillation between modalities, an approximation of Yin et al.",
        fusion="concat",
        equal_outputs=True,
    ),
    "local": Algorithm(one_by_one(local), frozenset(), "no communication, fused model"),
    "local_unimodal": Algorithm(one_by_one(local), frozenset(), "no communication, best unimodal model", unimodal=True),
    "centralized": Algorithm(centralized, frozenset(), "all rows in one place, a reference", pooled=True),
}
