"""The linear task head as one flat vector, and what each of its coordinates means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class HeadLayout:
    """Meaning of the coordinates of a flattened head: weights row by row (one row per output), then the biases.

    Attributes:
        n_outputs: number of classes C.
        blocks: (name, width) of the column blocks of the weight matrix, in order. Attention and mean fusion have one
            block, "fused"; concatenation has one per modality.

    >>> layout = HeadLayout(2, (("fused", 3),))
    >>> layout.dim, layout.coordinates()["bias"]
    (8, array([6, 7]))
    """

    n_outputs: int
    blocks: tuple[tuple[str, int], ...]

    @property
    def width(self) -> int:
        """Columns of the weight matrix: the length of what the head reads."""
        return sum(width for _, width in self.blocks)

    @property
    def dim(self) -> int:
        """Coordinates of the flattened head, C (width + 1)."""
        return self.n_outputs * (self.width + 1)

    def coordinates(self) -> dict[str, NDArray[np.int64]]:
        """Flat indices of every block [n_outputs, width] and of "bias" [n_outputs]."""
        weights = np.arange(self.n_outputs * self.width, dtype=np.int64).reshape(self.n_outputs, self.width)
        ends = np.cumsum([width for _, width in self.blocks])
        named = {name: weights[:, end - width : end] for (name, width), end in zip(self.blocks, ends, strict=True)}
        # biases lie behind all weights, so that weights of one output are contiguous
        named["bias"] = np.arange(self.n_outputs * self.width, self.dim, dtype=np.int64)
        return named


def shared_coordinates(
    own: HeadLayout,
    peer: HeadLayout,
    own_outputs: Sequence[int] | None = None,
    peer_outputs: Sequence[int] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Coordinates that two heads have in common, matched by (class, block, feature).

    Args:
        own, peer: the heads.
        own_outputs, peer_outputs: [n_outputs] what every class of each is about, each once: classes that are about the
            same are the same. None: classes of the same number are.

    Returns:
        two [n_shared] arrays of flat indices, into the own and into the peer's head; equal positions mean the same.

    Source: Ghalkha et al. 2025 leave the choice open; comparing unrelated weights is worse than no coupling at all.
    """
    place = {output: number for number, output in enumerate(_outputs(peer, peer_outputs))}
    shared = [(number, place[output]) for number, output in enumerate(_outputs(own, own_outputs)) if output in place]
    own_numbers, peer_numbers = np.array(shared, dtype=np.int64).reshape(-1, 2).T
    widths = dict(peer.blocks)
    # blocks of the same name but another width mean something else
    names = [name for name, width in own.blocks if widths.get(name) == width] + ["bias"]
    own_at, peer_at = own.coordinates(), peer.coordinates()
    return (
        np.concatenate([own_at[name][own_numbers].ravel() for name in names]),
        np.concatenate([peer_at[name][peer_numbers].ravel() for name in names]),
    )


def _outputs(layout: HeadLayout, outputs: Sequence[int] | None) -> Sequence[int]:
    numbered = range(layout.n_outputs) if outputs is None else outputs
    assert len(set(numbered)) == len(numbered) == layout.n_outputs, "every class is about one thing of its own"
    return numbered


def chosen_outputs(head: Tensor, layout: HeadLayout, numbers: Sequence[int]) -> Tensor:
    """Head [len(numbers) * (width + 1)] of some classes of a head [dim], in this order."""
    n_weights = layout.n_outputs * layout.width
    weights = head[:n_weights].view(layout.n_outputs, layout.width)
    chosen = torch.tensor(numbers, dtype=torch.int64, device=head.device)
    return torch.cat([weights[chosen].flatten(), head[n_weights:][chosen]])


def mean_outputs(head: Tensor, layout: HeadLayout, numbers: Sequence[Sequence[int]]) -> Tensor:
    """Head [len(numbers) * (width + 1)] of classes each of which is the mean over as many classes of a head [dim]."""
    parts = [chosen_outputs(head, layout, part) for part in zip(*numbers, strict=True)]
    return torch.stack(parts).mean(dim=0)


def apply_head(head: Tensor, fused: Tensor, n_outputs: int) -> Tensor:
    """Logits [batch, n_outputs] of a flat head [n_outputs * (width + 1)] on what it reads [batch, width]."""
    n_weights = n_outputs * fused.shape[-1]
    return functional.linear(fused, head[:n_weights].view(n_outputs, fused.shape[-1]), head[n_weights:])


def initial_head(layout: HeadLayout, draws: torch.Generator) -> Tensor:
    """Head [dim] drawn as torch draws a linear layer: uniform in +-1/sqrt(width)."""
    bound = 1.0 / np.sqrt(layout.width)
    return (torch.rand(layout.dim, generator=draws, dtype=torch.float64) * 2.0 - 1.0).mul(bound).float()
