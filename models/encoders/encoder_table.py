"""Normalizers and encoders by name: the one table that a modality or a task chooses its encoder from.

Every entry takes inputs in physical units: what scales them is the normalizer, so that exported models take metres, dB
and grey levels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...emulator.contracts import ConfigError, Modality
from ...emulator.modalities import LIDAR_REACH_M
from ..settings import ModelSettings
from .conv_block import SampleSizeError
from .dropout import SeededDropout
from .graph_convolution import GraphConvolutions, LocalGraph, NodeFeatures
from .map_encoder import beam_map_encoder, camera_encoder, drone_camera_encoder, lidar_encoder, radar_encoder
from .mlp import window_mlp
from .normalize import (
    CameraScale,
    LidarScale,
    RelativePower,
    StandardizeColumns,
    StandardizePosition,
    StandardizePower,
)
from .resnet import resnet50_encoder
from .row_scale import AsColumns, ScaledColumns, column_scale, pixel_scale
from .small_cnn import CNN_SIZES, CnnSizes, SmallCnn
from .tdpfed_networks import HiddenLayer, Vgg8

#: Training samples that statistics of large inputs are taken from; more would not change them.
SAMPLES_FOR_STATISTICS = 64
Made = TypeVar("Made")


class TrainingInputs:
    """Inputs that a client's normalizers take statistics of; each is gathered once, for all of its modalities.

    Args:
        inputs: indices [n] -> modality -> [n, *shape] training inputs.
        n_samples: number of training samples.
    """

    def __init__(
        self, inputs: Callable[[NDArray[np.int64]], Mapping[Modality, NDArray[np.float32]]], n_samples: int
    ) -> None:
        self._inputs, self._n_samples = inputs, n_samples

    @cached_property
    def all(self) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_samples, *shape]."""
        return self._inputs(np.arange(self._n_samples))

    @cached_property
    def some(self) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [at most SAMPLES_FOR_STATISTICS, *shape], evenly spread."""
        spread = np.linspace(0, self._n_samples - 1, min(self._n_samples, SAMPLES_FOR_STATISTICS))
        return self._inputs(np.unique(spread.astype(np.int64)))


@dataclass(frozen=True, slots=True)
class EncoderRequest:
    """Request for the normalizer and the encoder of one input.

    Attributes:
        modality: modality of the input.
        settings: settings of the model.
        shape: shape of one input, without the batch.
        samples: training inputs that the client's encoders will see.
        seed: seed of the first values of its layers.
        dropout_seed: gives the seed of the stream that its dropouts draw from.
        used: encoder of another client whose request differs in samples and dropouts only, with the values that it
            began with; it is taken over where layers know nothing of samples. None: layers are made.
        graph: features [n, F] and edges [2, n_edges] of the client's part of a graph, where inputs are its nodes.
        scale: mean and standard deviation by which inputs are scaled, where the data set knows them; None: those of the
            samples.
    """

    modality: Modality
    settings: ModelSettings
    shape: tuple[int, ...]
    samples: TrainingInputs
    seed: int
    dropout_seed: Callable[[], int]
    used: nn.Module | None = None
    scale: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    graph: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None

    def all_samples(self) -> NDArray[np.float32]:
        """[n_samples, *shape] all training inputs."""
        return self.samples.all[self.modality]

    def some_samples(self) -> NDArray[np.float32]:
        """[at most SAMPLES_FOR_STATISTICS, *shape] training inputs, evenly spread."""
        return self.samples.some[self.modality]

    @property
    def dropout_draws(self) -> torch.Generator:
        """Random stream of its dropouts, at its beginning."""
        return torch.Generator().manual_seed(self.dropout_seed())

    def drawn(self, make: Callable[[], Made]) -> Made:
        """Layers whose first values are drawn by the seed."""
        with torch.random.fork_rng(devices=[]):
            # layers draw from the global generator; the fork gives it back as it was
            # not torch.manual_seed: it also queues the seed for every kind of accelerator, each with a traceback
            torch.default_generator.manual_seed(self.seed)
            return make()

    def layers(self, make: Callable[[], nn.Module]) -> nn.Module:
        """An encoder that knows nothing of samples: the used one, or one that is made."""
        return self.drawn(make) if self.used is None else self.used

    def perceptron(self) -> nn.Module:
        """A two-layer perceptron over the flattened input."""
        settings = self.settings
        return self.layers(lambda: window_mlp(self.shape, settings.hidden_dim, settings.embedding_dim))

    def convolutional(self, make: Callable[..., nn.Module]) -> nn.Module:
        """A convolutional encoder, with the dropout of the settings where they name one.

        Raises:
            ConfigError: the inputs are too small for it.
        """
        settings, draws = self.settings, self.dropout_draws
        given: dict[str, Any] = {} if settings.dropout is None else {"dropout": settings.dropout}
        given |= {"width": settings.width, "norm_first": settings.block_order == "norm_first"}
        try:
            encoder = self.layers(lambda: make(self.shape, settings.embedding_dim, draws, **given))
        except SampleSizeError as error:
            raise ConfigError(f"{self.modality} {error}") from None
        for part in encoder.modules():
            if isinstance(part, SeededDropout):
                part.draw_from(draws)
        return encoder


#: Makes normalizer and encoder; only encoders draw.
EncoderMaker = Callable[[EncoderRequest], tuple[nn.Module, nn.Module]]


def _position_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return StandardizePosition(request.all_samples()), request.perceptron()


def _relative_sweeps(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return RelativePower(request.all_samples()), request.perceptron()


def _lidar_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    # channel 0 is the range, channel 1 the angle; a LiDAR that reaches farther is scaled by its own reach
    farthest_m = float(request.some_samples()[:, 0].max())
    return LidarScale(max(LIDAR_REACH_M, farthest_m)), request.convolutional(lidar_encoder)


def _camera_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return CameraScale(request.some_samples()), request.convolutional(camera_encoder)


def _sweep_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return StandardizePower(request.all_samples()), request.convolutional(beam_map_encoder)


def _signal_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return StandardizePower(request.all_samples()), request.perceptron()


def _radar_window(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return StandardizePower(request.some_samples()), request.convolutional(radar_encoder)


def _identity(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return _columns(request), request.layers(lambda: AsColumns(request.shape))


def _mlp(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return _columns(request), request.perceptron()


def _columns(request: EncoderRequest) -> nn.Module:
    mean, std = request.scale or column_scale(request.all_samples())
    return ScaledColumns(mean, std)


def _pixels(request: EncoderRequest) -> nn.Module:
    mean, std = request.scale or pixel_scale(request.some_samples())
    return ScaledColumns(mean, std, limit=None)


def _of_images(network: Callable[[tuple[int, ...]], nn.Module]) -> EncoderMaker:
    def make(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
        try:
            return _pixels(request), request.layers(lambda: network(request.shape))
        except SampleSizeError as error:
            raise ConfigError(f"{request.modality} {error}") from None

    return make


def _cnn(sizes: CnnSizes) -> EncoderMaker:
    return _of_images(lambda shape: SmallCnn(shape, sizes))


def _hidden_layer(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    normalizer = _columns(request) if len(request.shape) == 1 else _pixels(request)
    return normalizer, request.layers(lambda: HiddenLayer(request.shape))


def _graph(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    if request.graph is None:
        raise ConfigError(
            "a model of a graph needs the nodes and edges of its client, and samples alone do not hold them"
        )
    features, edges = request.graph
    normalizer = NodeFeatures(*(request.scale or column_scale(features)))
    dropout = 0.5 if request.settings.dropout is None else request.settings.dropout
    width, graph = request.settings.embedding_dim, LocalGraph(normalizer.scaled(features), edges)
    hidden_dim, draws = request.settings.hidden_dim, request.dropout_draws
    return normalizer, request.drawn(lambda: GraphConvolutions(graph, hidden_dim, width, dropout, draws))


def _position_report(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    return StandardizeColumns(request.all_samples()), request.perceptron()


def _color_image(request: EncoderRequest) -> tuple[nn.Module, nn.Module]:
    if request.settings.camera_encoder != "small":
        return request.drawn(lambda: pretrained_image(request.settings))
    return CameraScale(request.some_samples()), request.convolutional(drone_camera_encoder)


def pretrained_image(settings: ModelSettings) -> tuple[nn.Module, nn.Module]:
    """Normalizer and encoder of single images around a pretrained ResNet-50.

    Raises:
        ConfigError: torchvision is not installed, or the file of weights is missing or holds something else.
    """
    weights = Path(os.path.expanduser(settings.weights))  # noqa: PTH111 - Path's own raises for an unknown user
    return resnet50_encoder(weights, settings.embedding_dim, tuned=settings.camera_encoder == "resnet50_tuned")


#: Name, as modalities and tasks write it -> what makes it.
ENCODERS: Mapping[str, EncoderMaker] = {
    "lidar_window": _lidar_window,
    "camera_window": _camera_window,
    "sweep_window": _sweep_window,
    "position_window": _position_window,
    "radar_window": _radar_window,
    "signal_window": _signal_window,
    "relative_sweeps": _relative_sweeps,
    "position_report": _position_report,
    "color_image": _color_image,
    "identity": _identity,
    "mlp": _mlp,
    "mlp_tdp": _hidden_layer,
    "vgg8": _of_images(Vgg8),
    "gcn": _graph,
    **{name: _cnn(sizes) for name, sizes in CNN_SIZES.items()},
}
