"""The algorithms that a scenario can name. A new one is a file beside this and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...emulator.contracts import Learner, MessageKind
from ..client_setup import ClientSetup
from .dsgd import Dsgd
from .local import Local
from .sheaf_dmfl import SheafDmfl


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How to build one algorithm's clients, and what they may send.

    Attributes:
        learner: makes a client.
        kinds: message kinds that it declares; the wire refuses all others.
        fusion: of its multimodal model.
        unimodal: it trains one model per modality instead, and reports the best.
        couples_heads: heads pull at each other, so the coupling's step sizes matter.
        summary: one line for listings.
    """

    learner: Callable[[ClientSetup], Learner]
    kinds: frozenset[MessageKind]
    summary: str
    fusion: str = "attention"
    unimodal: bool = False
    couples_heads: bool = False


_SHEAF = frozenset({MessageKind.PROJECTION, MessageKind.REPROJECTION, MessageKind.ENCODER})

ALGORITHMS: dict[str, Algorithm] = {
    "sheaf_dmfl": Algorithm(
        SheafDmfl, _SHEAF, "sheaf-coupled heads, embeddings concatenated", fusion="concat", couples_heads=True
    ),
    "sheaf_dmfl_att": Algorithm(
        SheafDmfl, _SHEAF, "sheaf-coupled heads, embeddings weighted by attention", couples_heads=True
    ),
    "dsgd": Algorithm(Dsgd, frozenset({MessageKind.ENCODER}), "encoders averaged, best unimodal model", unimodal=True),
    "local": Algorithm(Local, frozenset(), "no communication, fused model"),
    "local_unimodal": Algorithm(Local, frozenset(), "no communication, best unimodal model", unimodal=True),
}
