"""The modalities: what one frame of each sensor is, and which frames make an input. Imports none of ours.

`MODALITY_SPECS` has one row per modality that sensors record. Recordings, frames in memory, samples, perturbations,
encoders, pictures and replay read the row, so that what a modality is stands in one place. Tables, images and graphs
that no sensor here recorded (`data.source = "rows"`) have no row: what they hold is known to their data set alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Modality = Literal["lidar", "camera", "rf", "gps", "radar", "signal", "table", "image", "graph"]

#: The one order in which modalities are listed, concatenated and stacked everywhere.
MODALITIES: tuple[Modality, ...] = get_args(Modality)


#: Reach of a LiDAR that does not tell its own. Source: the 2-D LiDARs of DeepSense scenarios 8 and 9.
LIDAR_REACH_M = 16.0


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values that a sensor can give; far outside of what any here does, so that only damage and forgery lie beyond.

    Attributes:
        lowest, highest: smallest and largest value.
        above: the smallest itself is not among them.
        or_nan: NaN stands for what was not measured.
    """

    lowest: float
    highest: float
    above: bool = False
    or_nan: bool = False

    def holds(self, values: Any) -> NDArray[np.bool_]:
        """[...] whether each of them lies inside; NaN does not."""
        return np.asarray((values > self.lowest if self.above else values >= self.lowest) & (values <= self.highest))

    def __str__(self) -> str:
        """What is valid, for messages."""
        ends = f"above {self.lowest:g} and at most" if self.above else f"from {self.lowest:g} to"
        return f"{ends} {self.highest:g}{', or NaN' if self.or_nan else ''}"


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """How a recording stores one frame of a modality.

    Attributes:
        shape: of one frame; 0 stands for any size from 1.
        dtype: numpy name of the stored type.
        unit: of the values; several, comma-separated, where the last axis mixes them.
        frame_of_reference: where zero is and where axes point.
        description: what a frame is.
        columns: names along the last axis; empty where they are only numbered.
        shuffle: whether bytes are regrouped before compression.
        channels: sizes that the last axis can have; empty: any.
        needs_columns: the source must name its columns, since they differ from source to source.
        ranges: values that it may have: one range, or one per column; none where every value of the type is one.
    """

    shape: tuple[int, ...]
    dtype: str
    unit: str
    frame_of_reference: str
    description: str
    columns: tuple[str, ...] = ()
    shuffle: bool = True
    channels: tuple[int, ...] = ()
    needs_columns: bool = False
    ranges: tuple[ValueRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ModalitySpec:
    """All that other modules need to know of a modality.

    Attributes:
        title: for people.
        recorded: how a recording stores a frame.
        shape: of a frame in memory, as models take it; 0 stands for any size.
        axes: names of its axes.
        dtype: numpy name of its type in memory. Frames are sent to a served model in it.
        unit: of its values in memory.
        values: what the values are, with what stands for "nothing seen".
        nothing: reading where the sensor saw nothing, in recordings and in memory alike; "reach": the largest range
            that this sensor can report; None: no reading stands for that, a frame is there or it is missing.
        readings: index, in a frame or a window, of what the sensor measures; the rest says where.
        window_axis: of an input of several frames along which they lie.
        sees_surroundings: it shows who stands around the base station or the user, so it can warn of a blockage.
        per_beam: its last axis is the codebook, so that it follows the base station's numbers of beams.
        on_request: no world records it unless its sensors, or a client, name it.
        noise: kind of the noise that a harder day adds, a key of `datasets.windows.shifts.NOISES`.
        noise_sigma: standard deviation of that noise, in the unit of the values.
        encoder: default encoder of its windows, a key of `models.encoders.encoder_table.ENCODERS`.
        picture: how it is drawn: "image", "rays", "map", "powers" over time, or "" for not at all.
    """

    title: str
    recorded: RecordedFrame
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    dtype: str
    unit: str
    values: str
    window_axis: int
    sees_surroundings: bool
    noise: str
    noise_sigma: float
    encoder: str
    picture: Literal["image", "rays", "map", "powers", ""]
    nothing: float | Literal["reach"] | None = None
    readings: tuple[int, ...] = ()
    per_beam: bool = False
    on_request: bool = False

    @property
    def window_axes(self) -> str:
        """Names of the axes of a window, separated by commas."""
        return ", ".join((*self.axes[: self.window_axis], "frame", *self.axes[self.window_axis :]))


# Shuffle as measured on noisy frames: without it LiDAR is 20 % smaller and 30 % faster (its angles repeat), and camera
# bytes have nothing to regroup; with it beam powers are 10 % smaller.
# Noise of a harder day: four times what cameras of the shipped worlds have, an ordinary instead of a good GPS receiver,
# and a quarter of the power more or less on every beam. All are our choice.
_LIDAR = ModalitySpec(
    title="LiDAR",
    recorded=RecordedFrame(
        (0, 2),
        "float32",
        "m, rad",
        "LiDAR of the base station",
        "2-D sweep, one row per ray",
        columns=("range_m", "angle_rad"),
        shuffle=False,
        ranges=(ValueRange(0.0, 1e4), ValueRange(-7.0, 7.0)),
    ),
    shape=(2, 0),
    axes=("2", "ray"),
    dtype="float32",
    unit="m, rad",
    values="range (the sensor's reach: no echo) and angle of every ray",
    window_axis=1,
    sees_surroundings=True,
    noise="ranges",
    noise_sigma=0.1,
    encoder="lidar_window",
    picture="rays",
    nothing="reach",
    readings=(0,),
)
_CAMERA = ModalitySpec(
    title="camera",
    recorded=RecordedFrame(
        (0, 0, 0),
        "uint8",
        "1",
        "image of the base station's camera, rows from the top, columns from the left",
        "RGB image, or grey with one channel, 255 is full scale",
        shuffle=False,
        channels=(1, 3),
    ),
    shape=(0, 0),
    axes=("row", "column"),
    dtype="uint8",
    unit="grey level 0 to 255",
    values="images (0: black)",
    window_axis=0,
    sees_surroundings=True,
    noise="levels",
    noise_sigma=20.0,
    encoder="camera_window",
    picture="image",
    nothing=0.0,
)
_RF = ModalitySpec(
    title="beam powers",
    recorded=RecordedFrame(
        (0,),
        "float32",
        "W",
        "codebook of the base station",
        "received power per beam of one sweep, linear",
        ranges=(ValueRange(0.0, 1e9, above=True, or_nan=True),),
    ),
    shape=(0,),
    axes=("beam",),
    dtype="float32",
    unit="dB",
    values="received power of every beam",
    window_axis=0,
    sees_surroundings=True,
    noise="decibels",
    noise_sigma=1.0,
    encoder="sweep_window",
    picture="powers",
    per_beam=True,
)
_GPS = ModalitySpec(
    title="GPS",
    recorded=RecordedFrame(
        (0,),
        "float64",
        "as columns say",
        "as columns say",
        "position fix of the user, drone or vehicle",
        needs_columns=True,
    ),
    shape=(0,),
    axes=("column",),
    dtype="float32",
    unit="m",
    values="positions",
    window_axis=0,
    sees_surroundings=False,
    noise="positions",
    noise_sigma=1.0,
    encoder="position_window",
    picture="",
)

_RADAR = ModalitySpec(
    title="radar",
    recorded=RecordedFrame(
        (0, 0),
        "uint8",
        "dB",
        "radar of the base station: rows by range, columns by the sine of the azimuth from -1 to 1, 0 along +y",
        "range-angle map, power above the mean noise in whole decibels",
    ),
    shape=(0, 0),
    axes=("range", "angle"),
    dtype="uint8",
    unit="dB",
    values="power above the noise (0: nothing) over range and angle",
    window_axis=0,
    sees_surroundings=True,
    noise="echoes",
    noise_sigma=3.0,
    encoder="radar_window",
    picture="map",
    nothing=0.0,
    on_request=True,
)

_SIGNAL = ModalitySpec(
    title="own signal",
    recorded=RecordedFrame(
        (0,),
        "float32",
        "dBW",
        "none",
        "noisy readings of the user's power on its best beam since the frame before, oldest first",
        ranges=(ValueRange(-1e4, 100.0),),
    ),
    shape=(0,),
    axes=("reading",),
    dtype="float32",
    unit="dBW",
    values="readings of the user's power since the frame before",
    window_axis=0,
    # it shows that the user is blocked, and hardly what comes
    sees_surroundings=False,
    noise="decibels",
    noise_sigma=1.0,
    encoder="signal_window",
    picture="",
    on_request=True,
)

MODALITY_SPECS: Mapping[Modality, ModalitySpec] = {
    "lidar": _LIDAR,
    "camera": _CAMERA,
    "rf": _RF,
    "gps": _GPS,
    "radar": _RADAR,
    "signal": _SIGNAL,
}

#: Modalities that sensors record, in the same order.
SENSED_MODALITIES: tuple[Modality, ...] = tuple(MODALITY_SPECS)


def has_images(modalities: Iterable[Modality]) -> bool:
    """Whether one of these modalities is an image of a camera."""
    return any(modality in MODALITY_SPECS and MODALITY_SPECS[modality].picture == "image" for modality in modalities)


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
            batch = frames[now[:, None] - self.behind]
            if self.axis > 0:
                batch = np.moveaxis(batch, 1, 1 + self.axis)
        return np.ascontiguousarray(batch, dtype=np.float32)

    def frame(self, value: NDArray[Any], index: int = 0) -> NDArray[Any]:
        """One frame [*frame_shape] of an input [*input_shape]; 0 is the oldest."""
        return value if self.axis is None else value.take(index, axis=self.axis)
