"""Small random problems for the reference, and for whatever is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from reference.sheaf_dmfl import Edge, ReferenceProblem

INPUT_WIDTHS = {"lidar": 5, "camera": 6, "rf": 4, "gps": 3}

FOUR_CLIENTS: dict[int, tuple[str, ...]] = {0: ("gps",), 1: ("rf", "gps"), 2: ("rf",), 3: ("rf", "gps")}
FOUR_EDGES: tuple[Edge, ...] = ((0, 1), (1, 2), (3, 1), (2, 3))


def random_problem(
    modalities: Mapping[int, tuple[str, ...]] = FOUR_CLIENTS,
    edges: Sequence[Edge] = FOUR_EDGES,
    *,
    seed: int = 7,
    n_classes: int = 3,
    embedding_dim: int = 4,
    stalk_dim: int = 3,
    batch_size: int = 5,
    **options: Any,
) -> ReferenceProblem:
    """Encoders with one hidden layer, equal at the start for all owners of a modality; all else differs by client.

    `options` go to `ReferenceProblem` and override its step sizes, coupling, rounds, fusion and the rest.
    """
    rng = np.random.default_rng(seed)
    chosen: dict[str, Any] = {
        "head_step_size": 0.05, "map_step_size": 0.02, "encoder_step_size": 0.05, "attention_step_size": 0.05,
        "coupling": 0.1, "n_rounds": 3, "fusion": "attention", "local_steps": 1,
    } | options  # fmt: skip
    hidden = 5
    common = {
        k: [
            (rng.normal(size=(hidden, width)), rng.normal(size=hidden)),
            (rng.normal(size=(embedding_dim, hidden)), rng.normal(size=embedding_dim)),
        ]
        for k, width in INPUT_WIDTHS.items()
    }
    concat = chosen["fusion"] == "concat"
    sizes = {i: n_classes * (embedding_dim * (len(owned) if concat else 1) + 1) for i, owned in modalities.items()}
    ends = [end for i, j in edges for end in ((i, j), (j, i))]

    def batch(owned: tuple[str, ...]) -> tuple[dict[str, Any], Any]:
        inputs = {k: rng.normal(size=(batch_size, INPUT_WIDTHS[k])) for k in owned}
        return inputs, rng.integers(n_classes, size=batch_size)

    return ReferenceProblem(
        modalities=modalities,
        edges=edges,
        encoders={i: {k: common[k] for k in owned} for i, owned in modalities.items()},
        attention={i: {k: rng.normal(size=embedding_dim) for k in owned} for i, owned in modalities.items()},
        heads={i: rng.normal(size=size) for i, size in sizes.items()},
        maps={(i, j): rng.normal(size=(stalk_dim, sizes[i])) * sizes[i] ** -0.5 for i, j in ends},
        batches=[
            [{i: batch(owned) for i, owned in modalities.items()} for _ in range(chosen["local_steps"])]
            for _ in range(chosen["n_rounds"])
        ],
        n_classes=n_classes,
        **chosen,
    )
