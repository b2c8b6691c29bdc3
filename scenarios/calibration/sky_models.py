"""Small reference models that predict the best beam from images and positions; they measure worlds only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...datasets.scores import BeamScores, score_ranking
from ...datasets.windows.perturb import ImageChange
from ...datasets.windows.sensor_windows import BeamWindows
from ...emulator.contracts import DataError
from ...emulator.random_streams import named_stream
from ...models.encoders.dropout import SeededDropout
from ...models.encoders.map_encoder import drone_camera_encoder
from ...models.encoders.mlp import position_mlp
from ...models.encoders.normalize import CameraScale, StandardizeColumns

Rows = NDArray[np.int64]

EMBEDDING_DIM = 64
BATCH = 64
#: Number of samples for image statistics, and number of samples per forward pass.
N_SCALE_SAMPLES, N_AT_ONCE = 512, 256
#: AdamW with a one-cycle schedule: rising over a fifth of the steps, then falling to 0.
STEP_SIZE: Mapping[str, float] = {"image": 2e-3, "gps": 3e-3, "both": 3e-3}
WEIGHT_DECAY, WARM_UP = 1e-3, 0.2
#: Dropout of the image embedding while positions are added: on its training images the image model is nearly perfect,
#: so that without dropout positions would get no gradient.
FUSION_DROPOUT = 0.5


@dataclass(frozen=True, slots=True)
class Budget:
    """Training budget and size of the models.

    Attributes:
        n_steps: minibatches of 64 samples per model.
        width: width of the image encoder relative to `drone_camera_encoder`.
    """

    n_steps: int = 1200
    width: float = 0.5


class SkySamples:
    """Samples of one base station as tensors.

    Args:
        windows: windows with gps and camera.

    Attributes:
        image: [n, 3, h, w] uint8.
        fix: [n, k] float32 position reports.
        label: [n] int64 best beams.
    """

    def __init__(self, windows: BeamWindows) -> None:
        self.windows = windows
        self.image = _channels_last(np.moveaxis(windows.frames["camera"][windows.end], 1, -1))
        self.fix = torch.from_numpy(windows.frames["gps"][windows.end])
        self.label = torch.from_numpy(windows.label)

    def __len__(self) -> int:
        return len(self.label)

    def with_images(self, change: ImageChange) -> SkySamples:
        """The same samples with changed images."""
        windows, other = self.windows, copy(self)
        images = np.moveaxis(windows.frames["camera"][windows.end], 1, -1)
        other.image = _channels_last(change(images, windows.end))
        return other

    def with_fixes(self, windows: BeamWindows) -> SkySamples:
        """The same images with position reports of another GPS receiver.

        Raises:
            DataError: the other recording has other flights.
        """
        # the recordings differ in the sensors only, so that equal labels show equal flights
        if not np.array_equal(windows.label, self.windows.label):
            raise DataError("position reports of another flight cannot be joined to these images; record both anew")
        other = copy(self)
        other.fix = torch.from_numpy(windows.frames["gps"][windows.end])
        return other


@dataclass(frozen=True, slots=True, eq=False)
class ImageModel:
    """Model trained on images alone.

    Attributes:
        embedding: [n, 64] image embeddings of all samples.
        head: linear layer from embedding to beams.
    """

    embedding: Tensor
    head: nn.Linear


def learn_images(samples: SkySamples, train: Rows, budget: Budget, seed: int) -> ImageModel:
    """Model that predicts beams from images alone.

    Args:
        samples: samples of one base station.
        train: indices of training samples.
        budget: training budget.
        seed: seed of weights, dropout and batches.
    """
    channels, height, width = (int(n) for n in samples.image.shape[1:])
    with _seeded(seed):
        encoder = nn.Sequential(
            # statistics of training images only: those of test images would leak into the model
            CameraScale(samples.image[train[:N_SCALE_SAMPLES]].numpy()),
            drone_camera_encoder(
                (channels, height, width), EMBEDDING_DIM, torch.Generator().manual_seed(seed), width=budget.width
            ),
        )
        head = nn.Linear(EMBEDDING_DIM, samples.windows.n_beams)
    whole = nn.Sequential(encoder, head)
    _learn(whole, lambda rows: whole(samples.image[rows]), samples, train, budget, "image", seed)
    return ImageModel(_in_pieces(lambda rows: encoder(samples.image[rows]), np.arange(len(samples))), head)


def image_scores(samples: SkySamples, model: ImageModel, test: Rows) -> BeamScores:
    """Scores of predictions from images alone on the test samples."""
    return _scored(lambda rows: model.head(model.embedding[rows]), samples, test)


def gps_scores(samples: SkySamples, train: Rows, test: Rows, budget: Budget, seed: int) -> BeamScores:
    """Scores, on the test samples, of a model trained on position reports alone."""
    with _seeded(seed):
        model = nn.Sequential(_position_encoder(samples, train), nn.Linear(EMBEDDING_DIM, samples.windows.n_beams))
    _learn(model, lambda rows: model(samples.fix[rows]), samples, train, budget, "gps", seed)
    return _scored(lambda rows: model(samples.fix[rows]), samples, test)


def both_scores(
    samples: SkySamples, image: ImageModel, train: Rows, test: Rows, budget: Budget, seed: int
) -> BeamScores:
    """Scores, on the test samples, of a model trained on images and position reports.

    Embeddings are concatenated. The image embedding is that of the image model and stays fixed. The head starts from
    that of the image model, so that training adds what positions contribute.
    """
    n_beams = samples.windows.n_beams
    with _seeded(seed):
        encoder = _position_encoder(samples, train)
        head = nn.Linear(2 * EMBEDDING_DIM, n_beams)
    dropout = SeededDropout(FUSION_DROPOUT, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        # zero weights for positions: before the first step the model answers as the image model does
        head.weight.copy_(torch.cat([image.head.weight, torch.zeros(n_beams, EMBEDDING_DIM)], dim=1))
        head.bias.copy_(image.head.bias)

    def forward(rows: Rows) -> Tensor:
        beams: Tensor = head(torch.cat([dropout(image.embedding[rows]), encoder(samples.fix[rows])], dim=1))
        return beams

    # the image encoder is no part of it: its embeddings are constants here
    _learn(nn.ModuleList([encoder, dropout, head]), forward, samples, train, budget, "both", seed)
    return _scored(forward, samples, test)


def _position_encoder(samples: SkySamples, train: Rows) -> nn.Sequential:
    columns = StandardizeColumns(samples.fix[train].numpy())
    return nn.Sequential(columns, position_mlp(EMBEDDING_DIM, n_inputs=int(samples.fix.shape[1])), nn.ReLU())


def _learn(
    model: nn.Module,
    forward: Callable[[Rows], Tensor],
    samples: SkySamples,
    train: Rows,
    budget: Budget,
    name: str,
    seed: int,
) -> None:
    """Train by cross-entropy on shuffled samples."""
    draws = named_stream(seed, "sky calibration", name, "batches")
    optimizer = torch.optim.AdamW(model.parameters(), lr=STEP_SIZE[name], weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, STEP_SIZE[name], total_steps=budget.n_steps, pct_start=WARM_UP
    )
    model.train()
    ahead = np.empty(0, dtype=np.int64)
    for _ in range(budget.n_steps):
        # batches run across the borders of epochs, so that every batch is full
        while len(ahead) < BATCH:
            ahead = np.concatenate([ahead, draws.permutation(train)])
        rows, ahead = ahead[:BATCH], ahead[BATCH:]
        loss = nn.functional.cross_entropy(forward(rows), samples.label[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    model.eval()


def _scored(forward: Callable[[Rows], Tensor], samples: SkySamples, test: Rows) -> BeamScores:
    ranking = _in_pieces(forward, test).topk(3, dim=1).indices.numpy()
    return score_ranking(ranking, samples.windows.label[test], samples.windows.powers[test])


def _channels_last(images: NDArray[np.uint8]) -> Tensor:
    """[n, 3, h, w] of images [n, h, w, 3], whose order in memory stays as it was."""
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


def _in_pieces(forward: Callable[[Rows], Tensor], rows: Rows) -> Tensor:
    with torch.no_grad():
        return torch.cat([forward(rows[begin : begin + N_AT_ONCE]) for begin in range(0, len(rows), N_AT_ONCE)])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Context in which new layers get weights of this seed; the global torch generator is restored afterwards."""
    # no devices: forking the generators of GPUs would initialize CUDA
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # noqa: TID251 - layers draw from it
        yield
