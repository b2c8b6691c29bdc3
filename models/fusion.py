"""How the embeddings of several modalities become the one vector that the head reads: (4) and (5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..emulator.contracts import Modality
from .head import HeadLayout


class ConcatFusion(nn.Module):
    """Embeddings side by side, in canonical order: equation (4). What is missing is 0."""

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = tuple((str(modality), embedding_dim) for modality in modalities)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, n_modalities * embedding_dim]."""
        return embeddings.flatten(start_dim=1)

    def masked(self, embeddings: Tensor, present: Tensor) -> tuple[Tensor, None]:
        """As `forward` of the modalities that are there; see `MeanFusion.masked`. None has a share of its own."""
        return self((present.unsqueeze(-1) > 0.0) * embeddings), None


class MeanFusion(nn.Module):
    """Plain mean of the embeddings: attention with all scores equal."""

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = (("fused", embedding_dim),)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, embedding_dim]."""
        return embeddings.mean(dim=1)

    def masked(self, embeddings: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward` of the modalities that are there.

        Args:
            embeddings: [batch, n_modalities, embedding_dim], finite where a modality is missing, and of no consequence.
            present: [batch or 1, n_modalities] 1 where a modality is there, 0 where it is not; one at least is.

        Returns:
            fused [batch, embedding_dim], and the share of every modality [batch, n_modalities]; rows sum to 1.
        """
        return _weighted(torch.ones_like(embeddings[..., 0]), embeddings, present)


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
        # tanh bounds the scores: no modality is ever switched off
        scores = torch.tanh((embeddings * self.scoring).sum(dim=-1))
        return torch.softmax(scores, dim=1)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, embedding_dim]."""
        return (self.weights(embeddings).unsqueeze(-1) * embeddings).sum(dim=1)

    def masked(self, embeddings: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward` of the modalities that are there: a softmax over those; see `MeanFusion.masked`."""
        return _weighted(self.weights(embeddings), embeddings, present)


class AttentionMlpFusion(nn.Module):
    """Embeddings weighted per sample by what a small network of every modality makes of them, without bounds.

    score = v . tanh(U h), weights = softmax over the client's modalities. A modality can be turned off altogether,
    and what counts need not be one direction of its embedding. v starts at 0, the uniform mean, and U at the identity,
    because with both at 0 neither would ever move; nothing is drawn, so all clients start equal. Ours.
    """

    def __init__(self, modalities: tuple[Modality, ...], embedding_dim: int) -> None:
        super().__init__()
        self.blocks = (("fused", embedding_dim),)
        self.scoring = nn.Parameter(torch.zeros(len(modalities), embedding_dim))  # v of every modality
        self.hidden = nn.Parameter(torch.eye(embedding_dim).repeat(len(modalities), 1, 1))  # U

    def weights(self, embeddings: Tensor) -> Tensor:
        """Share of every modality [batch, n_modalities]; rows sum to 1."""
        hidden = torch.tanh((self.hidden @ embeddings.unsqueeze(-1)).squeeze(-1))
        return torch.softmax((hidden * self.scoring).sum(dim=-1), dim=1)

    def forward(self, embeddings: Tensor) -> Tensor:
        """[batch, n_modalities, embedding_dim] -> [batch, embedding_dim]."""
        return (self.weights(embeddings).unsqueeze(-1) * embeddings).sum(dim=1)

    def masked(self, embeddings: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward` of the modalities that are there: a softmax over those; see `MeanFusion.masked`."""
        return _weighted(self.weights(embeddings), embeddings, present)


Fusion = ConcatFusion | MeanFusion | AttentionFusion | AttentionMlpFusion

FUSIONS: dict[str, type[Fusion]] = {
    "attention": AttentionFusion,
    "attention_mlp": AttentionMlpFusion,
    "concat": ConcatFusion,
    "mean": MeanFusion,
}


def _weighted(weights: Tensor, embeddings: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of the embeddings that are there with these weights [batch, n_modalities], and what they came to."""
    kept = weights * present
    shares = kept / kept.sum(dim=1, keepdim=True)
    return (shares.unsqueeze(-1) * embeddings).sum(dim=1), shares


def head_layout(fusion: Fusion, n_outputs: int) -> HeadLayout:
    """Layout of the head that reads this fusion's output."""
    return HeadLayout(n_outputs, fusion.blocks)
