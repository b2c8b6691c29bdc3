"""What becomes of clients' embeddings on the graph of clients: sheaf diffusion, and what it is compared with.

N clients, E edges, d `stalk_dim`, f `channels`. Between two projections of embeddings, [N, width] -> [N, d, f] and
back, every network has layers that see the graph as the two ends [2, E] of its edges.
Source: Liang et al. 2025, (5) to (9), and neural sheaf diffusion (Bodnar et al. 2022); the projections, ELU, and the
augmented normalization, which the paper leaves out, are those of the public code.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..encoders.dropout import SeededDropout
from ..hyper_settings import HyperSettings
from ..sheaf.equations import sheaf_laplacian

#: Features [N, d, f] and ends [2, E] -> new features.
GraphLayer = Callable[[Tensor, Tensor], Tensor]
#: Makes a layer of these settings.
LayerMaker = Callable[[HyperSettings], nn.Module]


def sum_at_ends(at_first: Tensor, at_second: Tensor, ends: Tensor, like: Tensor) -> Tensor:
    """[N, ...] sums over edges of what these have at their first and second ends, [E, ...] each."""
    return torch.zeros_like(like).index_add(0, ends[0], at_first).index_add(0, ends[1], at_second)


def sheaf_product(features: Tensor, ends: Tensor, maps: Tensor) -> Tensor:
    """L_F X for diagonal maps.

    Args:
        features: [N, d, f].
        ends: [2, E].
        maps: [2, E, d] diagonals of the maps at the first and second ends.
    """
    scale = maps.unsqueeze(-1)
    return sheaf_laplacian(
        features,
        lambda x: (scale[0] * x[ends[0]], scale[1] * x[ends[1]]),
        lambda first, second: sum_at_ends(scale[0] * first, scale[1] * second, ends, features),
    )


def normalized_product(features: Tensor, ends: Tensor, maps: Tensor) -> Tensor:
    """Delta_F X = (D + I)^-1/2 L_F (D + I)^-1/2 X, with D the diagonal of L_F; arguments as of `sheaf_product`.

    Its eigenvalues lie in [0, 2): a client without edges, or with maps near 0, divides by no small number.
    """
    squares = maps.square()
    degrees = sum_at_ends(squares[0], squares[1], ends, features[:, :, 0])
    scale = (degrees + 1.0).rsqrt().unsqueeze(-1)
    return scale * sheaf_product(scale * features, ends, maps)


def dirichlet_energy(features: Tensor, ends: Tensor, maps: Tensor) -> Tensor:
    """<X, Delta_F X> as a share of |X|^2, []: how much features differ along edges, seen through the maps."""
    size = features.square().sum()
    energy = (features * normalized_product(features, ends, maps)).sum()
    return energy / size.clamp_min(torch.finfo(size.dtype).tiny)


class SheafLayer(nn.Module):
    """X - elu(Delta_F (I x W1) X W2), with maps from the features of both ends, or the identity.

    The map of client n on its edge with m is the diagonal tanh(V [x_n || x_m]), with one V for both ends.

    Args:
        settings: of the diffusion.
    """

    def __init__(self, settings: HyperSettings) -> None:
        super().__init__()
        d, f = settings.stalk_dim, settings.channels
        self.left = nn.Parameter(torch.eye(d))
        self.right = nn.Parameter(nn.init.orthogonal_(torch.empty(f, f)))
        self.maps = nn.Linear(2 * d * f, d, bias=False) if settings.maps == "learned" else None

    def restriction_maps(self, features: Tensor, ends: Tensor) -> Tensor:
        """[2, E, d] diagonals at the first and second ends."""
        if self.maps is None:
            return features.new_ones(2, ends.shape[1], features.shape[1])
        first, second = features.flatten(1)[ends]
        both = torch.stack([torch.cat([first, second], dim=1), torch.cat([second, first], dim=1)])
        return torch.tanh(self.maps(both))

    def forward(self, features: Tensor, ends: Tensor) -> Tensor:
        mixed = (self.left @ features) @ self.right
        return features - functional.elu(normalized_product(mixed, ends, self.restriction_maps(features, ends)))


class GcnLayer(nn.Module):
    """elu((A + I) X W), normalized by the degrees of both ends; the features are one vector per client.

    Args:
        settings: of the diffusion.
    """

    def __init__(self, settings: HyperSettings) -> None:
        super().__init__()
        width = settings.stalk_dim * settings.channels
        self.weight = nn.Linear(width, width)

    def forward(self, features: Tensor, ends: Tensor) -> Tensor:
        flat = features.flatten(1)
        once = flat.new_ones(ends.shape[1], 1)
        scale = (sum_at_ends(once, once, ends, flat[:, :1]) + 1.0).rsqrt()
        scaled = scale * flat
        mixed = scale * (scaled + sum_at_ends(scaled[ends[1]], scaled[ends[0]], ends, scaled))
        return functional.elu(self.weight(mixed)).view_as(features)


class GatLayer(nn.Module):
    """elu(sum over neighbors and itself of a_nm W x_m), with a = softmax of leaky_relu(own . W x_n + other . W x_m).

    Args:
        settings: of the diffusion.
    """

    def __init__(self, settings: HyperSettings) -> None:
        super().__init__()
        width = settings.stalk_dim * settings.channels
        self.weight = nn.Linear(width, width)
        self.own, self.other = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)

    def forward(self, features: Tensor, ends: Tensor) -> Tensor:
        values = self.weight(features.flatten(1))
        scores = functional.leaky_relu(self.own(values) + self.other(values).T, 0.2)  # [N, N]
        linked = torch.eye(len(values), dtype=torch.bool, device=values.device)
        linked[ends[0], ends[1]] = linked[ends[1], ends[0]] = True
        shares = torch.softmax(scores.masked_fill(~linked, -torch.inf), dim=1)
        return functional.elu(shares @ values).view_as(features)


#: `hyper.diffusion` -> what makes one of its layers; "none" has no network at all.
DIFFUSIONS: dict[str, LayerMaker] = {"sheaf": SheafLayer, "gcn": GcnLayer, "gat": GatLayer}


class ClientDiffusion(nn.Module):
    """Projection of embeddings to features, layers on the graph, and projection back.

    Args:
        width: of embeddings.
        settings: of the diffusion; not "none".
        draws: stream of its dropout.

    Attributes:
        energy: Dirichlet energy of the features that came to the first layer of a sheaf, when it last learned; NaN
            before that, and where there is no sheaf.
    """

    def __init__(self, width: int, settings: HyperSettings, draws: torch.Generator) -> None:
        super().__init__()
        self._shape = settings.stalk_dim, settings.channels
        self.lin_in = nn.Linear(width, settings.stalk_dim * settings.channels)
        self.dropout = SeededDropout(settings.dropout, draws)
        idle = settings.diffusion == "sheaf" and settings.maps == "none"
        make = DIFFUSIONS[settings.diffusion]
        self.layers = nn.ModuleList(make(settings) for _ in range(0 if idle else settings.sheaf_layers))
        self.lin_out = nn.Linear(settings.stalk_dim * settings.channels, width)
        self.energy = float("nan")

    def forward(self, embeddings: Tensor, ends: Tensor) -> Tensor:
        """[N, width] of embeddings [N, width] and ends [2, E]."""
        features = self.dropout(functional.elu(self.lin_in(embeddings))).unflatten(1, self._shape)
        first = self.layers[0] if self.layers else None
        if isinstance(first, SheafLayer) and self.training:
            with torch.no_grad():
                self.energy = float(dirichlet_energy(features, ends, first.restriction_maps(features, ends)))
        for layer in self.layers:
            features = layer(features, ends)
        found: Tensor = self.lin_out(features.flatten(1))
        return found
