"""Small fixed networks that warn of blockages from one sensor: a yardstick for worlds, not a contestant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...emulator.contracts import ConfigError, Modality
from ...emulator.engine import named_stream
from ...models.encoders.beam_map import beam_map_encoder
from ...models.encoders.camera_encoder import camera_encoder
from ...models.encoders.lidar_encoder import lidar_encoder
from ...models.encoders.normalize import CameraScale, LidarScale, StandardizePower
from .warning_samples import Batch, PooledSamples, SiteSamples

#: Training rows that statistics are taken of.
STATISTICS_ROWS = 256
#: Windows scored at once.
SCORED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class ReferenceSettings:
    """How large the networks are and how long they learn; the same for every sensor.

    Attributes:
        width: of the encoders, 1 being the paper's.
        embedding_dim: of the encoders.
        n_steps, batch_size: of the training; half of a batch comes before a blockage.
        step_size: largest of Adam's, which rises and falls once over the training.
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
    """One network that has learned to warn over several horizons at once: they share all but the last layer.

    Args:
        modality: lidar, camera or rf.
        samples: of that sensor, for training.
        horizons: frames ahead, each at most the horizon of the samples; one logit each.
        settings: of network and training.
        seed: of weights, batches and dropout; the same on one machine and thread count gives the same network.

    Returns:
        network [b, ...] in physical units -> [b, n_horizons] logits, ready to be asked.
    """
    draws = named_stream(seed, "reference", modality, "batches")
    rows = samples.inputs(samples.balanced(STATISTICS_ROWS, draws))
    network = _network(modality, rows, len(horizons), settings, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.step_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.step_size, total_steps=settings.n_steps)
    limit = torch.tensor(list(horizons))
    warned_share = torch.tensor([samples.warned_share(horizon) for horizon in horizons])
    for _ in range(settings.n_steps):
        members = samples.balanced(settings.batch_size, draws)
        ahead = torch.from_numpy(samples.frames_ahead[members])
        loss = _balanced_loss(network(torch.from_numpy(samples.inputs(members))), ahead[:, None] <= limit, warned_share)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        schedule.step()
    return network.eval()


def warnings_of(network: nn.Module, samples: SiteSamples) -> NDArray[np.bool_]:
    """[n, n_horizons] whether the network warns, for every sample."""
    said = []
    with torch.no_grad():
        for begin in range(0, len(samples), SCORED_AT_ONCE):
            logits: Tensor = network(torch.from_numpy(samples.inputs(slice(begin, begin + SCORED_AT_ONCE))))
            said.append(logits.numpy() > 0.0)
    return np.concatenate(said)


def _balanced_loss(logits: Tensor, comes: Tensor, warned_share: Tensor) -> Tensor:
    """Cross-entropy [] in which the two kinds count the same for every horizon, however rare one is in the batch.

    Args:
        logits: [b, n_horizons].
        comes: [b, n_horizons] bool.
        warned_share: [n_horizons] mean of `comes`.
    """
    weight = torch.where(comes, 0.5 / warned_share, 0.5 / (1.0 - warned_share))
    return functional.binary_cross_entropy_with_logits(logits, comes.to(logits.dtype), weight)


def _network(modality: Modality, rows: Batch, n_outputs: int, settings: ReferenceSettings, seed: int) -> nn.Sequential:
    """Normalizer, encoder of the paper's scenario at small width, one linear layer.

    Args:
        rows: [n, ...] of training samples, for statistics and shapes.
    """
    torch_seed = int(named_stream(seed, "reference", modality, "weights").integers(2**63))
    dropout_draws = torch.Generator().manual_seed(torch_seed)
    with torch.random.fork_rng(devices=[]):
        # layers draw from the global generator; the fork gives it back as it was
        torch.manual_seed(torch_seed)  # noqa: TID251
        normalizer, encoder = _sensor_layers(modality, rows, settings, dropout_draws)
        return nn.Sequential(normalizer, encoder, nn.ReLU(), nn.Linear(settings.embedding_dim, n_outputs))


def _sensor_layers(
    modality: Modality, rows: Batch, settings: ReferenceSettings, dropout_draws: torch.Generator
) -> tuple[nn.Module, nn.Module]:
    width, dim = settings.width, settings.embedding_dim
    if modality == "rf":
        shape = (rows.shape[1], rows.shape[2])
        return StandardizePower(rows), beam_map_encoder(shape, dim, dropout_draws, width=width)
    image_shape = (rows.shape[1], rows.shape[2], rows.shape[3])
    if modality == "lidar":
        # the farthest reading is the sensor's reach, which stands for "no echo"
        return LidarScale(float(rows[:, 0].max())), lidar_encoder(image_shape, dim, dropout_draws, width=width)
    if modality == "camera":
        return CameraScale(rows), camera_encoder(image_shape, dim, dropout_draws, width=width)
    raise ConfigError(f"reference models warn from lidar, camera and rf, not from {modality}; choose among them")
