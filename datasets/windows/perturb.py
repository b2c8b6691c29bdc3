"""Changes of a base station's images: an occlusion, or another mounting of its camera."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError

Images = NDArray[np.uint8]
FrameNumbers = NDArray[np.int64]

#: [n, h, w, 3] color or [n, h, w] grey images and the [n] numbers of their frames -> images of the same shape.
ImageChange = Callable[[Images, FrameNumbers], Images]

#: Images in work at once: their indices and weights fit into a processor's cache.
CHUNK = 8
#: Bilinear weights are whole 1/256ths, colors whole 1/1024ths: integers are faster, and alike on every machine.
WEIGHT_ONE, COLOR_BITS = 256, 10
_LUMA = np.array([0.299, 0.587, 0.114])
#: Odd constants of the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
_GAMMA, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Occlusion of one side of every image by a black rectangle; side and size differ from frame to frame.

    The rectangle is as long as its side: one of this area that lies anywhere would hide the middle nearly always, and
    with it the drone in four frames of five. So every pixel is hidden in about as many frames.

    A frame is always hidden in the same way: in any batch, in training and test, and when frames were added since.

    Attributes:
        seed: seed of this client; others have other rectangles.
        low, high: share of the image's area that is hidden, uniform between the two but for whole pixels.

    Raises:
        ConfigError: shares outside (0, 1], in the wrong order, or a seed outside [0, 2^63).

    Source: 30 to 60 % is our choice; Ghalkha et al. 2025 do not say how much of an image is occluded.
    """

    seed: int
    low: float = 0.3
    high: float = 0.6

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= self.high <= 1.0:
            raise ConfigError(
                f"occlusion.low and occlusion.high must be shares with 0 < low <= high <= 1, got {self.low} and "
                f"{self.high}; 0.3 and 0.6 hide 30 to 60 % of every image"
            )
        if not 0 <= self.seed < 1 << 63:
            raise ConfigError(f"occlusion.seed must lie in [0, 2^63), got {self.seed}")

    def __call__(self, images: Images, frame_numbers: FrameNumbers) -> Images:
        """Images [n, h, w, 3] or [n, h, w] with a black rectangle each, as a new array.

        Raises:
            DataError: no such images, or another number of frame numbers.
        """
        n, height, width = _checked(images, frame_numbers)
        top, bottom, left, right = self.rectangles(frame_numbers, height, width).T
        row, column = np.arange(height), np.arange(width)
        in_rows = (row >= top[:, None]) & (row < bottom[:, None])
        in_columns = (column >= left[:, None]) & (column < right[:, None])
        shown = ~(in_rows[:, :, None] & in_columns[:, None, :])
        return np.asarray(np.where(shown.reshape(n, height, width, *[1] * (images.ndim - 3)), images, np.uint8(0)))

    def rectangles(self, frame_numbers: FrameNumbers, height: int, width: int) -> NDArray[np.int64]:
        """[n, 4] first row, row after the last, first column, column after the last that are hidden."""
        share = self.low + (self.high - self.low) * _uniform(self.seed, frame_numbers, 0)
        side = np.floor(4.0 * _uniform(self.seed, frame_numbers, 1))  # top, bottom, left, right
        rows = np.where(side < 2, np.clip(np.rint(share * height), 1, height), height)
        columns = np.where(side < 2, width, np.clip(np.rint(share * width), 1, width))
        top, left = np.where(side == 1, height - rows, 0), np.where(side == 3, width - columns, 0)
        return np.stack([top, top + rows, left, left + columns], axis=1).astype(np.int64)


@dataclass(frozen=True)
class View:
    """Mounting and tuning of one client's camera: the same change of every image, in training and in test.

    Attributes:
        rotation_deg: the picture turns so far counterclockwise.
        flipped: left and right change places.
        zoom: 1 keeps the whole image; at 1.25 the middle four fifths fill it.
        shift_right, shift_down: where the middle of the picture goes, in half widths and half heights.
        tilt_right, tilt_down: perspective: how much closer the right and lower edges are than the middle.
        saturation: factor of color saturation, 1 keeps them, 0 turns them grey.
        gains: factors of red, green and blue; grey images get their mean as seen by luma.
        brightness: added to all, where 1 is white.

    Raises:
        ConfigError: a zoom or perspective that leaves no picture, or a color that cannot be.
    """

    rotation_deg: float = 0.0
    flipped: bool = False
    zoom: float = 1.0
    shift_right: float = 0.0
    shift_down: float = 0.0
    tilt_right: float = 0.0
    tilt_down: float = 0.0
    saturation: float = 1.0
    gains: tuple[float, float, float] = (1.0, 1.0, 1.0)
    brightness: float = 0.0

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"view.{name} must lie in [{low:g}, {high:g}], got {value}")
        if not all(0.0 <= gain <= 4.0 for gain in self.gains):
            raise ConfigError(f"view.gains must be three numbers in [0, 4], got {self.gains}")

    @classmethod
    def drawn(cls, draws: np.random.Generator) -> Self:
        """One client's view. Half of them are mirrored, so that a neighbor's encoder does not simply fit.

        Source: strengths are our choice, such that a drone in the sky stays in the picture with few exceptions.
        """
        return cls(
            rotation_deg=float(draws.uniform(-20.0, 20.0)),
            flipped=bool(draws.random() < 0.5),
            zoom=float(draws.uniform(1.0, 1.2)),
            shift_right=float(draws.uniform(-0.05, 0.05)),
            shift_down=float(draws.uniform(-0.05, 0.05)),
            tilt_right=float(draws.uniform(-0.15, 0.15)),
            tilt_down=float(draws.uniform(-0.15, 0.15)),
            saturation=float(draws.uniform(0.5, 1.5)),
            gains=(
                float(draws.uniform(0.8, 1.2)),
                float(draws.uniform(0.8, 1.2)),
                float(draws.uniform(0.8, 1.2)),
            ),
            brightness=float(draws.uniform(-0.1, 0.1)),
        )

    def __call__(self, images: Images, frame_numbers: FrameNumbers) -> Images:
        """Images [n, h, w, 3] or [n, h, w] as this client sees them, as a new array; what was never seen is black.

        Raises:
            DataError: no such images, or another number of frame numbers.
        """
        n, height, width = _checked(images, frame_numbers)
        index, weight = _bilinear(self.geometry, height, width)
        n_colors = images.shape[3] if images.ndim == 4 else 1
        change = self._grey_change if n_colors == 1 else self._color_change
        colors = images.reshape(n, height * width, n_colors)
        weight = np.repeat(weight, _n_lanes(n_colors), axis=1)
        changed = np.empty_like(colors)
        for begin in range(0, n, CHUNK):
            some = slice(begin, begin + CHUNK)
            planes = _recolored(_moved(colors[some], index, weight), *change)
            for color, plane in enumerate(planes):
                changed[some, :, color] = plane
        return changed.reshape(images.shape)

    @property
    def geometry(self) -> tuple[float, ...]:
        """Numbers that decide where each pixel comes from."""
        turn = np.radians(self.rotation_deg)
        return (
            float(turn), float(self.flipped), self.zoom,
            self.shift_right, self.shift_down, self.tilt_right, self.tilt_down,
        )  # fmt: skip

    @cached_property
    def _color_change(self) -> tuple[NDArray[np.int32], int]:
        """[3, 3] from color to color in 1/1024, and what is added to each."""
        matrix = self.saturation * np.eye(3) + (1.0 - self.saturation) * _LUMA
        return self._in_steps(matrix * np.array(self.gains)[:, None])

    @cached_property
    def _grey_change(self) -> tuple[NDArray[np.int32], int]:
        return self._in_steps(np.array([[float(_LUMA @ np.array(self.gains))]]))

    def _in_steps(self, matrix: NDArray[np.float64]) -> tuple[NDArray[np.int32], int]:
        one = 1 << COLOR_BITS
        return np.rint(matrix * one).astype(np.int32), round(self.brightness * 255.0 * one)


#: Lowest and highest value of each number of a view.
_RANGES = (
    ("rotation_deg", -180.0, 180.0),
    ("zoom", 0.25, 8.0),
    ("shift_right", -1.0, 1.0),
    ("shift_down", -1.0, 1.0),
    ("tilt_right", -0.4, 0.4),
    ("tilt_down", -0.4, 0.4),
    ("saturation", 0.0, 4.0),
    ("brightness", -1.0, 1.0),
)


@lru_cache(maxsize=64)
def _bilinear(geometry: tuple[float, ...], height: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Where every pixel comes from, made once per view and size of image; read only.

    Returns:
        [k, h * w] indices of the pixels around its source, and [k, h * w] their weights in 1/256, 0 outside of the
        image; k is 4, and less where some of the four never count.
    """
    turn, flipped, zoom, shift_right, shift_down, tilt_right, tilt_down = geometry
    v, u = np.meshgrid(_centers(height) - shift_down, _centers(width) - shift_right, indexing="ij")
    # Angles are those of the picture, which may be wider than high.
    along, up = u * width / zoom, v * height / zoom
    x = (np.cos(turn) * along - np.sin(turn) * up) / width
    y = (np.sin(turn) * along + np.cos(turn) * up) / height
    depth = 1.0 + tilt_right * x + tilt_down * y
    inside = depth > 0.1  # nothing is behind the camera
    depth = np.where(inside, depth, 1.0)
    x, y = x / depth, y / depth
    column = ((-x if flipped else x) + 1.0) * width / 2.0 - 0.5
    row = (y + 1.0) * height / 2.0 - 0.5
    index, weight = _corners(row.ravel(), column.ravel(), height, width)
    weight *= inside.ravel()
    counts = np.flatnonzero(weight.sum(axis=1, dtype=np.int64))
    index, weight = index[counts], weight[counts]
    index.setflags(write=False)
    weight.setflags(write=False)
    return index, weight


def _centers(n: int) -> NDArray[np.float64]:
    """[n] middles of n pixels between -1 and 1."""
    return (2.0 * np.arange(n) + 1.0) / n - 1.0


def _corners(
    row: NDArray[np.float64], column: NDArray[np.float64], height: int, width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """The four pixels around each place: [4, n] indices and [4, n] weights."""
    # Rounding first keeps a place that is a pixel's middle on it.
    steps = round(np.sqrt(WEIGHT_ONE))
    row_steps, column_steps = (np.rint(place * steps).astype(np.int64) for place in (row, column))
    top, down = np.divmod(row_steps, steps)
    left, right = np.divmod(column_steps, steps)
    indices, weights = [], []
    for i, row_weight in ((top, steps - down), (top + 1, down)):
        for j, column_weight in ((left, steps - right), (left + 1, right)):
            inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            indices.append(np.where(inside, i * width + j, 0))
            weights.append(np.where(inside, row_weight * column_weight, 0))
    return np.array(indices), np.array(weights, dtype=np.uint16)


def _n_lanes(n_colors: int) -> int:
    return 1 if n_colors == 1 else 4


def _moved(colors: Images, index: NDArray[np.int64], weight: NDArray[np.uint16]) -> NDArray[np.int32]:
    """[n, h * w, c] -> [c, n, h * w], every pixel from where it comes from; weight is [4, h * w * lanes].

    The colors of a pixel travel in one piece of 64 bits, four times as fast as one by one.
    """
    n, n_pixels, n_colors = colors.shape
    n_lanes = _n_lanes(n_colors)
    lanes = np.zeros((n, n_pixels, n_lanes), dtype=np.uint16)
    for color in range(n_colors):
        lanes[:, :, color] = colors[:, :, color]
    pixels = lanes.view(np.uint16 if n_lanes == 1 else np.uint64)[..., 0]
    taken = np.empty_like(pixels)
    parts = taken.view(np.uint16)  # [n, h * w * lanes]
    # half of the divisor: the shift by 8 bits then rounds instead of cutting off
    total = np.full_like(parts, WEIGHT_ONE // 2)
    for corner, share in zip(index, weight, strict=True):
        pixels.take(corner, axis=1, out=taken, mode="clip")  # "raise" would copy twice
        np.multiply(parts, share, out=parts)
        np.add(total, parts, out=total)
    np.right_shift(total, 8, out=total)
    return np.moveaxis(total.reshape(lanes.shape), 2, 0)[:n_colors].astype(np.int32, order="C")


def _recolored(planes: NDArray[np.int32], change: NDArray[np.int32], offset: int) -> NDArray[np.int32]:
    """[c, n, h * w] -> the same, within 0 and 255."""
    # half of the divisor again, for rounding
    total = np.full_like(planes, offset + (1 << COLOR_BITS - 1))
    part = np.empty_like(total[0])
    for color, shares in enumerate(change):
        for plane, share in zip(planes, shares, strict=True):
            if share:
                np.add(total[color], np.multiply(plane, share, out=part), out=total[color])
    total >>= COLOR_BITS
    return np.clip(total, 0, 255, out=total)


def _uniform(seed: int, frame_numbers: FrameNumbers, draw: int) -> NDArray[np.float64]:
    """[n] numbers in [0, 1) that are a function of seed, frame number and draw: a generator per frame is too slow.

    Source: counter-based SplitMix64; its output passes BigCrush.
    """
    state = _mixed(np.asarray(frame_numbers).astype(np.uint64) + _mixed(np.full(1, seed, dtype=np.uint64)))
    bits = _mixed(state + np.full(1, draw, dtype=np.uint64) * _GAMMA) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = np.atleast_1d(state) + _GAMMA  # arrays wrap around silently, numbers warn
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return np.asarray(state ^ (state >> np.uint64(31)))


def _checked(images: Images, frame_numbers: FrameNumbers) -> tuple[int, int, int]:
    """Number, height and width of the images.

    Raises:
        DataError: no such images, or another number of frame numbers.
    """
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise DataError(
            f"images to change must be uint8 [n, h, w, 3] or [n, h, w], got {images.dtype} {images.shape}; convert them"
        )
    if np.shape(frame_numbers) != images.shape[:1]:
        raise DataError(
            f"{len(images)} images need as many frame numbers, got shape {np.shape(frame_numbers)}; give the number of "
            "each image's frame in its recording"
        )
    return images.shape[0], images.shape[1], images.shape[2]
