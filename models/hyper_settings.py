"""Settings of the algorithms whose server generates models (`pfedhn`, `fedsheafhn`). No torch, as all settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .settings import require, require_finite_at_least


@dataclass(frozen=True, slots=True)
class HyperSettings:
    """The hypernetwork of a server, and what it knows of its clients.

    `pfedhn` knows clients by their numbers alone, and reads hidden, dropout, step_size and the share of its clients.

    Attributes:
        graph: edges between clients: "knn" links every client with the nearest others by the cosine of their
            embeddings, "complete" all with all.
        knn: K, nearest others that a client chooses; an edge is there if either end chose it.
        refresh_every: exchanges from one embedding of a client to its next, and from one graph to the next; embeddings
            and edges stay what they are in between.
        normalize: bring every embedding to a root mean square of 1 before it is used, which the paper does not. Without
            it longer embeddings make larger models and these longer embeddings, until training diverges.
        diffusion: what becomes of embeddings on the graph: "sheaf" diffusion, a "gcn", a "gat", or "none".
        maps: restriction maps of the sheaf: "learned" from the features of both ends, "identity" (which leaves the
            graph's own Laplacian), or "none" (no layer, only the projections before and after).
        sheaf_layers: T_s, layers of the diffusion, whichever it is.
        stalk_dim: d, dimension of every stalk.
        channels: f, features per dimension of a stalk.
        attention: whether clients attend to each other before the perceptron.
        scale_attention: divide attention's scores by the square root of their width, which the paper does not.
        hidden: width of the perceptron's hidden layer.
        dropout: share that it and the diffusion drop while they learn.
        sheaf_step_size: alpha, of Adam on the diffusion.
        sheaf_weight_decay: of the diffusion.
        step_size: beta, of Adam on the hypernetwork.
        output: what the hypernetwork answers: "dense", all parameters, or "factors", canonical factors of what is added
            to every weight of the common start, ours; changes are then sent as factors too.
        rank_ratio: how many times fewer numbers the factors of a weight have than the weight, at least 1.
        late_clients: number of clients, drawn by the seed, that join late: they send one embedding and receive one
            model of a server that does not learn from them, and then train their heads alone.
        join_round: round in which they train and send their embedding, with the exchange that then opens.
    """

    graph: Literal["knn", "complete"] = "knn"
    knn: int = 5
    refresh_every: int = 5
    normalize: bool = True
    diffusion: Literal["sheaf", "gcn", "gat", "none"] = "sheaf"
    maps: Literal["learned", "identity", "none"] = "learned"
    sheaf_layers: int = 2
    stalk_dim: int = 1
    channels: int = 20
    attention: bool = True
    scale_attention: bool = False
    hidden: int = 128
    dropout: float = 0.3
    sheaf_step_size: float = 0.001
    sheaf_weight_decay: float = 5e-4
    step_size: float = 0.001
    output: Literal["dense", "factors"] = "dense"
    rank_ratio: float = 4.0
    late_clients: int = 0
    join_round: int = 1

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        for name in ("knn", "refresh_every", "sheaf_layers", "stalk_dim", "channels", "hidden", "join_round"):
            require(getattr(self, name) >= 1, f"hyper.{name}", getattr(self, name), "must be at least 1")
        require(0.0 <= self.dropout < 1.0, "hyper.dropout", self.dropout, "must lie in [0, 1) (0 switches it off)")
        require_finite_at_least("hyper.sheaf_step_size", self.sheaf_step_size, 0.0, "0 freezes the diffusion")
        require_finite_at_least("hyper.sheaf_weight_decay", self.sheaf_weight_decay, 0.0, "0 leaves it as it is")
        require_finite_at_least("hyper.step_size", self.step_size, 0.0, "0 freezes the hypernetwork")
        require_finite_at_least("hyper.rank_ratio", self.rank_ratio, 1.0, "1 has as many numbers as the weight")
        require(self.late_clients >= 0, "hyper.late_clients", self.late_clients, "must be at least 0 (0: nobody)")
