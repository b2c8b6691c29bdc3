"""Small reference networks that predict blockages from one sensor; they measure worlds and are never compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...emulator.contracts import ConfigError, Modality
from ...emulator.random_streams import named_stream
from ...models.encoders.map_encoder import beam_map_encoder, camera_encoder, lidar_encoder
from ...models.encoders.normalize import CameraScale, LidarScale, StandardizePower
from .warning_samples import Batch, PooledSamples, SiteSamples

#: Number of training samples for input statistics.
N_STATISTICS_SAMPLES = 256
#: Number of windows per forward pass.
N_WINDOWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class ReferenceSettings:
    """Size and training of the networks, the same for every sensor.

    Attributes:
        width: width of the encoders relative to the paper.
        embedding_dim: embedding size of the encoders.
        n_steps, batch_size: number and size of training batches; half of a batch precedes a blockage.
        step_size: largest step size of Adam, reached in the middle of one cycle.
    """

    width: float = 0.25
    embedding_dim: int = 32
    n_steps: int = 1000
    batch_size: int = 64
    step_size: float = 5e-3

    def __post_init__(self) -> None:
        for name, least in (("embedding_dim", 1), ("n_steps", 2), ("batch_size", 4)):
            if getattr(self, name) < least:
                raise ConfigError(f"reference.{name} must be at least {least}, got {getattr(self, name)}")


def trained_network(
    modality: Modality, samples: PooledSamples, horizons: Sequence[int], settings: ReferenceSettings, seed: int
) -> nn.Module:
    """Trained network with one output per horizon; the outputs share all layers but the last.

    Args:
        modality: lidar, camera or rf.
        samples: training samples of that sensor.
        horizons: frames, each at most the horizon of the samples.
        settings: size of the network, and training.
        seed: seed of weights, batches and dropout; reproducible on one machine with one thread count.

    Returns:
        Network from inputs [b, ...] in physical units to logits [b, n_horizons], in evaluation mode.
    """
    draws = named_stream(seed, "reference", modality, "batches")
    examples = samples.inputs(samples.balanced(N_STATISTICS_SAMPLES, draws))
    network = _network(modality, examples, len(horizons), settings, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.step_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.step_size, total_steps=settings.n_steps)
    limit = torch.tensor(list(horizons))
    blocked_share = torch.tensor([samples.blocked_share(horizon) for horizon in horizons])
    for _ in range(settings.n_steps):
        members = samples.balanced(settings.batch_size, draws)
        ahead = torch.from_numpy(samples.frames_ahead[members])
        loss = _balanced_loss(
            network(torch.from_numpy(samples.inputs(members))), ahead[:, None] <= limit, blocked_share
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        schedule.step()
    return network.eval()


def predictions_of(network: nn.Module, samples: SiteSamples) -> NDArray[np.bool_]:
    """[n, n_horizons] whether the network predicts a blockage, for every sample."""
    predicted = []
    with torch.no_grad():
        for begin in range(0, len(samples), N_WINDOWS_AT_ONCE):
            logits: Tensor = network(torch.from_numpy(samples.inputs(slice(begin, begin + N_WINDOWS_AT_ONCE))))
            # both classes weigh the same in training, so that a logit of 0 is the threshold of balanced accuracy
            predicted.append(logits.numpy() > 0.0)
    return np.concatenate(predicted)


def _balanced_loss(logits: Tensor, is_blocked: Tensor, blocked_share: Tensor) -> Tensor:
    """Cross-entropy [] that weighs both classes equally at every horizon, however rare one is in the batch.

    Args:
        logits: [b, n_horizons].
        is_blocked: [b, n_horizons] bool, a blockage within the horizon.
        blocked_share: [n_horizons] mean of `is_blocked` over balanced batches.
    """
    # batches are balanced at the largest horizon only; at shorter ones a blockage is rarer
    weight = torch.where(is_blocked, 0.5 / blocked_share, 0.5 / (1.0 - blocked_share))
    return functional.binary_cross_entropy_with_logits(logits, is_blocked.to(logits.dtype), weight)


def _network(
    modality: Modality, examples: Batch, n_outputs: int, settings: ReferenceSettings, seed: int
) -> nn.Sequential:
    """Untrained network: normalizer, encoder of the paper at small width, one linear layer.

    Args:
        examples: [n, ...] training inputs, for statistics and shapes.
    """
    # dropout has a generator of its own, because layers must not draw from the global one during training
    torch_seed = int(named_stream(seed, "reference", modality, "weights").integers(2**63))
    dropout_draws = torch.Generator().manual_seed(torch_seed)
    with torch.random.fork_rng(devices=[]):
        # layers draw from the global generator, which the fork restores
        torch.manual_seed(torch_seed)  # noqa: TID251
        normalizer, encoder = _sensor_layers(modality, examples, settings, dropout_draws)
        return nn.Sequential(normalizer, encoder, nn.ReLU(), nn.Linear(settings.embedding_dim, n_outputs))


def _sensor_layers(
    modality: Modality, examples: Batch, settings: ReferenceSettings, dropout_draws: torch.Generator
) -> tuple[nn.Module, nn.Module]:
    width, dim = settings.width, settings.embedding_dim
    if modality == "rf":
        shape = (examples.shape[1], examples.shape[2])
        return StandardizePower(examples), beam_map_encoder(shape, dim, dropout_draws, width=width)
    image_shape = (examples.shape[1], examples.shape[2], examples.shape[3])
    if modality == "lidar":
        # the largest reading is the range of the sensor, which also stands for "no echo"
        return LidarScale(float(examples[:, 0].max())), lidar_encoder(image_shape, dim, dropout_draws, width=width)
    if modality == "camera":
        return CameraScale(examples), camera_encoder(image_shape, dim, dropout_draws, width=width)
    raise ConfigError(f"reference models take lidar, camera or rf, got {modality}; choose one of the three")
