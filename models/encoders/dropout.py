"""Dropout with a random stream of its own, so that a run does not depend on the thread that trains a client."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...emulator.contracts import ConfigError, State
from ...emulator.saved_state import SavedState
from ..state.stream_states import restored_torch_stream, torch_stream_state


class SeededDropout(nn.Module):
    """Sets a share of its inputs to zero while training, and scales the others so that the mean stays.

    Torch's own dropout draws from one generator for the whole process, so what a client gets there depends on which
    other clients train at the same time. In evaluation this is the identity and leaves no trace in an exported graph.

    Args:
        p: share of inputs dropped, in [0, 1).
        generator: from a named stream of the client. Inputs on another device are drawn for by a generator that is
            made there once, seeded from this one.

    Raises:
        ConfigError: p is outside its range.
    """

    def __init__(self, p: float, generator: torch.Generator) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ConfigError(f"dropout must lie in [0, 1), got {p}; 0 switches it off")
        self.p = p
        self._generator = generator

    def forward(self, values: Tensor) -> Tensor:
        """[...] -> same shape."""
        if not self.training or self.p == 0.0:
            return values
        return values * self.factors(values.shape, values)

    def factors(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Draw the factors of inputs of this shape: 0 or 1 / (1 - p), of the type and on the device of `like`."""
        # not empty_like: the order of draws must not follow how the input lies in memory
        kept = torch.empty(tuple(shape), device=like.device, dtype=like.dtype)
        kept.bernoulli_(1.0 - self.p, generator=self._generator_on(like.device))
        # scaled in training, so that evaluation needs no factor
        return kept.div_(1.0 - self.p)

    def draw_from(self, generator: torch.Generator) -> None:
        """Draw from this stream from now on."""
        self._generator = generator

    def state(self) -> State:
        """State of its random stream."""
        return torch_stream_state(self._generator)

    def restore(self, saved: SavedState) -> None:
        """Restore the state of its random stream."""
        self._generator = restored_torch_stream(self._generator, saved)

    def extra_repr(self) -> str:
        """Share of dropped inputs, which distinguishes two architectures in their text."""
        return f"p={self.p:g}"

    def _generator_on(self, device: torch.device) -> torch.Generator:
        if self._generator.device != device:
            seed = torch.randint(2**62, (), generator=self._generator, device=self._generator.device)
            self._generator = torch.Generator(device=device).manual_seed(int(seed))
        return self._generator
