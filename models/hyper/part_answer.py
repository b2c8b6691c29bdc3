"""What a server answers for one part of a model: its parameters, or canonical factors of what is added to its start."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from ..factors.factor_layout import FactorLayout, PartShapes
from ..hyper_settings import HyperSettings
from .backbone import BackbonePart


class PartAnswer:
    """The way from an answer to the parameters of a part, and of a change of these back to one of the answer.

    With `hyper.output = "dense"` an answer is the parameters, and a change of them is one of it. With "factors" a
    weight is W = W0 + [[A]], where W0 is the common start, which all know from the seed, and A its answer; biases are
    answered as they are. A change dW is then sent as J^T dW, J the derivative of W by A at the answer that was
    received: it is what the server would make of dW itself, and takes as few numbers as the answer. The last factor of
    every weight starts at 0, so that all begin at W0.

    Args:
        part: with the values of the common start.
        settings: of the answer.
        seed: of the first factors; the same at server and clients.
    """

    def __init__(self, part: BackbonePart, settings: HyperSettings, seed: int) -> None:
        self._common = torch.cat([parameter.detach().reshape(-1) for parameter in part.parameters]).clone()
        self._layout: FactorLayout | None = None
        self.start = self._common.clone()
        if settings.output == "factors":
            shapes = tuple(tuple(parameter.shape) for parameter in part.parameters)
            self._layout = FactorLayout([PartShapes(shapes)], settings.rank_ratio)
            draws = torch.Generator().manual_seed((seed + zlib.crc32(part.name.encode())) % 2**63)
            self.start = self._layout.initial(self._common, draws)
            for weight in self._layout.weights:
                weight.factors(self.start)[-1].zero_()
            for dense, _ in self._layout.rest:
                self._common[dense] = 0.0  # biases are answered whole

    @property
    def size(self) -> int:
        """Numbers of an answer."""
        return len(self.start)

    @property
    def change_flops(self) -> float:
        """Floating-point operations of one `change`."""
        return 0.0 if self._layout is None else self._layout.gradient_flops

    def parameters(self, answer: Tensor) -> Tensor:
        """[n_parameters] of an answer [size]."""
        return answer if self._layout is None else self._common + self._layout.compose(answer)

    def change(self, answer: Tensor, of_parameters: Tensor) -> Tensor:
        """[size] what a change of the parameters [n_parameters] from those of an answer comes to: J^T of it."""
        if self._layout is None:
            return of_parameters
        # the gradient of |X - [[A]]|^2 / 2 at X = [[A]] + dW is -J^T dW
        return -self._layout.gradient(answer, self._layout.compose(answer) + of_parameters)
