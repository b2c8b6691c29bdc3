"""Protocol of samples: frames, windows of the inputs, labels and instants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, InputWindow, Labels, Modality

#: Modality -> [n_frames, ...], every frame once, in the layout of `SensedFrames.frames`.
Frames = Mapping[Modality, NDArray[Any]]
Windows = Mapping[Modality, InputWindow]


class Samples(Protocol):
    """Samples of one recording, in time order: `BlockageWindows` or `BeamWindows`.

    Sample i belongs to frame `end[i]`; its inputs and its label come from the frames end - n_before to end + n_after.
    """

    @property
    def windows(self) -> Windows:
        """Which frames make the input of each modality."""
        ...

    @property
    def label(self) -> Labels:
        """[n] int64 class of every sample, from 0, or float32 value."""
        ...

    @property
    def end(self) -> NDArray[np.int64]:
        """[n] row of the recording that is now, ascending."""
        ...

    @property
    def sequence(self) -> NDArray[np.int64]:
        """[n] unbroken stretch that it is part of: a drive-by, a flight."""
        ...

    @property
    def n_before(self) -> int:
        """Frames before now that a sample uses."""
        ...

    @property
    def n_after(self) -> int:
        """Frames after now that a label uses."""
        ...

    @property
    def frame_rows(self) -> NDArray[np.int64]:
        """[n_frames] row of the recording that each frame was; not all of them where short drive-bys are left out."""
        ...

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Modalities that a sample has inputs of."""
        ...

    @property
    def input_shapes(self) -> Mapping[Modality, tuple[int, ...]]:
        """Modality -> shape of one input, without the batch."""
        ...

    def __len__(self) -> int: ...

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = ...) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        ...

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order."""
        ...


def input_shapes(frames: Frames, windows: Windows) -> dict[Modality, tuple[int, ...]]:
    """Modality -> shape of one input; sizes are 0 where nothing has been sensed yet."""
    return {modality: windows[modality].input_shape(rows.shape[1:]) for modality, rows in frames.items()}


def gathered_inputs(frames: Frames, windows: Windows, now: NDArray[np.int64]) -> dict[Modality, NDArray[np.float32]]:
    """Modality -> [n, ...] inputs of the samples that belong to these frames [n], oldest frame first."""
    return {modality: windows[modality].gathered(rows, now) for modality, rows in frames.items()}


def in_own_order(inputs: dict[Modality, NDArray[Any]], numbering: NDArray[np.int64]) -> dict[Modality, NDArray[Any]]:
    """The same inputs with sweeps [n, frames, n_beams] in a base station's own numbers of its beams.

    Args:
        inputs: modality -> [n, ...].
        numbering: [n_beams] beam of the codebook that each number stands for.
    """
    if np.array_equal(numbering, np.arange(len(numbering))):
        return inputs
    # Beams before frames in memory: float32 sums run in the order of memory, and normalizers must keep their bits.
    return {
        name: np.ascontiguousarray(values[..., numbering].swapaxes(1, -1)).swapaxes(1, -1)
        if MODALITY_SPECS[name].per_beam
        else values
        for name, values in inputs.items()
    }
