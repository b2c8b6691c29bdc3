"""The camera at a base station: small color images of the boxes that LiDAR and radio also meet.

The camera is a pinhole whose picture plane stands upright, like an architect's shift lens: a tilt moves the picture up
or down and leaves vertical edges vertical. A column of the image is then one horizontal ray. In each column a box
covers one stretch of rows from its near and far end, so that the image is exact, whatever stands before what.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ..ranges import check_ranges
from ..world.scene import Array, Scene
from .backdrop import Backdrop, backdrop
from .camera_boxes import Faces, faces, with_lamps
from .pinhole import Pinhole

Image = NDArray[np.uint8]
Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Index = NDArray[np.int64]

#: Frames in work at once: what they need fits into a processor's cache.
CHUNK = 32
#: Share of daylight that a camera gets at night.
NIGHT_GAIN = 0.25
#: The exposure is a sum of this many slow waves with periods between these two.
N_EXPOSURE_WAVES = 3
EXPOSURE_PERIODS_S = (20.0, 200.0)
#: The noise takes one of so many values, evenly likely: quantiles of a normal distribution.
N_NOISE_LEVELS = 4096


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """Mounting and quality of a camera.

    Attributes:
        n_pixels: rows and columns of its images.
        field_of_view_deg: horizontally; vertically the same when level.
        above_antenna_m: height of the lens above the antenna of the base station.
        yaw_deg: bearing of the optical axis, from +y towards +x.
        tilt_deg: elevation at the middle of the image.
        exposure_drift: brightness wanders by at most this share, over tens of seconds.
        noise_sigma: standard deviation of the noise of every pixel, the same in all colors; 1 is the brightest value.
        night: a quarter of the light, and vehicles with their lamps on.
        supersampling: samples per pixel along each axis, averaged; 2 for small things in the sky.
        least_target_px: a transmitter's carrier appears at least this large: the lens blurs what is smaller. 0: as
            large as it is.

    Raises:
        ConfigError: a value outside its range.

    Source: exposure, noise, size and field of view are our choice, after the images of DeepSense 6G.
    """

    n_pixels: int = 64
    field_of_view_deg: float = 100.0
    above_antenna_m: float = 0.3
    yaw_deg: float = 0.0
    tilt_deg: float = 0.0
    exposure_drift: float = 0.2
    noise_sigma: float = 0.02
    night: bool = False
    supersampling: int = 1
    least_target_px: float = 2.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("camera", self, _RANGES)


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "n_pixels": (8, 1024),
    "field_of_view_deg": (20, 140),
    "above_antenna_m": (0, 20),
    "yaw_deg": (-180, 180),
    "tilt_deg": (-60, 60),
    "exposure_drift": (0, 0.9),
    "noise_sigma": (0, 0.5),
    "supersampling": (1, 8),
    "least_target_px": (0, 16),
}


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """Drift of the brightness of one camera: a formula of the instant, so that a recording can be made in pieces.

    Attributes:
        drift: largest share by which it leaves 1.
        frequency_rad_per_s, phase_rad: [N_EXPOSURE_WAVES] of its waves, equally high.
    """

    drift: float
    frequency_rad_per_s: Array
    phase_rad: Array

    @classmethod
    def drawn(cls, settings: CameraSettings, draws: np.random.Generator) -> Exposure:
        """One camera's wandering, with random periods and phases."""
        shortest, longest = np.log(EXPOSURE_PERIODS_S)
        # Even in the logarithm, so that fast and slow waves are equally likely.
        period_s = np.exp(draws.uniform(shortest, longest, N_EXPOSURE_WAVES))
        phase_rad = draws.uniform(0.0, 2.0 * np.pi, N_EXPOSURE_WAVES)
        return cls(settings.exposure_drift, 2.0 * np.pi / period_s, phase_rad)

    def at(self, time_s: Array) -> Array:
        """[F] factors around 1 at instants [F]."""
        # Their mean, not their sum, keeps the factor within the drift that was set.
        waves = np.sin(np.multiply.outer(time_s, self.frequency_rad_per_s) + self.phase_rad)
        return np.asarray(1.0 + self.drift * waves.mean(axis=-1))


class Camera:
    """One camera with its own noise; the same scenes in the same order give the same images, in chunks of any size.

    Args:
        settings: settings of the camera.
        draws: random stream of its exposure, and of its noise unless that has a stream of its own.
        noise_draws: random stream of its noise.

    Attributes:
        settings: settings of the camera.
        exposure: drift of its brightness.
    """

    def __init__(
        self, settings: CameraSettings, draws: np.random.Generator, noise_draws: np.random.Generator | None = None
    ) -> None:
        self.settings = settings
        exposure_draws, other_draws = draws.spawn(2)
        self._noise_draws = other_draws if noise_draws is None else noise_draws
        self.exposure = Exposure.drawn(settings, exposure_draws)

    def sense(self, scene: Scene) -> Image:
        """[F, n_pixels, n_pixels, 3] images of every instant of a scene, as `render`."""
        return render(scene, self.settings, self._noise_draws, self.exposure)


def render(
    scene: Scene, settings: CameraSettings, draws: np.random.Generator, exposure: Exposure | None = None
) -> Image:
    """Images of a scene.

    Args:
        scene: F instants.
        settings: settings of the camera.
        draws: random stream of the noise.
        exposure: wandering of the brightness; None draws one. A recording made in pieces needs one for all of them:
            `Camera` keeps it.

    Returns:
        [F, n_pixels, n_pixels, 3] uint8 of red, green and blue; row 0 is the upper one, column 0 is at the left.
    """
    exposure = exposure or Exposure.drawn(settings, draws)
    view = view_of(scene, settings)
    behind = backdrop(scene.surroundings, view)
    gain = (exposure.at(scene.time_s) * (NIGHT_GAIN if settings.night else 1.0) * 255.0).astype(np.float32)
    image = np.empty((len(scene), settings.n_pixels, settings.n_pixels, 3), dtype=np.uint8)
    for begin in range(0, len(scene), CHUNK):
        some = slice(begin, begin + CHUNK)
        light = _light(scene.frames(some), settings, view, behind) * gain[some, None, None, None]
        light += np.float32(0.5)  # the cast below cuts, this makes it round
        np.clip(light, 0.0, 255.0, out=light)
        image[some] = _with_noise(light.astype(np.uint8), settings.noise_sigma, draws)
    return image


def pixels_of(points_m: Array, scene: Scene, settings: CameraSettings) -> tuple[Array, Array, Array]:
    """Positions of points in the image.

    Args:
        points_m: [..., 3].
        scene: scene with the base station; nothing else of it matters.
        settings: settings of the camera.

    Returns:
        column, row, depth_m: [...]; pixel (i, j) reaches from row i to i + 1 and from column j to j + 1. Columns and
        rows mean nothing where the depth along the optical axis is not positive.
    """
    column, row, depth_m = view_of(scene, settings).project(points_m)
    return column / settings.supersampling, row / settings.supersampling, depth_m


def view_of(scene: Scene, settings: CameraSettings) -> Pinhole:
    """Position and direction of the camera of a scene's base station."""
    x_m, y_m, z_m = (float(value) for value in scene.base_station_m)
    return Pinhole(
        position_m=(x_m, y_m, z_m + settings.above_antenna_m),
        yaw_rad=float(np.radians(settings.yaw_deg)),
        tilt_rad=float(np.radians(settings.tilt_deg)),
        half_width=float(np.tan(np.radians(settings.field_of_view_deg) / 2.0)),
        n_pixels=settings.n_pixels,
        supersampling=settings.supersampling,
        least_target_px=settings.least_target_px,
    )


def _light(scene: Scene, settings: CameraSettings, view: Pinhole, behind: Backdrop) -> Float32:
    """[F, n_pixels, n_pixels, 3] daylight of every pixel before exposure and noise."""
    if settings.night:
        scene = with_lamps(scene)
    seen = faces(scene, view, behind)
    if settings.night:
        # Lamps do not dim at night: this undoes the gain that the whole image gets afterwards.
        seen.color[seen.shines] /= NIGHT_GAIN
    light = np.repeat(behind.color[None], len(scene), axis=0)
    winner, where = nearest_faces(seen, len(scene), view.n_samples)
    if settings.supersampling == 1:
        light.reshape(-1, 3)[where] = seen.color[winner[where] - 1]
    elif len(where):
        _average(light, winner, where, seen.color, settings.supersampling)
    return light


def _average(light: Float32, winner: Int32, where: Index, color: Float32, factor: int) -> None:
    """Gives the pixels of light [F, n, n, 3] that hold samples `where` the mean color of their samples."""
    n_frames, n = light.shape[:2]
    frame, sample = np.divmod(where, (n * factor) ** 2)
    row, column = np.divmod(sample, n * factor)
    is_touched = np.zeros((n_frames, n, n), dtype=bool)
    is_touched[frame, row // factor, column // factor] = True
    frame, row, column = np.nonzero(is_touched)
    winners = winner.reshape(n_frames, n, factor, n, factor)[frame, row, :, column, :][..., None]
    behind = light[frame, row, column][:, None, None]
    light[frame, row, column] = np.where(winners > 0, color[winners[..., 0] - 1], behind).mean(axis=(1, 2))


def nearest_faces(seen: Faces, n_frames: int, n: int) -> tuple[Int32, Index]:
    """Nearest face of each sample.

    Returns:
        [F * n * n] number of the nearest face counted from 1, 0 where there is none. Faces come far to near, so the
        nearest is the one with the highest number; and the samples that any face covers, some of them repeatedly.
    """
    lengths = seen.last_row - seen.first_row
    ends = np.cumsum(lengths)
    n_samples = int(ends[-1]) if len(ends) else 0
    # Counts 0, 1, 2, ... within every face, without a loop over faces.
    row = np.arange(n_samples) - np.repeat(ends - lengths - seen.first_row, lengths)
    where = np.repeat(seen.frame * (n * n) + seen.column, lengths) + row * n
    winner = np.zeros(n_frames * n * n, dtype=np.int32)
    np.maximum.at(winner, where, np.repeat(np.arange(1, len(lengths) + 1, dtype=np.int32), lengths))
    return winner, where


def _with_noise(images: Image, sigma: float, draws: np.random.Generator) -> Image:
    """Images [F, n, n, 3] whose pixels are brighter or darker by chance, in whole steps, without changing color.

    Noise that differs from color to color costs three times as many draws and twice the disk: nothing compresses it.
    """
    if sigma == 0.0:
        return images
    noise = _noise_steps(sigma)[draws.integers(0, N_NOISE_LEVELS, images.shape[:-1], dtype=np.uint16)]
    noisy = images.astype(np.int16)
    noisy += noise[..., None]
    np.clip(noisy, 0, 255, out=noisy)
    return noisy.astype(np.uint8)


@lru_cache(maxsize=16)
def _noise_steps(sigma: float) -> NDArray[np.int16]:
    """[N_NOISE_LEVELS] evenly likely values, rounded; read only. A table, for every image needs thousands of draws."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((level + 0.5) / N_NOISE_LEVELS) for level in range(N_NOISE_LEVELS)])
    # The middles of equally likely intervals spread less than 1, because the tails are cut; scaled to match sigma.
    steps: NDArray[np.int16] = np.rint(sigma * 255.0 * values / values.std()).astype(np.int16)
    steps.setflags(write=False)
    return steps
