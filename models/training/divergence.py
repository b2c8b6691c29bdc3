"""Training that has left the finite numbers, or that no step brings back: the run ends with a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from ...emulator.contracts import DivergedError
from ..personalization_settings import PersonalizationSettings
from ..settings import TrainingSettings

#: A mean loss that no training comes back from. Float32 numbers of this size are 65,536 apart, so that it says nothing
#: about classes, or about values of which one standard deviation is 1.
DIVERGED_LOSS = 1e12


def refuse_diverged(
    who: str,
    round_index: int,
    loss: float,
    vectors: Iterable[Tensor],
    settings: TrainingSettings | PersonalizationSettings,
    reason: Callable[[], str] | None = None,
    step_sizes: Sequence[str] = ("head_step_size", "encoder_step_size"),
) -> None:
    """Stop a run whose numbers have left the finite ones, or whose loss is beyond `DIVERGED_LOSS`.

    Args:
        who: has diverged.
        round_index: of this round.
        loss: last one.
        vectors: what was trained.
        settings: with the step sizes.
        reason: where vectors are coupled: gives the known cause, as a part of a sentence; None: nothing is coupled.
        step_sizes: fields of the settings that this training goes by.

    Raises:
        DivergedError: naming who, the round, the reason where one is known, and the step sizes.
    """
    if not math.isfinite(loss + sum(float(vector.sum()) for vector in vectors)):
        found = f"left the finite numbers in round {round_index} (loss {loss:g})"
    elif loss > DIVERGED_LOSS:
        found = f"training has diverged, loss {loss:.3g} in round {round_index} is beyond {DIVERGED_LOSS:g}"
    else:
        return
    section = "training" if isinstance(settings, TrainingSettings) else "personalization"
    fields = ", ".join(f"{section}.{name} ({getattr(settings, name):g})" for name in step_sizes)
    cause, coupling = ("", "") if reason is None else (reason(), " or sheaf.coupling")
    raise DivergedError(f"{who}: {found}{cause}; lower {fields}{coupling}")
