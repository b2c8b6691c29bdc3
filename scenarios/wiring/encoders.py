"""What every modality of a task is encoded by: the one place where tasks meet torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...emulator.contracts import Modality, NodeId
from ...emulator.engine import named_stream
from ...models.encoders.beam_map import beam_map_encoder
from ...models.encoders.camera_encoder import camera_encoder
from ...models.encoders.drone_camera import drone_camera_encoder
from ...models.encoders.lidar_encoder import lidar_encoder
from ...models.encoders.mlp import window_mlp
from ...models.encoders.normalize import (
    CameraScale,
    LidarScale,
    RelativePower,
    StandardizeColumns,
    StandardizePosition,
    StandardizePower,
)
from ...models.encoders.resnet import resnet50_encoder
from ...models.training.objectives import Objective, binary_cross_entropy, cross_entropy
from ..schema.scenario import Scenario

OBJECTIVES: Mapping[str, Objective] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
}

#: Of the usual sensor; where one reaches farther, its own readings say so.
LIDAR_RANGE_M = 16.0
#: Training samples that statistics of windows of images are taken from; more would not change them.
LOOKED_AT = 64


def torch_seed(seed: int, *name: object) -> int:
    """Seed of a torch generator, from the stream of this name."""
    return int(named_stream(seed, *name).integers(2**63))


def check_weights(scenario: Scenario) -> None:
    """Find out early, before a world is recorded, whether pretrained weights can be used.

    Raises:
        ConfigError: torchvision is not installed, or the file is missing or holds something else.
    """
    if scenario.model.camera_encoder != "small":
        with torch.random.fork_rng(devices=[]):
            _resnet50(scenario)


def make_encoder(scenario: Scenario, modality: Modality, train: Any, client_id: NodeId) -> tuple[nn.Module, nn.Module]:
    """Normalizer and encoder of one modality.

    Encoders start equal wherever a modality is owned. Normalizers know the client's own training samples; dropout draws
    from a stream of the client.

    Args:
        scenario: task and model.
        modality: which.
        train: training samples of the client.
        client_id: of the client.
    """
    wanted = _Wanted(
        scenario=scenario,
        shape=train.input_shapes[modality],
        rows=lambda indices: train.inputs(indices)[modality],
        n_rows=len(train),
        dropout_draws=torch.Generator().manual_seed(torch_seed(scenario.seed, "dropout", client_id, modality)),
    )
    with torch.random.fork_rng(devices=[]):
        # layers draw from the global generator; the fork gives it back as it was
        torch.manual_seed(torch_seed(scenario.seed, "encoder", modality))  # noqa: TID251
        return _MAKERS[scenario.task, modality](wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An encoder to be made: of what shape, and the training rows [n, ...] that it will see."""

    scenario: Scenario
    shape: tuple[int, ...]
    rows: Callable[[NDArray[np.int64]], NDArray[np.float32]]
    n_rows: int
    dropout_draws: torch.Generator

    def all_rows(self) -> NDArray[np.float32]:
        return self.rows(np.arange(self.n_rows))

    def some_rows(self) -> NDArray[np.float32]:
        """Evenly spread."""
        spread = np.linspace(0, self.n_rows - 1, min(self.n_rows, LOOKED_AT))
        return self.rows(np.unique(spread.astype(np.int64)))

    def perceptron(self) -> nn.Module:
        model = self.scenario.model
        return window_mlp(self.shape, model.hidden_dim, model.embedding_dim)

    def convolutional(self, make: Callable[..., nn.Module]) -> nn.Module:
        model = self.scenario.model
        given = {} if model.dropout is None else {"dropout": model.dropout}
        return make(self.shape, model.embedding_dim, self.dropout_draws, width=model.width, **given)


def _tracked_position(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    return StandardizePosition(wanted.all_rows()), wanted.perceptron()


def _tracked_sweeps(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    return RelativePower(wanted.all_rows()), wanted.perceptron()


def _lidar_window(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    farthest_m = float(wanted.some_rows()[:, 0].max())
    return LidarScale(max(LIDAR_RANGE_M, farthest_m)), wanted.convolutional(lidar_encoder)


def _camera_window(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    return CameraScale(wanted.some_rows()), wanted.convolutional(camera_encoder)


def _beam_map(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    return StandardizePower(wanted.all_rows()), wanted.convolutional(beam_map_encoder)


def _position_report(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    return StandardizeColumns(wanted.all_rows()), wanted.perceptron()


def _color_image(wanted: _Wanted) -> tuple[nn.Module, nn.Module]:
    if wanted.scenario.model.camera_encoder != "small":
        return _resnet50(wanted.scenario)
    return CameraScale(wanted.some_rows()), wanted.convolutional(drone_camera_encoder)


def _resnet50(scenario: Scenario) -> tuple[nn.Module, nn.Module]:
    model = scenario.model
    weights = Path(os.path.expanduser(model.weights))  # noqa: PTH111 - Path's own raises for an unknown user
    return resnet50_encoder(weights, model.embedding_dim, tuned=model.camera_encoder == "resnet50_tuned")


_MAKERS: Mapping[tuple[str, Modality], Callable[[_Wanted], tuple[nn.Module, nn.Module]]] = {
    ("beam_tracking", "gps"): _tracked_position,
    ("beam_tracking", "rf"): _tracked_sweeps,
    ("blockage", "lidar"): _lidar_window,
    ("blockage", "camera"): _camera_window,
    ("blockage", "rf"): _beam_map,
    ("beam_prediction", "gps"): _position_report,
    ("beam_prediction", "camera"): _color_image,
}
