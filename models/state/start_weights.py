"""Weights of a trained model as the start of another: checked in shape, then put in the place of drawn ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ..client_model import ClientModel

#: First part of the names of what scales inputs.
_SCALING = "normalizers."


def trained_weights(model: ClientModel) -> dict[str, NDArray[Any]]:
    """Name -> parameter or buffer of a model, what scales its inputs included."""
    return {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}


@dataclass(frozen=True, slots=True, eq=False)
class StartWeights:
    """Weights of a trained model.

    Attributes:
        source: how messages name the model.
        values: name, as of `trained_weights` -> weight.
    """

    source: str
    values: Mapping[str, NDArray[Any]]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its inputs: each has something that scales it."""
        scaled = (name.split(".")[1] for name in self.values if name.startswith(_SCALING))
        return tuple(dict.fromkeys(scaled))

    def put_into(self, model: ClientModel, *, scaling: bool) -> None:
        """Make these the weights of a model.

        Args:
            model: model of the same inputs.
            scaling: also take the constants that scale inputs; otherwise the model keeps its own.

        Raises:
            DataError: a weight is missing or has another shape; nothing is changed then.
        """
        wanted = {name: mine for name, mine in model.state_dict().items() if scaling or not name.startswith(_SCALING)}
        for name, mine in wanted.items():
            found = self.values.get(name)
            if found is None:
                raise DataError(
                    f"{self.source} has no weight {name!r}, which the model of this scenario has; start from a run of"
                    " the same task, sensors and [model]"
                )
            if found.shape != tuple(mine.shape) or not np.isfinite(found).all():
                raise DataError(
                    f"{self.source} has {name!r} of shape {list(found.shape)}, the model of this scenario has finite"
                    f" numbers of shape {list(mine.shape)}; make data.window, data.n_beams and [model] those of that"
                    " run"
                )
        with torch.no_grad():
            for name, mine in wanted.items():
                mine.copy_(torch.from_numpy(self.values[name].copy()))
