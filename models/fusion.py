"""How the embeddings of several modalities become the one vector that the head reads: (4) and (5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..emulator.contracts import Modality
from .head import HeadLayout


class ConcatFusion(nn.Module):
    """Embeddings side by side, in canonical order: equation (4)."""

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = tuple((str(modality), embedding_dim) for modality in modalities)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, n_modalities * embedding_dim]."""
        return embeddings.flatten(start_dim=1)


class MeanFusion(nn.Module):
    """Plain mean of the embeddings: attention with all scores equal."""

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = (("fused", embedding_dim),)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, embedding_dim]."""
        return embeddings.mean(dim=1)


class AttentionFusion(nn.Module):
    """Embeddings weighted per sample by bounded scores: equation (5).

    score = tanh(beta . h), weights = softmax over the client's modalities. With two modalities a weight stays inside
    [0.119, 0.881]: attention can turn a modality down, never off. The scoring vectors start at 0, the uniform mean, and
    never leave the client.
    """

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = (("fused", embedding_dim),)
        self.scoring = nn.Parameter(torch.zeros(len(modalities), embedding_dim))

    def weights(self, embeddings: Tensor) -> Tensor:
        """Share of every modality [batch, n_modalities]; rows sum to 1."""
        scores = torch.tanh((embeddings * self.scoring).sum(dim=-1))
        return torch.softmax(scores, dim=1)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, embedding_dim]."""
        return (self.weights(embeddings).unsqueeze(-1) * embeddings).sum(dim=1)


FUSIONS: dict[str, type[ConcatFusion] | type[MeanFusion] | type[AttentionFusion]] = {
    "attention": AttentionFusion,
    "concat": ConcatFusion,
    "mean": MeanFusion,
}


def head_layout(fusion: ConcatFusion | MeanFusion | AttentionFusion, n_outputs: int) -> HeadLayout:
    """Layout of the head that reads this fusion's output."""
    return HeadLayout(n_outputs, fusion.blocks)
