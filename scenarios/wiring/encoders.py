"""Encoders of a scenario's clients; the only module between tasks and torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn

from ...emulator.contracts import MODALITY_SPECS, Modality, NodeId
from ...emulator.random_streams import named_stream
from ...models.client_model import ClientModel
from ...models.encoders.encoder_table import ENCODERS, EncoderRequest, TrainingInputs, pretrained_image
from ...models.settings import ModelSettings
from ..tasks.task_spec import Task


def embedding_dim(encoders: Iterable[nn.Module], settings: ModelSettings) -> int:
    """Size of the embeddings of a client's encoders; some have a size of their own, which is that of their input."""
    return int(getattr(next(iter(encoders)), "embedding_dim", settings.embedding_dim))


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


def make_encoders(
    task: Task,
    settings: ModelSettings,
    seed: int,
    modalities: Sequence[Modality],
    train: Any,
    client_id: NodeId,
    chosen: str = "",
    used: ClientModel | None = None,
) -> tuple[dict[Modality, nn.Module], dict[Modality, nn.Module]]:
    """Normalizers and encoders of a client, by modality.

    Encoders start equal wherever a modality is owned. Normalizers know the client's own training samples; dropout draws
    from a stream of the client.

    Args:
        task: task of the client.
        settings: settings of its model.
        seed: root seed of the run.
        modalities: of the inputs.
        train: training samples of the client.
        client_id: number of the client, which names its dropout streams.
        chosen: name of the encoders that the client's group chooses; empty: the task's, or the modality's.
        used: model of another client of the group, see `EncoderRequest.used`; None: there is none.
    """
    graph, shapes, samples = getattr(train, "graph", None), train.input_shapes, TrainingInputs(train.inputs, len(train))
    normalizers, encoders = {}, {}
    for modality in modalities:
        request = EncoderRequest(
            modality=modality,
            settings=settings,
            shape=shapes[modality],
            samples=samples,
            scale=getattr(train, "scale", None),
            graph=None if graph is None else (graph.features, graph.edges),
            seed=torch_seed(seed, "encoder", modality),
            dropout_seed=partial(torch_seed, seed, "dropout", client_id, modality),
            used=None if used is None else used.encoders[modality],
        )
        # a task names an encoder only where its input is not the usual window of the modality
        name = chosen or task.encoders.get(modality) or MODALITY_SPECS[modality].encoder
        normalizers[modality], encoders[modality] = ENCODERS[name](request)
    return normalizers, encoders
