"""Sensor frames and labels of one base station, piece after piece.

`SENSORS` has one row per modality: how its frames are recorded, and what senses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.power_blockage import PowerBlockage
from ...datasets.recordings.recording_layout import Field, standard_field
from ...emulator.contracts import Modality
from ...emulator.radio.channel import trace_paths
from ...emulator.radio.sweep import ArrivingPaths, beam_powers, measured_powers, strongest_beam_spectrum
from ...emulator.radio.waves import Array
from ...emulator.sensors.camera import Camera
from ...emulator.sensors.gps import GpsReceiver, drone_fix
from ...emulator.sensors.lidar import Lidar
from ...emulator.sensors.radar import Radar
from ...emulator.sensors.signal_receiver import SignalReceiver
from ...emulator.world.scene import Scene
from .recorded_site import RecordedSite

Frames = dict[str, NDArray[Any]]

#: The line of sight counts as blocked from this loss on. Source: our choice; a pedestrian costs 10 dB, a car 20.
BLOCKED_FROM_DB = 10.0
#: What stands for no power at all in dB: 1,000 dB below 1 W.
LEAST_POWER_W = 1e-100
GPS_COLUMNS = ("latitude_deg", "longitude_deg", "distance_m", "height_m")


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Input of the sensors of a site: some instants with their scene and sweeps.

    Attributes:
        time_s: [F] instants.
        scene: F frames of the scene.
        swept: [F, n_beams] float32 received power in W, as it is recorded; NaN where a beam was not measured.
        link_dbw: [F, k] power of the strongest beam at even steps from each frame until the next; [F, 0]: not known.
    """

    time_s: NDArray[np.float64]
    scene: Scene
    swept: NDArray[np.float32]
    link_dbw: NDArray[np.float32]


#: Sensor as a function: instants after all earlier ones -> frames [F, ...].
Sense = Callable[[Moment], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class SensorKind:
    """One modality at the base stations of a world.

    Attributes:
        field: layout of its frames in the recording of a site.
        sensor: sensor of a site, with a random stream of its own.
    """

    field: Callable[[RecordedSite], Field]
    sensor: Callable[[RecordedSite], Sense]


def _lidar_field(site: RecordedSite) -> Field:
    frame = "LiDAR above the base station: 0 along +y, positive towards +x"
    return standard_field("lidar", (site.file.section.lidar.n_rays, 2), frame_of_reference=frame)


def _lidar(site: RecordedSite) -> Sense:
    lidar = Lidar(site.file.section.lidar, site.stream("lidar"))
    return lambda moment: lidar.sense(moment.scene)


def _camera_field(site: RecordedSite) -> Field:
    return standard_field("camera", (site.camera.n_pixels, site.camera.n_pixels, 3))


def _camera(site: RecordedSite) -> Sense:
    camera = Camera(site.camera, site.stream("camera"), site.stream("camera", "noise"))
    return lambda moment: camera.sense(moment.scene)


def _rf_field(site: RecordedSite) -> Field:
    return standard_field("rf", (len(site.codebook),))


def _rf(_site: RecordedSite) -> Sense:
    return lambda moment: moment.swept


def _gps_field(_site: RecordedSite) -> Field:
    return standard_field(
        "gps",
        (len(GPS_COLUMNS),),
        columns=GPS_COLUMNS,
        unit="deg, deg, m, m",
        frame_of_reference="WGS 84 for degrees; distance along the ground from the base station, height above it",
    )


def _gps(site: RecordedSite) -> Sense:
    receiver = GpsReceiver(site.gps, site.stream("gps"))
    return lambda moment: drone_fix(receiver.sense(site.world, moment.time_s), site.gps)


def _radar_field(site: RecordedSite) -> Field:
    settings = site.file.section.radar
    return standard_field("radar", (settings.n_ranges, settings.n_angles))


def _radar(site: RecordedSite) -> Sense:
    radar = Radar(site.file.section.radar, site.stream("radar"))
    return lambda moment: radar.sense(moment.scene)


def _signal_field(site: RecordedSite) -> Field:
    return standard_field("signal", (site.file.section.readings_per_frame,))


def _signal(site: RecordedSite) -> Sense:
    receiver = SignalReceiver(site.file.section.signal, site.file.section.readings_per_frame, site.stream("signal"))
    return lambda moment: receiver.sense(moment.link_dbw)


SENSORS: Mapping[Modality, SensorKind] = {
    "lidar": SensorKind(_lidar_field, _lidar),
    "camera": SensorKind(_camera_field, _camera),
    "rf": SensorKind(_rf_field, _rf),
    "gps": SensorKind(_gps_field, _gps),
    "radar": SensorKind(_radar_field, _radar),
    "signal": SensorKind(_signal_field, _signal),
}


def sensor_fields(site: RecordedSite) -> list[Field]:
    """Layouts of the frames of every recorded sensor of a site."""
    return [SENSORS[modality].field(site) for modality in site.file.section.recorded]


class SiteSensors:
    """The sensors of one base station, each with a random stream of its own: leaving one out moves no other.

    Pieces of any size, in order, give the same frames. Sweeps measure the emulator's own paths, or those handed in;
    the loss of the line of sight, and the label made from it, are the emulator's in both cases: a ray tracer has no
    direct path where something stands in it.
    """

    def __init__(self, site: RecordedSite) -> None:
        section = site.file.section
        self._site = site
        self._sensors = {modality: SENSORS[modality].sensor(site) for modality in section.recorded}
        # Labels need the sweeps whether or not they are recorded, so their noise is drawn in any case.
        self._sweep_noise = site.stream("rf")
        self._power_blockage = PowerBlockage() if section.has_clear_level else None

    def sense(self, ticks: NDArray[np.int64], traced: ArrivingPaths | None = None) -> Frames:
        """All fields of the recorded frames among these ticks, which must follow the ticks of the call before.

        Args:
            ticks: [F] instants of the recording's clock.
            traced: channels of all these ticks, each of which is recorded then; None: the emulator finds the paths.

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
        section, arriving = site.file.section, traced or paths
        powers = self._beam_powers(arriving)
        # a ray tracer knows the frames alone
        if section.links_per_frame and traced is None:
            frames["link_power_dbw"] = self._link_power_dbw(time_s, powers)
        if section.doppler:
            spectrum = strongest_beam_spectrum(arriving, site.codebook)
            frames["doppler_shift_hz"] = spectrum.shift_hz.astype(np.float32)
            frames["doppler_spread_hz"] = spectrum.spread_hz.astype(np.float32)
        if section.sweep.duration_s:
            powers = self._beam_powers(arriving, section.sweep.duration_s)
        powers = measured_powers(powers, site.noise, self._sweep_noise)
        # labels below are made from the stored numbers, so that readers of the file find the same labels
        stored = (powers * section.sweep.transmit_power_w).astype(np.float32)
        frames["best_beam"] = _best_beam(stored)
        # Ripples beside an edge can be stronger than free space, which is no loss.
        frames["los_loss_db"] = np.maximum(paths.los_blockage_db, 0.0).astype(np.float32)
        frames["blocked_geometric"] = paths.los_blockage_db >= BLOCKED_FROM_DB
        if self._power_blockage is not None:
            # initial=0: a sweep without any measured beam has no maximum
            best_power_db = 10.0 * np.log10(np.nanmax(stored, axis=1, initial=0.0).astype(np.float64))
            frames["blocked_power"] = self._power_blockage.label(best_power_db)
        link_dbw = frames.get("link_power_dbw", np.zeros((len(time_s), 0), dtype=np.float32))
        moment = Moment(time_s, scene, stored, link_dbw)
        for modality, sense in self._sensors.items():
            frames[modality] = sense(moment)
        return frames

    def _beam_powers(self, paths: ArrivingPaths, duration_s: float = 0.0) -> Array:
        """[F, n_beams] linear, per unit of sent power, of sweeps that take so long."""
        sweep = self._site.file.section.sweep
        return beam_powers(paths, self._site.codebook, sweep.n_subcarriers, sweep.bandwidth_hz, duration_s=duration_s)

    def _link_power_dbw(self, time_s: Array, powers: Array) -> NDArray[np.float32]:
        """[F, links_per_frame] power of the strongest beam from each frame until the next; nothing is drawn.

        Args:
            time_s: [F] instants of the frames.
            powers: [F, n_beams] linear, per unit of sent power, at these.
        """
        site, world = self._site, self._site.file.section
        strongest = np.empty((len(time_s), world.links_per_frame))
        strongest[:, 0] = powers.max(axis=1)
        for step in range(1, world.links_per_frame):
            # after the last frame of a duration that is no whole number of frames the world has ended
            between_s = np.minimum(time_s + step / world.link_rate_hz, world.duration_s)
            paths = trace_paths(site.scene(between_s), site.channel)
            strongest[:, step] = self._beam_powers(paths).max(axis=1)
        watts = np.maximum(strongest * world.sweep.transmit_power_w, LEAST_POWER_W)
        return np.asarray(10.0 * np.log10(watts), dtype=np.float32)


def _best_beam(powers: NDArray[np.float32]) -> NDArray[np.int32]:
    """[F] strongest measured beam, the lower one on a tie; of the stored values, so that readers find the same."""
    return np.asarray(np.where(np.isnan(powers), -1.0, powers).argmax(axis=1), dtype=np.int32)
