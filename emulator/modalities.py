"""The modalities that sensors record, and which of their frames make one input of a model. Imports none of ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Modality = Literal["lidar", "camera", "rf", "gps"]

#: The one order in which modalities are listed, concatenated and stacked everywhere.
MODALITIES: tuple[Modality, ...] = get_args(Modality)


@dataclass(frozen=True, slots=True)
class InputWindow:
    """Which frames of a modality make one input of a model: consecutive ones, oldest first.

    Attributes:
        modality: of the frames.
        frames: how many there are.
        lag: how many frames the newest lies before now; 1 where the frame of now is what the model predicts.
        axis: of the input along which frames lie; None: the input is one frame.

    Raises:
        ValueError: no frame, a negative lag or axis, or several frames without an axis.
    """

    modality: Modality
    frames: int = 1
    lag: int = 0
    axis: int | None = None

    def __post_init__(self) -> None:
        if self.frames < 1 or self.lag < 0 or (self.frames > 1 if self.axis is None else self.axis < 0):
            raise ValueError(
                f"a window of {self.modality} cannot have {self.frames} frames along axis {self.axis}, the newest"
                f" {self.lag} before now; it has 1 frame or more, and an axis from 0 where it has more than 1"
            )

    @property
    def reach(self) -> int:
        """How many frames its oldest frame lies before now."""
        return self.frames - 1 + self.lag

    @property
    def behind(self) -> NDArray[np.int64]:
        """[frames] how many frames each of them lies before now, oldest first."""
        return np.arange(self.reach, self.lag - 1, -1, dtype=np.int64)

    @property
    def single(self) -> InputWindow:
        """The same input cut from one frame, which is how frames are sent to a served model."""
        return replace(self, frames=1)

    def input_shape(self, frame_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of one input, from that of a frame.

        Raises:
            ValueError: frames of this shape cannot lie along the axis.
        """
        if self.axis is None:
            return frame_shape
        if self.axis > len(frame_shape):
            raise ValueError(f"frames of shape {frame_shape} have no place for an axis {self.axis} of frames")
        return (*frame_shape[: self.axis], self.frames, *frame_shape[self.axis :])

    def frame_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of one frame, from that of an input."""
        if self.axis is None:
            return input_shape
        return (*input_shape[: self.axis], *input_shape[self.axis + 1 :])

    def gathered(self, frames: NDArray[Any], now: NDArray[np.int64]) -> NDArray[np.float32]:
        """Inputs at these instants.

        Args:
            frames: [n_frames, *frame_shape].
            now: [n] frames that are now; each has `reach` frames before it.

        Returns:
            [n, *input_shape] contiguous.
        """
        if self.axis is None:
            batch = frames[now - self.lag]
        else:
            batch = np.moveaxis(frames[now[:, None] - self.behind], 1, 1 + self.axis)
        return np.ascontiguousarray(batch, dtype=np.float32)

    def frame(self, value: NDArray[Any], index: int = 0) -> NDArray[Any]:
        """One frame [*frame_shape] of an input [*input_shape]; 0 is the oldest."""
        return value if self.axis is None else value.take(index, axis=self.axis)
