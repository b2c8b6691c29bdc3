"""Training and test samples of the reference models: windows of all base stations, and frames to the next blockage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation
from ...datasets.splits.partition import partition
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BlockageWindows, blockage_windows
from ...emulator.contracts import DataError, Modality

Index = NDArray[np.int64]
Batch = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class SiteSamples:
    """Windows of one base station and one sensor.

    Attributes:
        windows: n windows.
        frames_ahead: [n] frames from the last frame of the window to the next blocked one, from 1; horizon + 1 if there
            is none within the horizon.
    """

    windows: BlockageWindows
    frames_ahead: Index

    def __len__(self) -> int:
        return len(self.windows)

    def inputs(self, indices: Index | slice = slice(None)) -> Batch:
        """[b, ...] inputs of the sensor, see `BlockageWindows.inputs`."""
        (modality,) = self.windows.modalities
        return self.windows.inputs(indices)[modality]

    def clear_now(self) -> Self:
        """Samples whose last frame is not blocked."""
        clear = np.flatnonzero(~self.windows.blocked_now)
        return replace(self, windows=self.windows.take(clear), frames_ahead=self.frames_ahead[clear])


def site_samples(
    station: RecordedStation, modality: Modality, length: int, horizon: int, test_fraction: float
) -> tuple[SiteSamples, SiteSamples]:
    """Training and held-out samples of one base station, split by time with an unused gap between them.

    Args:
        station: recorded base station with the geometric label.
        modality: lidar, camera or rf.
        length, horizon: number of input frames, and largest prediction horizon in frames.
        test_fraction: share at the end of the recording that is held out.

    Raises:
        ConfigError: the recording is too short.
        DataError: the recording lacks the sensor or the label.
    """
    blocked: NDArray[np.bool_] = station.read("blocked_geometric")
    sensed = SensedFrames.of(station, [modality])
    windows = blockage_windows(sensed, [modality], length, horizon, label="blocked_geometric")
    # a split by time draws nothing from the generator; the gap keeps inputs and labels of both sides apart
    (rows,) = partition(
        [windows], [0], np.random.default_rng(0), split="time", test_fraction=test_fraction, gap_frames=length + horizon
    )
    train, test = windows.take(rows.train), windows.take(rows.test)
    return (
        SiteSamples(train, frames_ahead(blocked, train.end, horizon)),
        SiteSamples(test, frames_ahead(blocked, test.end, horizon)),
    )


def frames_ahead(blocked: NDArray[np.bool_], now: Index, horizon: int) -> Index:
    """[n] frames from frame `now` to the next blocked frame; horizon + 1 if that is farther.

    Args:
        blocked: [n_frames] label by geometry.
        now: [n] frame indices, each with `horizon` frames after it.
        horizon: largest number of frames, at least 1.
    """
    # from 1 on: the frame at hand is an input, not a prediction
    ahead = blocked[now[:, None] + np.arange(1, horizon + 1)]
    return np.where(ahead.any(axis=1), ahead.argmax(axis=1) + 1, horizon + 1).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PooledSamples:
    """Training samples of all base stations, drawn in balanced batches.

    Attributes:
        sites: samples per base station.
        site, sample: [n] base station, and index of the sample there, of every sample of the pool.
        frames_ahead: [n] as in `SiteSamples`.
        horizon: largest prediction horizon in frames.
    """

    sites: tuple[SiteSamples, ...]
    site: Index
    sample: Index
    frames_ahead: Index
    horizon: int

    @classmethod
    def of(cls, sites: Sequence[SiteSamples]) -> Self:
        """Pool of some base stations.

        Raises:
            DataError: all samples are of one class.
        """
        ahead = np.concatenate([site.frames_ahead for site in sites])
        horizon = sites[0].windows.horizon
        n_blocked = int((ahead <= horizon).sum())
        if n_blocked in {0, len(ahead)}:
            raise DataError(
                f"{n_blocked} of {len(ahead)} training windows end within {horizon} frames of a blockage; a "
                "model needs "
                "both kinds, so record longer or more base stations"
            )
        return cls(
            sites=tuple(sites),
            site=np.repeat(np.arange(len(sites)), [len(site) for site in sites]),
            sample=np.concatenate([np.arange(len(site)) for site in sites]),
            frames_ahead=ahead,
            horizon=horizon,
        )

    def shuffled(self, draws: np.random.Generator) -> Self:
        """The same inputs with shuffled labels: a negative control."""
        return replace(self, frames_ahead=draws.permutation(self.frames_ahead))

    def balanced(self, n: int, draws: np.random.Generator) -> Index:
        """[n] indices into the pool, with repeats: half of them with a blockage within the horizon."""
        is_blocked = self.frames_ahead <= self.horizon
        halves = [np.flatnonzero(kind) for kind in (is_blocked, ~is_blocked)]
        sizes = (n // 2, n - n // 2)
        # with repeats, because blockages are rarer than half of a batch
        return np.concatenate([half[draws.integers(len(half), size=k)] for half, k in zip(halves, sizes, strict=True)])

    def blocked_share(self, horizon: int) -> float:
        """Share of a balanced batch with a blockage within a shorter horizon."""
        # half of a batch precedes a blockage within the largest horizon; of that half, a share within this one
        frames_ahead = self.frames_ahead[self.frames_ahead <= self.horizon]
        return 0.5 * float((frames_ahead <= horizon).mean())

    def inputs(self, members: Index) -> Batch:
        """[b, ...] inputs of some members of the pool, in their order."""
        # one sample shows the shape of all
        first = self.sites[0].inputs(np.zeros(1, dtype=np.int64))
        batch: NDArray[Any] = np.empty((len(members), *first.shape[1:]), dtype=np.float32)
        for index, site in enumerate(self.sites):
            here = np.flatnonzero(self.site[members] == index)
            if len(here):
                batch[here] = site.inputs(self.sample[members[here]])
        return batch
