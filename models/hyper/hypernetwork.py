"""The network of a server that answers with models: attention between clients, a perceptron, a layer per part.

A part is what several clients have in common in shape and meaning, such as the encoder of one modality, so that clients
with other sensors share what they can; with one kind of client there is a layer for all of the model.
Source: Liang et al. 2025, (10) and (11); Shamsian et al. 2021 (pFedHN) for clients that are known by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..encoders.dropout import SeededDropout
from ..hyper_settings import HyperSettings
from .client_diffusion import ClientDiffusion
from .generated_parts import GeneratedPart

#: Entries of the last layers' weights at the start, as a share of what torch gives a linear layer: answers are then the
#: common start and a little that depends on the client, where torch's own would be far out of scale.
START_SCALE = 0.01


class ClientAttention(nn.Module):
    """softmax(X A_Q (X A_K)^T) X A_V, one head, over the clients that are known; a client always attends to itself.

    Args:
        width: of embeddings, and of queries, keys and values.
        scaled: divide scores by the square root of the width.
    """

    def __init__(self, width: int, *, scaled: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self._scale = 1.0 / math.sqrt(width) if scaled else 1.0

    def forward(self, vectors: Tensor, known: Tensor) -> Tensor:
        """[N, width] of vectors [N, width] and who of them is known [N]."""
        scores = self.query(vectors) @ self.key(vectors).T * self._scale
        seen = known.unsqueeze(0) | torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
        found: Tensor = torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=1) @ self.value(vectors)
        return found


class Hypernetwork(nn.Module):
    """Vectors of clients [N, width] -> the parts of their models.

    Args:
        width: of the vectors.
        parts: what is answered.
        settings: of the hypernetwork.
        draws: stream of its dropout.
    """

    def __init__(
        self, width: int, parts: Sequence[GeneratedPart], settings: HyperSettings, draws: torch.Generator
    ) -> None:
        super().__init__()
        self.attention = ClientAttention(width, scaled=settings.scale_attention) if settings.attention else None
        self.hidden = nn.Linear(width, settings.hidden)
        self.dropout = SeededDropout(settings.dropout, draws)
        self.answers = nn.ModuleList(nn.Linear(settings.hidden, len(part.start)) for part in parts)
        for part, answer in zip(parts, self.answers, strict=True):
            assert isinstance(answer, nn.Linear)
            answer.weight.data.mul_(START_SCALE)
            answer.bias.data.copy_(part.start)

    def forward(self, vectors: Tensor, known: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
        """Answers of every part.

        Args:
            vectors: [N, width].
            known: [N] bool.
            rows: of every part: clients [n] that get it.

        Returns:
            of every part: [n, size], in the order of its clients.
        """
        attended = vectors if self.attention is None else self.attention(vectors, known)
        hidden = self.dropout(torch.relu(self.hidden(attended)))
        return [answer(hidden[chosen]) for answer, chosen in zip(self.answers, rows, strict=True)]


class ModelGenerator(nn.Module):
    """Diffusion of embeddings on the graph of clients, then the hypernetwork.

    Args:
        width: of clients' vectors.
        parts: what is answered.
        settings: of both.
        seed: of initial values and dropouts; numbers of other networks are not drawn from its streams.
    """

    def __init__(self, width: int, parts: Sequence[GeneratedPart], settings: HyperSettings, seed: int) -> None:
        super().__init__()
        of_diffusion, of_answers = (torch.Generator().manual_seed((seed + shift) % 2**63) for shift in (1, 2))
        with torch.random.fork_rng(devices=[]):
            # not torch.manual_seed: it also queues the seed for every kind of accelerator
            torch.default_generator.manual_seed(seed)
            self.diffusion = None if settings.diffusion == "none" else ClientDiffusion(width, settings, of_diffusion)
            self.hypernetwork = Hypernetwork(width, parts, settings, of_answers)

    def forward(self, vectors: Tensor, known: Tensor, ends: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
        """Answers of every part; arguments as of `Hypernetwork`, and the ends [2, E] of the graph's edges."""
        diffused = vectors if self.diffusion is None else self.diffusion(vectors, ends)
        found: list[Tensor] = self.hypernetwork(diffused, known, rows)
        return found

    def step_groups(self, settings: HyperSettings) -> list[dict[str, object]]:
        """Groups of parameters for an optimizer, each with its step size."""
        groups: list[dict[str, object]] = []
        if self.diffusion is not None:
            decay, step_size = settings.sheaf_weight_decay, settings.sheaf_step_size
            groups.append({"params": list(self.diffusion.parameters()), "lr": step_size, "weight_decay": decay})
        return [*groups, {"params": list(self.hypernetwork.parameters()), "lr": settings.step_size}]
