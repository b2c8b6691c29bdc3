"""What the sensors of one base station make of its scene, piece after piece, with the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.power_blockage import PowerBlockage
from ...emulator.contracts import Modality
from ...emulator.radio.channel import trace_paths
from ...emulator.radio.sweep import beam_powers, measured_powers
from ...emulator.sensors.camera import Camera
from ...emulator.sensors.gps import GpsReceiver, drone_fix
from ...emulator.sensors.lidar import Lidar
from .recorded_site import RecordedSite

Frames = dict[str, NDArray[Any]]

#: The line of sight counts as blocked from this loss on. Source: our choice; a pedestrian costs 10 dB, a car 20.
BLOCKED_FROM_DB = 10.0
GPS_COLUMNS = ("latitude_deg", "longitude_deg", "distance_m", "height_m")


class SiteSensors:
    """The sensors of one base station, each with a random stream of its own: leaving one out moves no other.

    Pieces of any size, in order, give the same frames.
    """

    def __init__(self, site: RecordedSite) -> None:
        section = site.file.section
        self._site, self._recorded = site, section.recorded
        self._lidar = Lidar(section.lidar, site.stream("lidar"))
        self._camera = Camera(site.camera, site.stream("camera"), site.stream("camera", "noise"))
        self._receiver = GpsReceiver(site.gps, site.stream("gps"))
        self._sweep_noise = site.stream("rf")
        self._power_blockage = PowerBlockage() if section.has_clear_level else None

    def sense(self, ticks: NDArray[np.int64]) -> Frames:
        """Every field of the recorded frames among these ticks of the clock, those after the ones before.

        Returns:
            Field -> [F, ...]; empty where none of the ticks is recorded.
        """
        site = self._site
        ticks, time_s, sequence = site.instants(ticks)
        if not len(ticks):
            return {}
        frames: Frames = {"time_s": time_s, "sequence": sequence, "frame_index": ticks}
        scene = site.scene(time_s)
        paths = trace_paths(scene, site.channel)
        section = site.file.section.sweep
        powers = beam_powers(paths, site.codebook, section.n_subcarriers, section.bandwidth_hz)
        powers = measured_powers(powers, site.noise, self._sweep_noise)
        stored = (powers * section.transmit_power_w).astype(np.float32)
        frames["best_beam"] = _best_beam(stored)
        frames["los_loss_db"] = paths.los_blockage_db.astype(np.float32)
        frames["blocked_geometric"] = paths.los_blockage_db >= BLOCKED_FROM_DB
        if self._power_blockage is not None:
            best_power_db = 10.0 * np.log10(np.nanmax(stored, axis=1, initial=0.0).astype(np.float64))
            frames["blocked_power"] = self._power_blockage.label(best_power_db)
        if self._records("rf"):
            frames["rf"] = stored
        if self._records("lidar"):
            frames["lidar"] = self._lidar.sense(scene)
        if self._records("camera"):
            frames["camera"] = self._camera.sense(scene)
        if self._records("gps"):
            frames["gps"] = drone_fix(self._receiver.sense(site.world, time_s), site.gps)
        return frames

    def _records(self, modality: Modality) -> bool:
        return modality in self._recorded


def _best_beam(powers: NDArray[np.float32]) -> NDArray[np.int32]:
    """[F] strongest measured beam, the lower one on a tie; of the stored values, so that readers find the same."""
    return np.asarray(np.where(np.isnan(powers), -1.0, powers).argmax(axis=1), dtype=np.int32)
