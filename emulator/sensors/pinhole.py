"""Where a camera stands and looks: from points of the site to places in its image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..world.scene import Array


@dataclass(frozen=True, slots=True)
class Pinhole:
    """A pinhole with an upright picture plane. Rows and columns are counted in samples, of which a pixel may have many.

    Attributes:
        position_m: position of the lens.
        yaw_rad: bearing of the optical axis, from +y towards +x.
        tilt_rad: elevation at the middle of the image.
        half_width: half of the image's width at depth 1.
        n_pixels, supersampling: along each axis of the image, and samples along each axis of a pixel.
        least_target_px: least width and height of a target in the image.
    """

    position_m: tuple[float, float, float]
    yaw_rad: float
    tilt_rad: float
    half_width: float
    n_pixels: int
    supersampling: int
    least_target_px: float

    @property
    def n_samples(self) -> int:
        """Number of rows, and of columns, in samples."""
        return self.n_pixels * self.supersampling

    @property
    def focal_length(self) -> float:
        """Focal length in samples: how many there are per unit of slope."""
        return self.n_samples / (2.0 * self.half_width)

    @property
    def axis(self) -> tuple[float, float]:
        """Horizontal direction of the look; the right-hand side of the image is (axis[1], -axis[0])."""
        return float(np.sin(self.yaw_rad)), float(np.cos(self.yaw_rad))

    def column_slopes(self, n: int) -> Array:
        """[n] how far to the right the centers of n columns look, at depth 1."""
        return np.asarray(((np.arange(n) + 0.5) / n * 2.0 - 1.0) * self.half_width)

    def row_slopes(self, n: int) -> Array:
        """[n] how far up the centers of n rows look, at depth 1."""
        return np.asarray(np.tan(self.tilt_rad) - self.column_slopes(n))

    def directions(self, n: int) -> tuple[Array, Array]:
        """[n] x and y of the horizontal rays of n columns, that reach depth 1 along the axis; never 0."""
        forward_x, forward_y = self.axis
        right = self.column_slopes(n)
        along_x, along_y = forward_x + right * forward_y, forward_y - right * forward_x
        # Callers divide by both components.
        tiny = 1e-12
        return np.where(along_x == 0.0, tiny, along_x), np.where(along_y == 0.0, tiny, along_y)

    def row_at(self, z_m: Array, depth_m: Array) -> Array:
        """Row of a height at a depth, in samples from the upper edge."""
        slope = (z_m - self.position_m[2]) / depth_m
        return np.asarray(self.n_samples / 2.0 - self.focal_length * (slope - np.tan(self.tilt_rad)))

    def project(self, points_m: Array) -> tuple[Array, Array, Array]:
        """Column, row and depth of points [..., 3]."""
        x, y, z = np.moveaxis(np.asarray(points_m, dtype=np.float64), -1, 0)
        forward_x, forward_y = self.axis
        x, y = x - self.position_m[0], y - self.position_m[1]
        depth_m = x * forward_x + y * forward_y
        right_m = x * forward_y - y * forward_x
        with np.errstate(divide="ignore", invalid="ignore"):
            column = self.n_samples / 2.0 + self.focal_length * right_m / depth_m
            row = self.row_at(z, depth_m)
        return np.asarray(column), row, np.asarray(depth_m)
