"""Cuts what a base station recorded into samples: sequences that warn of a blockage, and single steps for beams.

Every frame is held once, however many windows it is part of; inputs are gathered when a batch asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import ConfigError, DataError, Modality
from .recording_reader import RecordedStation
from .sensor_frames import gps_frames, grey_frames, lidar_frames, measured_powers, rf_frames, rgb_frames

BlockageLabel = Literal["blocked_geometric", "blocked_labeled", "blocked_power"]
#: Which definition of blocked is used where the caller names none: the first that the recording has.
BLOCKAGE_LABELS: tuple[BlockageLabel, ...] = ("blocked_geometric", "blocked_labeled", "blocked_power")

Frames = Mapping[Modality, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class BlockageWindows:
    """Samples of one base station; sample i ends at frame `end[i]` and knows nothing after it.

    Attributes:
        frames: per modality, every frame once: lidar [n_frames, 2, n_rays] float32, camera [n_frames, h, w] uint8 grey,
            rf [n_frames, n_beams] float32 in dB.
        end: [n] int64, row of the recording at which a window ends, t; it begins at t - length + 1.
        label: [n] int64, (23): 1 if any of the frames t + 1 to t + horizon is blocked, else 0.
        blocked_now: [n] bool, whether frame t is.
        sequence: [n] int64.
        length, horizon: frames looked at, and ahead.
        n_frames: of the recording.

    Source: label, eq. (23) of Ghalkha et al. 2025.
    """

    frames: Frames
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    blocked_now: NDArray[np.bool_]
    sequence: NDArray[np.int64]
    length: int
    horizon: int
    n_frames: int

    def __len__(self) -> int:
        return len(self.end)

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Those of the inputs."""
        return tuple(self.frames)

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> dict[Modality, NDArray[np.float32]]:
        """Inputs of some samples, oldest frame first.

        Returns:
            lidar [b, 2, length, n_rays] range in m and angle in rad; camera [b, length, h, w] grey, 0 to 1;
            rf [b, length, n_beams] received power in dB.
        """
        rows = self.end[indices, None] + np.arange(1 - self.length, 1)  # [b, length]
        gathered: dict[Modality, NDArray[np.float32]] = {}
        for modality, frames in self.frames.items():
            batch = frames[rows]
            if modality == "lidar":
                batch = np.ascontiguousarray(np.moveaxis(batch, 1, 2))
            elif modality == "camera":
                batch = np.divide(batch, 255, dtype=np.float32)
            gathered[modality] = batch
        return gathered

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order; frames are shared."""
        return replace(
            self,
            end=self.end[indices],
            label=self.label[indices],
            blocked_now=self.blocked_now[indices],
            sequence=self.sequence[indices],
        )

    def split_by_time(self, test_fraction: float, gap_frames: int | None = None) -> tuple[Self, Self]:
        """Training samples, then a gap, then test samples; no frame is an input or a label of both.

        Args:
            test_fraction: share of the recording's frames at its end whose windows are held out, in (0, 1).
            gap_frames: between them; at least, and by default, length + horizon.

        Raises:
            ConfigError: a fraction outside its range, or a gap that would let windows overlap.
            DataError: no sample is left on one side.
        """
        least = self.length + self.horizon
        gap = least if gap_frames is None else gap_frames
        if gap < least:
            raise ConfigError(
                f"data.gap_frames must be at least window + horizon = {least}, got {gap}; less shares frames"
            )
        train, test = split_by_time(self.n_frames, test_fraction, gap)
        sides = [np.flatnonzero((self.end >= rows.start) & (self.end < rows.stop)) for rows in (train, test)]
        for name, side in zip(("training", "test"), sides, strict=True):
            if len(side) == 0:
                raise DataError(
                    f"split by time leaves no {name} window among {self.n_frames} frames with data.test_fraction = "
                    f"{test_fraction} and a gap of {gap} frames; record longer"
                )
        return self.take(sides[0]), self.take(sides[1])


def blockage_windows(
    station: RecordedStation,
    modalities: Sequence[Modality],
    length: int = 16,
    horizon: int = 5,
    *,
    label: BlockageLabel | None = None,
    max_frame_step: int = 1,
) -> BlockageWindows:
    """Every window of a recording with its label; none crosses a sequence or a hole in it.

    Beams that were not measured (NaN) count as the weakest measured beam of their sweep.

    Args:
        station: of a `RecordingReader`.
        modalities: that the client owns, among lidar, camera and rf.
        length: frames of a window, now included.
        horizon: frames ahead that the label looks at.
        label: which definition of blocked; None takes the first of `BLOCKAGE_LABELS` that the recording has.
        max_frame_step: largest step of `frame_index` inside a window, where the recording has one.

    Raises:
        ConfigError: a length or horizon below 1, or a modality that is no sequence input.
        DataError: the recording lacks a modality or the label, or has no stretch long enough.
    """
    if length < 1 or horizon < 1:
        raise ConfigError(f"data.window and data.horizon must be at least 1, got {length} and {horizon}")
    if unknown := [name for name in modalities if name not in {"lidar", "camera", "rf"}]:
        raise ConfigError(f"blockage is predicted from lidar, camera and rf, not from {unknown[0]}; choose among them")
    chosen: str = label or next((name for name in BLOCKAGE_LABELS if name in station.field_names), BLOCKAGE_LABELS[0])
    blocked: NDArray[np.bool_] = station.read(chosen)
    begin, stop = _stretches(station, max_frame_step)
    row = np.arange(station.n_frames)
    end = np.flatnonzero((row - begin >= length - 1) & (row + horizon < stop)).astype(np.int64)
    if len(end) == 0:
        raise DataError(
            f"base station {station.name!r} has no unbroken stretch of {length + horizon} frames (longest: "
            f"{(stop - begin).max()}), which data.window = {length} and data.horizon = {horizon} need"
        )
    n_blocked = np.concatenate([[0], np.cumsum(blocked)])  # [n + 1], before each row
    return BlockageWindows(
        frames={name: _sequence_frames(station, name) for name in modalities},
        end=end,
        label=(n_blocked[end + horizon + 1] > n_blocked[end + 1]).astype(np.int64),
        blocked_now=blocked[end],
        sequence=station.read("sequence")[end].astype(np.int64),
        length=length,
        horizon=horizon,
        n_frames=station.n_frames,
    )


def split_by_time(n: int, test_fraction: float, gap_frames: int) -> tuple[range, range]:
    """Rows for training, then `gap_frames` rows that nobody uses, then rows for the test.

    Windows that end in these rows share no frame if the gap is at least window + horizon.

    Raises:
        ConfigError: a fraction outside its range, a negative gap, or a side without rows.
    """
    if not 0 < test_fraction < 1:
        raise ConfigError(f"data.test_fraction must lie in (0, 1), got {test_fraction}; 0.3 holds out the last 30 %")
    if gap_frames < 0:
        raise ConfigError(f"data.gap_frames must be at least 0, got {gap_frames}; window + horizon keeps windows apart")
    first_test = n - max(round(test_fraction * n), 1)
    if first_test - gap_frames < 1:
        raise ConfigError(
            f"{n} frames are too few for data.test_fraction = {test_fraction} and a gap of {gap_frames} frames; "
            "record longer"
        )
    return range(first_test - gap_frames), range(first_test, n)


@dataclass(frozen=True, slots=True, eq=False)
class BeamWindows:
    """Single steps of one base station: what it sees now, and which beam is best now.

    Attributes:
        frames: per modality, every frame once: gps [n_frames, k] float32, camera [n_frames, h, w, 3] uint8.
        end: [n] int64, row of the recording that is now.
        label: [n] int64, best beam.
        powers: [n, n_beams] float64, linear received power; only for scoring. Beams that were not measured (NaN in the
            recording) hold the weakest measured power of their sweep.
        previous_beam: [n] int64, best beam of the frame before.
        sequence: [n] int64.
        gps_origin: [k] float64, taken off the columns in degrees, which float32 would round to a meter.
    """

    frames: Frames
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    powers: NDArray[np.float64]
    previous_beam: NDArray[np.int64]
    sequence: NDArray[np.int64]
    gps_origin: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.end)

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Those of the inputs."""
        return tuple(self.frames)

    @property
    def n_beams(self) -> int:
        """Size of the codebook."""
        return int(self.powers.shape[1])

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> dict[Modality, NDArray[np.float32]]:
        """Inputs of some samples: gps [b, k], camera [b, 3, h, w] RGB, 0 to 1."""
        rows = self.end[indices]
        gathered: dict[Modality, NDArray[np.float32]] = {}
        for modality, frames in self.frames.items():
            batch = frames[rows]
            if modality == "camera":
                batch = np.divide(np.moveaxis(batch, 3, 1), 255, dtype=np.float32, order="C")
            gathered[modality] = batch
        return gathered

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order; frames are shared."""
        return replace(
            self,
            end=self.end[indices],
            label=self.label[indices],
            powers=self.powers[indices],
            previous_beam=self.previous_beam[indices],
            sequence=self.sequence[indices],
        )


def beam_windows(
    station: RecordedStation, modalities: Sequence[Modality], n_beams: int | None = None, *, max_frame_step: int = 1
) -> BeamWindows:
    """Every frame with another one just before it, as a sample; the previous one is for the persistence baseline only.

    Args:
        station: of a `RecordingReader`, with rf for the label.
        modalities: that the client owns, among gps and camera.
        n_beams: every (n / n_beams)-th beam is kept; None keeps all.
        max_frame_step: largest step of `frame_index` to the previous frame, where the recording has one.

    Raises:
        ConfigError: a modality that does not tell where the user is, or a codebook that does not fit.
        DataError: the recording lacks a modality, or every sequence has one frame.
    """
    if unknown := [name for name in modalities if name not in {"gps", "camera"}]:
        raise ConfigError(f"beams are predicted from gps and camera, not from {unknown[0]}; rf holds the label itself")
    powers = station.read("rf").astype(np.float64)
    kept = powers.shape[1] if n_beams is None else n_beams
    if kept < 2 or powers.shape[1] % kept:
        raise ConfigError(
            f"data.n_beams = {kept} cannot be kept of {powers.shape[1]} recorded beams; divide by 1, 2, 4, 8"
        )
    powers = measured_powers(powers[:, :: powers.shape[1] // kept])
    begin, _ = _stretches(station, max_frame_step)
    end = np.flatnonzero(np.arange(station.n_frames) > begin).astype(np.int64)
    if len(end) == 0:
        raise DataError(f"base station {station.name!r} has no two consecutive frames; record longer")
    best = powers.argmax(axis=1).astype(np.int64)
    frames: dict[Modality, NDArray[Any]] = {}
    origin = np.zeros(0)
    if "gps" in modalities:
        frames["gps"], origin = gps_frames(station)
    if "camera" in modalities:
        frames["camera"] = rgb_frames(station)
    return BeamWindows(
        frames={name: frames[name] for name in modalities},
        end=end,
        label=best[end],
        powers=powers[end],
        previous_beam=best[end - 1],
        sequence=station.read("sequence")[end].astype(np.int64),
        gps_origin=origin,
    )


def _stretches(station: RecordedStation, max_frame_step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[n_frames] first row, and row after the last, of the unbroken stretch that each row is part of."""
    sequence = station.read("sequence")
    cut = np.diff(sequence, prepend=sequence[0]) != 0
    if "frame_index" in station.field_names:
        number = station.read("frame_index").astype(np.int64)
        cut |= np.diff(number, prepend=number[0]) > max_frame_step
    cut[0] = True
    begins = np.flatnonzero(cut)
    member = np.cumsum(cut) - 1
    return begins[member], np.append(begins[1:], len(sequence))[member]


def _sequence_frames(station: RecordedStation, modality: Modality) -> NDArray[Any]:
    if modality == "lidar":
        return lidar_frames(station)
    return grey_frames(station) if modality == "camera" else rf_frames(station)
