"""Where the factors of a model's weights lie in the vectors that clients exchange."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .canonical import gradient, gradient_flops, initial, to_dense
from .ranks import factorizes, rank_for


@dataclass(frozen=True, slots=True)
class FactoredWeight:
    """A weight and its factors.

    The factors are a block [rank, sum of dims], a row per rank-one term: column r of every mode, one behind the other.
    A lost packet is then some lost terms, wholly or in part, of one weight or two.

    Attributes:
        number: among the parameters of its part.
        dims, rank: sizes of its modes I_n, and R.
        dense: of the weight, flat, in the dense vector.
        values: of the block, flat, in the vector of factors.
    """

    number: int
    dims: tuple[int, ...]
    rank: int
    dense: slice
    values: slice

    def factors(self, values: Tensor) -> list[Tensor]:
        """A^(n) [..., I_n, R] as views of a vector of factors [..., n_values]."""
        block = values[..., self.values].view(*values.shape[:-1], self.rank, sum(self.dims))
        return [terms.mT for terms in torch.split(block, list(self.dims), dim=-1)]

    def weight(self, dense: Tensor) -> Tensor:
        """[..., *dims] the weight in a dense vector [..., n_dense]."""
        return dense[..., self.dense].view(*dense.shape[:-1], *self.dims)


def as_block(factors: Sequence[Tensor]) -> Tensor:
    """Flat block [..., rank * sum of dims] of factors [..., I_n, R]."""
    return torch.cat([matrix.mT for matrix in factors], dim=-1).flatten(start_dim=-2)


@dataclass(frozen=True, slots=True)
class PartShapes:
    """Parameters that are exchanged as one vector.

    Attributes:
        shapes: of the parameters, in order.
        factored: whether weights among them become factors; else all stays dense.
    """

    shapes: tuple[tuple[int, ...], ...]
    factored: bool = True


class FactorLayout:
    """Vector of factors of a model beside its dense vector, part by part: factors weight by weight, then what is dense.

    All methods take one client's vectors [n], or several clients' along leading axes.

    Args:
        parts: in the order of the dense vector.
        ratio: see `rank_for`.

    Attributes:
        weights: those that are factored.
        rest: of what stays dense, such as biases: its place in the dense vector, and in the vector of factors.
        parts: of every part in the vector of factors.
        n_dense, n_values: lengths of the two vectors.

    >>> layout = FactorLayout([PartShapes(((100, 784), (100,)))], ratio=2.0)
    >>> layout.n_dense, layout.n_values
    (78500, 38996)
    """

    def __init__(self, parts: Sequence[PartShapes], ratio: float) -> None:
        self.weights: list[FactoredWeight] = []
        self.rest: list[tuple[slice, slice]] = []
        self.parts: list[slice] = []
        self.n_dense = self.n_values = 0
        for part in parts:
            first, kept = self.n_values, []
            for number, dims in enumerate(part.shapes):
                dense = slice(self.n_dense, self.n_dense + math.prod(dims))
                self.n_dense = dense.stop
                if part.factored and factorizes(dims):
                    rank = rank_for(dims, ratio)
                    values = self._next(rank * sum(dims))
                    self.weights.append(FactoredWeight(number, tuple(dims), rank, dense, values))
                else:
                    kept.append(dense)
            self.rest += [(dense, self._next(dense.stop - dense.start)) for dense in kept]
            self.parts.append(slice(first, self.n_values))

    def _next(self, size: int) -> slice:
        taken = slice(self.n_values, self.n_values + size)
        self.n_values = taken.stop
        return taken

    def compose(self, values: Tensor) -> Tensor:
        """Dense vector [..., n_dense] of a vector of factors [..., n_values]."""
        dense = values.new_empty(*values.shape[:-1], self.n_dense)
        for one in self.weights:
            weight = to_dense(one.factors(values))
            dense[..., one.dense] = weight.flatten(start_dim=-len(one.dims))
        for place, kept in self.rest:
            dense[..., place] = values[..., kept]
        return dense

    def gradient(self, values: Tensor, dense: Tensor) -> Tensor:
        """Gradient [..., n_values] of |dense - compose(values)|^2 / 2 by the values."""
        found = torch.empty_like(values)
        for one in self.weights:
            found[..., one.values] = as_block(gradient(one.weight(dense), one.factors(values)))
        for place, kept in self.rest:
            found[..., kept] = values[..., kept] - dense[..., place]
        return found

    @property
    def gradient_flops(self) -> float:
        """Floating-point operations of one gradient."""
        return sum(gradient_flops(one.dims, one.rank) for one in self.weights)

    def initial(self, dense: Tensor, draws: torch.Generator) -> Tensor:
        """Values [n_values] whose weights have the variance of those of a dense start [n_dense], and its biases."""
        values = dense.new_empty(self.n_values)
        for one in self.weights:
            variance = float(one.weight(dense).square().mean())
            values[one.values] = as_block(initial(one.dims, one.rank, variance, draws)).to(dense)
        for place, kept in self.rest:
            values[kept] = dense[place]
        return values
