"""Samples cut from sensed frames: windows for blockage prediction, and single instants for beam prediction.

Frames stay where `SensedFrames` has them, however many windows they are part of; inputs are gathered when a batch asks
for them. Cutting again after the buffer has grown costs a few small arrays, and keeps every sample that there was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, ConfigError, DataError, InputWindow, Modality
from .best_beams import powers_and_best_beams
from .samples import Frames, Windows, gathered_inputs, in_own_order, input_shapes
from .sensed_frames import SensedFrames
from .swept_powers import filled_powers, without_powers

BlockageLabel = Literal["blocked_geometric", "blocked_labeled", "blocked_power"]
#: Which definition of blocked is used where the caller names none: the first that the recording has.
BLOCKAGE_LABELS: tuple[BlockageLabel, ...] = ("blocked_geometric", "blocked_labeled", "blocked_power")
#: What can warn of a blockage, and what shows in one frame where a user is.
BLOCKAGE_INPUTS = tuple(modality for modality in SENSED_MODALITIES if MODALITY_SPECS[modality].sees_surroundings)
BEAM_INPUTS: tuple[Modality, ...] = ("camera", "gps")


@dataclass(frozen=True, slots=True, eq=False)
class BlockageWindows:
    """Samples of one base station; sample i ends at frame `end[i]` and knows nothing after it.

    Attributes:
        frames: per modality, every frame once, as `MODALITY_SPECS` describes it: lidar [n_frames, 2, n_rays] float32,
            camera [n_frames, h, w] uint8 grey, rf [n_frames, n_beams] float32 in dB.
        windows: modality -> window of frames that make an input.
        end: [n] int64, row of the recording at which a window ends, t; it begins at t - n_before.
        label: [n] int64, (23): 1 if any of the frames t + 1 to t + horizon is blocked, else 0; of outage, see
            `outage_windows`.
        blocked_now: [n] bool, whether frame t is.
        frames_to_blockage: [n] int64, frames from t to the next blocked one, 1 to horizon; 0 where the label is.
        sequence: [n] int64.
        horizon: frames ahead that the label looks at.
        n_frames: sensed so far.

    Source: label, eq. (23) of Ghalkha et al. 2025.
    """

    frames: Frames
    windows: Windows
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    blocked_now: NDArray[np.bool_]
    frames_to_blockage: NDArray[np.int64]
    sequence: NDArray[np.int64]
    horizon: int
    n_frames: int

    def __len__(self) -> int:
        return len(self.end)

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities that a sample has inputs of."""
        return tuple(self.frames)

    @property
    def input_shapes(self) -> dict[Modality, tuple[int, ...]]:
        """Modality -> shape of one sample of `inputs`; sizes are 0 where nothing has been sensed yet."""
        return input_shapes(self.frames, self.windows)

    @property
    def frame_rows(self) -> NDArray[np.int64]:
        """[n_frames] row of the recording that each frame was: all of them."""
        return np.arange(self.n_frames)

    @property
    def n_before(self) -> int:
        """Frames before now that a sample uses."""
        return max(window.reach for window in self.windows.values())

    @property
    def n_after(self) -> int:
        """Frames after now that a label uses."""
        return self.horizon

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> dict[Modality, NDArray[np.float32]]:
        """Inputs of some samples, oldest frame first.

        Returns:
            lidar [b, 2, length, n_rays] range in m and angle in rad; camera [b, length, h, w] grey, 0 to 255;
            rf [b, length, n_beams] received power in dB.
        """
        return gathered_inputs(self.frames, self.windows, self.end[indices])

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order; frames are shared."""
        return replace(
            self,
            end=self.end[indices],
            label=self.label[indices],
            blocked_now=self.blocked_now[indices],
            frames_to_blockage=self.frames_to_blockage[indices],
            sequence=self.sequence[indices],
        )

    def ending_in(self, first: int, stop: int) -> Self:
        """The samples whose windows end in rows from `first` to before `stop`; frames are shared."""
        return self.take(np.flatnonzero((self.end >= first) & (self.end < stop)))


def blockage_windows(
    sensed: SensedFrames,
    modalities: Sequence[Modality],
    length: int = 16,
    horizon: int = 5,
    *,
    label: BlockageLabel | None = None,
    max_frame_step: int = 1,
    stride: int = 1,
    may_be_empty: bool = False,
) -> BlockageWindows:
    """Every window of what was sensed whose label is known by now; none crosses a sequence or a hole in it.

    Args:
        sensed: so far; what comes later gives further windows and changes none of these.
        modalities: modalities of the client, among `BLOCKAGE_INPUTS`.
        length: frames of a window, now included.
        horizon: frames ahead that the label looks at.
        label: name of the blockage label; None takes the first of `BLOCKAGE_LABELS` that the base station has.
        max_frame_step: largest step of `frame_index` inside a window, where the base station has one.
        stride: windows end in every stride-th row, counted from the first row of all.
        may_be_empty: no window is an answer, not an error: more may come.

    Raises:
        ConfigError: a length, horizon or stride below 1, a modality that is no sequence input, or a camera in color.
        DataError: the base station lacks a modality or the label, or there is no stretch long enough.
    """
    check_inputs("blockage", modalities, BLOCKAGE_INPUTS)
    chosen: str = label or next((name for name in BLOCKAGE_LABELS if name in sensed.columns), BLOCKAGE_LABELS[0])
    return windows_before(
        sensed,
        modalities,
        sensed.column(chosen),
        length,
        horizon,
        max_frame_step=max_frame_step,
        stride=stride,
        may_be_empty=may_be_empty,
    )


def windows_before(
    sensed: SensedFrames,
    modalities: Sequence[Modality],
    blocked: NDArray[np.bool_],
    length: int,
    horizon: int,
    *,
    max_frame_step: int = 1,
    stride: int = 1,
    may_be_empty: bool = False,
) -> BlockageWindows:
    """Every window before frames that are blocked or not [n_frames]; arguments and errors as of `blockage_windows`."""
    if length < 1 or horizon < 1:
        raise ConfigError(f"data.window and data.horizon must be at least 1, got {length} and {horizon}")
    _check_color(sensed, modalities, color=False)
    if "rf" in modalities and (silent := without_powers(sensed.frames("rf"))).any():
        raise DataError(
            f"base station {sensed.name!r}: no beam was measured in frame {int(silent.argmax())}; leave this frame out"
        )
    begin, stop = _stretches(sensed, max_frame_step)
    row = np.arange(sensed.n_frames)
    end = _every(stride, np.flatnonzero((row - begin >= length - 1) & (row + horizon < stop)))
    if len(end) == 0 and not may_be_empty:
        raise DataError(
            f"base station {sensed.name!r} has no unbroken stretch of {length + horizon} frames (longest: "
            f"{(stop - begin).max(initial=0)}), which data.window = {length} and data.horizon = {horizon} need"
        )
    frames_to_blockage = _frames_to_blockage(blocked, end, horizon)
    return BlockageWindows(
        frames={name: sensed.frames(name) for name in modalities},
        windows={name: InputWindow(name, length, axis=MODALITY_SPECS[name].window_axis) for name in modalities},
        end=end,
        label=(frames_to_blockage > 0).astype(np.int64),
        blocked_now=blocked[end],
        frames_to_blockage=frames_to_blockage,
        sequence=sensed.column("sequence")[end],
        horizon=horizon,
        n_frames=sensed.n_frames,
    )


def _frames_to_blockage(blocked: NDArray[np.bool_], end: NDArray[np.int64], horizon: int) -> NDArray[np.int64]:
    """[n] frames from the rows `end` to the next blocked row; 0 where it is further away than the horizon.

    >>> _frames_to_blockage(np.array([False, False, True, True, False]), np.array([0, 1, 2, 3]), horizon=1)
    array([0, 1, 1, 0])
    """
    rows = np.append(np.flatnonzero(blocked), len(blocked) + horizon)  # the last stands for no blockage any more
    ahead = rows[rows.searchsorted(end, side="right")] - end
    return np.where(ahead <= horizon, ahead, 0)


@dataclass(frozen=True, slots=True, eq=False)
class BeamWindows:
    """Samples of one base station: what it has seen up to now, and which beam is best now.

    Attributes:
        frames: per modality, every frame once: gps [n_frames, k] float32, camera [n_frames, 3, h, w] uint8,
            rf [n_frames, n_beams] float32 in dB, its beams in the order of the codebook.
        windows: modality -> window of an input. A window of rf ends before now: the sweep of now holds the label.
        measured: [n_frames, n_beams] linear received power in the order of the codebook, NaN where a beam was not
            measured; all NaN where the best beam is known without powers.
        end: [n] int64, row of the recording that is now.
        label: [n] int64, best beam.
        previous_beam: [n] int64, best beam of the frame before.
        sequence: [n] int64.
        frame_rows: [n_frames] int64, row of the recording that each frame was.
        numbering: [n_beams] int64, beam of the codebook that each number stands for.
        n_before: frames before now that a sample uses, for its inputs or for `previous_beam`.
        gps_origin: [k] float64, taken off the columns in degrees, which float32 would round to a meter.
    """

    frames: Frames
    windows: Windows
    measured: NDArray[np.floating[Any]]
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    previous_beam: NDArray[np.int64]
    sequence: NDArray[np.int64]
    frame_rows: NDArray[np.int64]
    numbering: NDArray[np.int64]
    n_before: int
    gps_origin: NDArray[np.float64]

    n_after = 0

    def __len__(self) -> int:
        return len(self.end)

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities that a sample has inputs of."""
        return tuple(self.frames)

    @property
    def n_beams(self) -> int:
        """Number of beams of the codebook."""
        return int(self.measured.shape[1])

    @property
    def powers(self) -> NDArray[np.float64]:
        """[n, n_beams] linear received power, for scoring alone; a beam not measured as the weakest of its sweep.

        All NaN in samples whose best beam is known without powers.
        """
        return filled_powers(self.measured[self.end].astype(np.float64))[:, self.numbering]

    @property
    def input_shapes(self) -> dict[Modality, tuple[int, ...]]:
        """Modality -> shape of one sample of `inputs`; sizes are 0 where nothing has been sensed yet."""
        return input_shapes(self.frames, self.windows)

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> dict[Modality, NDArray[np.float32]]:
        """Inputs of some samples.

        Returns:
            of one frame: gps [b, k], camera [b, 3, h, w] RGB, 0 to 255; of several, oldest first: gps [b, length, 2],
            rf [b, length, n_beams] received power in dB.
        """
        return in_own_order(gathered_inputs(self.frames, self.windows, self.end[indices]), self.numbering)

    def owned_by(self, modalities: Sequence[Modality]) -> Self:
        """The same samples for a client with these sensors."""
        return replace(self, frames={modality: self.frames[modality] for modality in modalities})

    def every(self, stride: int) -> Self:
        """Every so many-th sample, counted by its row in the recording."""
        return self if stride == 1 else self.take(np.flatnonzero(self.end % stride == 0))

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order; frames are shared."""
        return replace(
            self,
            end=self.end[indices],
            label=self.label[indices],
            previous_beam=self.previous_beam[indices],
            sequence=self.sequence[indices],
        )

    def ending_in(self, first: int, stop: int) -> Self:
        """The samples in rows from `first` to before `stop`; frames are shared."""
        return self.take(np.flatnonzero((self.end >= first) & (self.end < stop)))


def beam_windows(
    sensed: SensedFrames,
    modalities: Sequence[Modality],
    n_beams: int | None = None,
    *,
    max_frame_step: int = 1,
    stride: int = 1,
    may_be_empty: bool = False,
) -> BeamWindows:
    """Every frame with another one just before it, as a sample; the previous one is for the persistence baseline only.

    Args:
        sensed: so far, with powers for the label; what comes later gives further samples and changes none of these.
        modalities: modalities of the client, among `BEAM_INPUTS`.
        n_beams: every (n / n_beams)-th beam is kept; None keeps all.
        max_frame_step: largest step of `frame_index` to the previous frame, where the base station has one.
        stride: samples are every stride-th row, counted from the first row of all.
        may_be_empty: no sample is an answer, not an error: more may come.

    Raises:
        ConfigError: a modality that does not tell where the user is, a codebook that does not fit, a stride below 1, or
            a camera in grey.
        DataError: the base station lacks a modality or its best beams, or has one frame in every sequence.
    """
    check_inputs("beam", modalities, BEAM_INPUTS)
    _check_color(sensed, modalities, color=True)
    powers, best = powers_and_best_beams(sensed, n_beams)
    begin, _ = _stretches(sensed, max_frame_step)
    end = _every(stride, np.flatnonzero(np.arange(sensed.n_frames) > begin))
    if len(end) == 0 and not may_be_empty:
        raise DataError(f"base station {sensed.name!r} has no two consecutive frames; record longer")
    return BeamWindows(
        frames={name: sensed.frames(name) for name in modalities},
        windows={name: InputWindow(name) for name in modalities},
        measured=powers,
        end=end,
        label=best[end],
        previous_beam=best[end - 1],
        sequence=sensed.column("sequence")[end],
        frame_rows=np.arange(sensed.n_frames),
        numbering=np.arange(powers.shape[1], dtype=np.int64),
        n_before=1,  # the frame before gives `previous_beam`
        gps_origin=sensed.gps_origin,
    )


def check_inputs(predicted: str, modalities: Sequence[Modality], fitting: tuple[Modality, ...]) -> None:
    """Refuse modalities that are not fitting inputs.

    Raises:
        ConfigError: naming the first of them.
    """
    if unknown := [name for name in modalities if name not in fitting]:
        raise ConfigError(
            f"{predicted} is predicted from {', '.join(fitting)}, not from {unknown[0]}; choose among them"
        )


def _check_color(sensed: SensedFrames, modalities: Sequence[Modality], *, color: bool) -> None:
    if "camera" in modalities and sensed.color != color:
        raise ConfigError(
            f"base station {sensed.name!r} keeps its camera in {'color' if sensed.color else 'grey'}, which these "
            f"windows do not take; make it with color = {color}"
        )


def _every(stride: int, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    if stride < 1:
        raise ConfigError(f"data.stride must be at least 1, got {stride}; 1 keeps every window")
    kept: NDArray[np.int64] = rows[rows % stride == 0].astype(np.int64)
    return kept


def _stretches(sensed: SensedFrames, max_frame_step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[n_frames] first row, and row after the last so far, of the unbroken stretch that each row is part of."""
    sequence = sensed.column("sequence")
    cut = np.diff(sequence, prepend=sequence[:1]) != 0
    if "frame_index" in sensed.columns:
        number = sensed.column("frame_index")
        cut |= np.diff(number, prepend=number[:1]) > max_frame_step
    cut[:1] = True
    begins = np.flatnonzero(cut)
    member = np.cumsum(cut) - 1
    return begins[member], np.append(begins[1:], len(sequence))[member]
