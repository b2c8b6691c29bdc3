"""P^T T P of factored maps as an operator on heads alone, for steps between which nothing but the head changes.

With P = P0 - D^T W (see `FactoredMaps`), T = diag(weights of rows), M = D T P0 and K = D T D^T:

    P^T T P w = P0^T T P0 w - W^T (M w - K W w) - M^T W w

A product reads W and M, [n_terms, head_dim] each. P and then P^T read D twice as well, which has a column for every
coordinate of every edge. M and K of all rows grow by one term per step of the maps; rows with other weights than 1,
those that were lost, are taken off them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .map_starts import IdentityRows

_FIRST_ROOM = 8


class NormalForm(NamedTuple):
    """P^T T P of one client.

    Attributes:
        diagonal: [head_dim] of P0^T T P0, where P0 are rows of the identity.
        heads: W, [n_terms, head_dim].
        images: M, [n_terms, head_dim].
        gram: K, [n_terms, n_terms].
    """

    diagonal: Tensor
    heads: Tensor
    images: Tensor
    gram: Tensor

    def product(self, head: Tensor) -> Tensor:
        """P^T T P w, [head_dim]."""
        of_heads, of_images = self.heads @ head, self.images @ head
        found = torch.addmv(self.diagonal * head, self.heads.T, self.gram @ of_heads - of_images)
        return found.addmv_(self.images.T, of_heads, alpha=-1.0)


class GatheredHistory:
    """M and K of a history to which terms are added, for weights of 1.

    Term by term, so that a history that was read from a checkpoint gives the same bits as one that grew.

    Args:
        like: [any, head_dim] for size, dtype and device.
    """

    def __init__(self, like: Tensor) -> None:
        self._images, self._gram = like.new_zeros(0, like.shape[1]), like.new_zeros(0, 0)
        self._n = 0

    @property
    def n_bytes(self) -> int:
        return sum(t.element_size() * t.nelement() for t in (self._images, self._gram))

    def form(self, start: IdentityRows, heads: Tensor, residuals: Tensor, weights: Tensor) -> NormalForm | None:
        """The operator for weights [n_rows]; None: of too many rows they are not 1 for it to be worth while."""
        others = (weights != 1.0).nonzero()[:, 0]
        if len(others) > len(weights) // 2:
            return None
        self._follow(start, residuals)
        images, gram = self._images[: self._n], self._gram[: self._n, : self._n]
        if len(others) > 0:
            columns = residuals[:, others]
            missing = columns * (1.0 - weights[others])
            images, gram = images - start.pull_rows(others, missing), gram - missing @ columns.T
        return NormalForm(start.pull(weights), heads, images, gram)

    def _follow(self, start: IdentityRows, residuals: Tensor) -> None:
        """Gather the terms of residuals D [n_terms, n_rows] that are new."""
        if len(residuals) > len(self._gram):
            self._make_room(max(len(residuals), 2 * self._n, _FIRST_ROOM))
        for term in range(self._n, len(residuals)):
            self._images[term] = start.pull(residuals[term])
            products = residuals[: term + 1] @ residuals[term]
            self._gram[term, : term + 1] = products
            self._gram[: term + 1, term] = products
        self._n = len(residuals)

    def _make_room(self, n_terms: int) -> None:
        images, gram = self._images, self._gram
        self._images = images.new_zeros(n_terms, images.shape[1])
        self._gram = gram.new_zeros(n_terms, n_terms)
        self._images[: self._n], self._gram[: self._n, : self._n] = images[: self._n], gram[: self._n, : self._n]
