"""Frames of a DeepSense scenario, some samples at a time: small series as read before, large ones from their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ..recordings.recording_layout import Field, standard_field
from .deepsense_labels import BeamNumbering
from .deepsense_samples import UsableSamples
from .deepsense_sensors import CAMERA_SIZE, Positions, read_camera, read_echoes, read_radar, sweep_shape
from .deepsense_sources import Sources
from .deepsense_table import DeepSenseTable

_GPS_FRAME = "WGS 84 for degrees; east and north of the base station for east_m and north_m"
_GPS_DESCRIPTION = "position fix of the user, drone or vehicle"


@dataclass(frozen=True, slots=True, eq=False)
class SampleSeries:
    """Fields of the kept samples that are small enough to be read at once: all but sweeps, images and maps.

    Attributes:
        values: field -> [n_kept, ...].
        rate_hz: frames per second inside sequences.
        positions: positions of the user.
        numbering: numbering of the beam labels; None where nothing was compared.
    """

    values: Mapping[str, NDArray[Any]]
    rate_hz: float
    positions: Positions
    numbering: BeamNumbering | None


@dataclass(frozen=True, slots=True, eq=False)
class FrameFiles:
    """Files with a frame of a sensor each.

    Attributes:
        table, sources, samples: table, its columns, and which samples can be used.
        n_rays, reach_m: rays of a sweep, and the reach of the LiDAR; 0 without one.
        radar_shape: shape of a radar map; empty without a radar.
    """

    table: DeepSenseTable
    sources: Sources
    samples: UsableSamples
    n_rays: int
    reach_m: float
    radar_shape: tuple[int, ...]

    @classmethod
    def found(cls, table: DeepSenseTable, sources: Sources, samples: UsableSamples) -> Self:
        """Files of these columns; all sweeps are read for the reach of the LiDAR, and one radar signal for its shape.

        Raises:
            DataError: no sample has a sweep, or a radar signal, that can be used.
        """
        n_rays, reach_m = sweep_shape(table, sources.lidar, samples) if sources.lidar else (0, 0.0)
        radar_shape: tuple[int, ...] = ()
        if sources.radar:
            for row in samples.rows():
                with samples.reading(row, f"{sources.radar}: no signal"):
                    radar_shape = read_radar(table, sources.radar, row).shape
                    break
            samples.kept()
        return cls(table, sources, samples, n_rays, reach_m, radar_shape)

    def geometry(self, series: SampleSeries) -> dict[str, Any]:
        """Facts of the site that the recording states."""
        lidar = {"lidar": {"max_range_m": self.reach_m}} if self.sources.lidar else {}
        return {**series.positions.geometry, **lidar}

    def fields(self, series: SampleSeries) -> tuple[Field, ...]:
        """How the recording describes what is written."""
        described = f"{_GPS_DESCRIPTION}, {self.sources.positions} ({self.sources.user_position})"
        columns = series.positions.columns
        changes: dict[str, dict[str, Any]] = {
            "rf": {"unit": "1, proportional to W"},
            "gps": {"columns": columns, "frame_of_reference": _GPS_FRAME, "description": described},
        }
        fields = [
            standard_field(name, values.shape[1:], **changes.get(name, {})) for name, values in series.values.items()
        ]
        if self.sources.lidar:
            fields.append(standard_field("lidar", (self.n_rays, 2)))
        if self.sources.camera:
            fields.append(standard_field("camera", (CAMERA_SIZE, CAMERA_SIZE, 3)))
        if self.sources.radar:
            fields.append(standard_field("radar", self.radar_shape))
        return tuple(fields)

    def frames(
        self, series: SampleSeries, rows: NDArray[np.int64], part: slice
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """All fields of some samples whose files can be read.

        Args:
            series: small fields of all kept samples.
            rows: [n] rows of the table.
            part: the same samples among those kept.

        Returns:
            field -> [m, ...], and [n] which samples these are.
        """
        large: dict[str, list[NDArray[Any]]] = {}
        readable = np.zeros(len(rows), dtype=np.bool_)
        for index, row in enumerate(rows.tolist()):
            with self.samples.reading(row, "an image, a radar signal or a sweep that cannot be read"):
                for name, frame in self._large(row).items():
                    large.setdefault(name, []).append(frame)
                readable[index] = True
        frames = {name: values[part][readable] for name, values in series.values.items()}
        return {**frames, **{name: np.stack(read) for name, read in large.items()}}, readable

    def _large(self, row: int) -> dict[str, NDArray[Any]]:
        """Frames of one sample; read before any is kept, so that all fields have the same samples."""
        sources, frames = self.sources, dict[str, NDArray[Any]]()
        if sources.lidar:
            frames["lidar"] = read_echoes(self.table, sources.lidar, row, self.n_rays, self.reach_m)
        if sources.camera:
            frames["camera"] = read_camera(self.table, sources.camera, row)
        if sources.radar:
            frames["radar"] = read_radar(self.table, sources.radar, row)
            if frames["radar"].shape != self.radar_shape:
                raise DataError(
                    f"{self.table.where(row)}: {sources.radar} has a map of shape {frames['radar'].shape}, the rows"
                    f" before {self.radar_shape}"
                )
        return frames
