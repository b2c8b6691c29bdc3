"""A client's model as a few vectors: what rules between two exchanges add to, copy and put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from ..emulator.contracts import Modality
from .client_model import ClientModel
from .flat import FlatModule


class FlatModel:
    """A model whose encoders lie on one vector each, beside the tensors of its fusion and its head.

    Args:
        model: the module keeps working on views of the vectors.
        share_buffers: see `FlatModule`.

    Attributes:
        model: as given.
        encoders: modality -> its encoder.
    """

    def __init__(self, model: ClientModel, *, share_buffers: bool) -> None:
        self.model = model
        self.encoders: dict[Modality, FlatModule] = {
            m: FlatModule.of(model.encoders[m], share_buffers=share_buffers) for m in model.modalities
        }

    @property
    def parameters(self) -> list[Tensor]:
        """All that steps change, as views: encoders in canonical order, fusion, head."""
        return [*(flat.trainable for flat in self.encoders.values()), *self._behind_the_encoders()]

    @property
    def values(self) -> list[Tensor]:
        """All that exchanges change, as views: the same with the running statistics that are shared."""
        return [*(flat.vector for flat in self.encoders.values()), *self._behind_the_encoders()]

    @property
    def gradients(self) -> list[Tensor]:
        """Gradients of `parameters` at the last backward pass."""
        found = [flat.gradient for flat in self.encoders.values()]
        for parameter in (*self.model.fusion.parameters(), self.model.head):
            assert parameter.grad is not None
            found.append(parameter.grad)
        return found

    def clear_gradients(self) -> None:
        """Begin a backward pass."""
        for flat in self.encoders.values():
            # zeroed, not dropped: parameters accumulate into views of this vector
            flat.gradient.zero_()
        for parameter in (*self.model.fusion.parameters(), self.model.head):
            parameter.grad = None

    def take_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Have these gradients, each flat, in the order of `parameters`, as if a backward pass had filled them."""
        of_encoders, behind = gradients[: len(self.encoders)], gradients[len(self.encoders) :]
        for flat, gradient in zip(self.encoders.values(), of_encoders, strict=True):
            flat.gradient.copy_(gradient)
        for parameter, gradient in zip((*self.model.fusion.parameters(), self.model.head), behind, strict=True):
            parameter.grad = gradient.reshape(parameter.shape).clone()

    def pull(self, places: Sequence[Tensor], strength: float) -> None:
        """Add the gradient of strength / 2 * |parameters - places|^2 to the gradients of the last backward pass."""
        for gradient, own, place in zip(self.gradients, self.parameters, places, strict=True):
            gradient.add_(own - place, alpha=strength)

    def copy(self, other: FlatModel) -> None:
        """Take over the parameters and the running statistics of a model of the same shape."""
        assign(self.parameters, other.parameters)
        self.copy_statistics(other)

    def copy_statistics(self, other: FlatModel) -> None:
        """Take over the running statistics of a model of the same shape."""
        for mine, theirs in zip(self.model.encoders.buffers(), other.model.encoders.buffers(), strict=True):
            mine.copy_(theirs)

    @contextmanager
    def holding(self, values: Sequence[Tensor]) -> Iterator[None]:
        """Context in which the model has other `values`; behind it they are as before."""
        before = copies(self.values)
        assign(self.values, values)
        try:
            yield
        finally:
            assign(self.values, before)

    def _behind_the_encoders(self) -> list[Tensor]:
        return [parameter.detach() for parameter in (*self.model.fusion.parameters(), self.model.head)]


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Clones that later changes do not reach."""
    return [tensor.clone() for tensor in tensors]


def assign(targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors of the same shapes."""
    for target, value in zip(targets, values, strict=True):
        target.copy_(value)


def mixture(share: float | Tensor, one: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]:
    """Tensors share * one + (1 - share) * other."""
    return [share * first + (1.0 - share) * second for first, second in zip(one, other, strict=True)]
