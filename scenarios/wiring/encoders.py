"""Encoders of a scenario's clients; the only module between tasks and torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from ...emulator.contracts import MODALITY_SPECS, Modality, NodeId
from ...emulator.random_streams import named_stream
from ...models.encoders.encoder_table import ENCODERS, EncoderRequest, pretrained_image
from ...models.settings import ModelSettings
from ..tasks.task_spec import Task


def embedding_dim(encoders: Sequence[nn.Module], settings: ModelSettings) -> int:
    """Size of the embeddings of a client's encoders; some have a size of their own, which is that of their input."""
    return int(getattr(encoders[0], "embedding_dim", settings.embedding_dim))


@lru_cache(maxsize=4096)  # asked again for every client that starts equal
def torch_seed(seed: int, *name: object) -> int:
    """Seed of a torch generator, from the stream of this name."""
    return int(named_stream(seed, *name).integers(2**63))


def check_weights(settings: ModelSettings) -> None:
    """Refuse unusable pretrained weights before a world is recorded.

    Raises:
        ConfigError: torchvision is not installed, or the file is missing or holds something else.
    """
    if settings.camera_encoder != "small":
        with torch.random.fork_rng(devices=[]):
            pretrained_image(settings)


def make_encoder(
    task: Task,
    settings: ModelSettings,
    seed: int,
    modality: Modality,
    train: Any,
    client_id: NodeId,
    chosen: str = "",
    used: nn.Module | None = None,
) -> tuple[nn.Module, nn.Module]:
    """Normalizer and encoder of one modality of a client.

    Encoders start equal wherever a modality is owned. Normalizers know the client's own training samples; dropout draws
    from a stream of the client.

    Args:
        task: task of the client.
        settings: settings of its model.
        seed: root seed of the run.
        modality: modality of the input.
        train: training samples of the client.
        client_id: number of the client, which names its dropout stream.
        chosen: name of the encoder that the client's group chooses; empty: the task's, or the modality's.
        used: encoder of another client of the group, see `EncoderRequest`; None: there is none.
    """
    graph = getattr(train, "graph", None)
    request = EncoderRequest(
        modality=modality,
        settings=settings,
        shape=train.input_shapes[modality],
        samples=lambda indices: train.inputs(indices)[modality],
        n_samples=len(train),
        scale=getattr(train, "scale", None),
        graph=None if graph is None else (graph.features, graph.edges),
        seed=torch_seed(seed, "encoder", modality),
        dropout_seed=lambda: torch_seed(seed, "dropout", client_id, modality),
        used=used,
    )
    # a task names an encoder only where its input is not the usual window of the modality
    name = chosen or task.encoders.get(modality) or MODALITY_SPECS[modality].encoder
    return ENCODERS[name](request)
