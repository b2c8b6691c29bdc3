"""One base station of a world: its site, its sensors and its radio, each with a random stream of its own.

A site is made again from the world file and the seed alone, so that the scene of a recording can be drawn later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.radio.antenna import angle_codebook, dft_codebook, with_element_errors, with_quantized_phases
from ...emulator.radio.channel import ChannelSettings, trace_paths
from ...emulator.radio.sweep import SweepNoise, beam_powers, clear_power
from ...emulator.random_streams import named_stream
from ...emulator.sensors.camera import CameraSettings
from ...emulator.sensors.gps import GpsSettings
from ...emulator.world.planting import planted
from ...emulator.world.scene import Scene
from ...emulator.world.sites import site_street, tracked_street
from ...emulator.world.sky import SkySettings, SkyWorld
from ...emulator.world.street import BETWEEN_SEQUENCES, StreetWorld
from ...emulator.world.street_settings import StreetSettings
from ...emulator.world.trees import NO_TREES
from ...emulator.world.weather import CLEAR
from ..schema.world_section import ON_REQUEST, CodebookSection, WorldSection
from .track_ways import track_ways, tracks_digest
from .world_file import WorldFile

#: Multiples of this, modulo 1, spread any number of base stations evenly: which ones record at night.
GOLDEN_RATIO = 0.618_033_988_749_894_9
#: Sites lie this far apart on the map, one north of the other.
SITE_STEP_DEG = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSite:
    """A base station and the world around it.

    Attributes:
        index: number of the base station.
        name: short description.
        file: world that it is part of.
        world: moving objects around it.
        camera, gps: sensor settings of this site.
        channel: settings of its radio channel.
        codebook: [n_beams, n_antennas] complex beam weights.
        noise: noise of its beam sweeps.
    """

    index: int
    name: str
    file: WorldFile
    world: StreetWorld | SkyWorld
    camera: CameraSettings
    gps: GpsSettings
    channel: ChannelSettings
    codebook: NDArray[np.complex128]
    noise: SweepNoise

    @classmethod
    def of(cls, file: WorldFile, index: int) -> RecordedSite:
        """The base station with this number; the same for any number of sites and any set of sensors."""
        section = file.section
        name, world = _world(file, index)
        channel = ChannelSettings(
            carrier_hz=section.carrier_hz,
            blockage=section.blockage,
            double_facade=section.double_facade,
            bounce_pairs=section.has_bounce_pairs,
        )
        codebook = _codebook(section.codebook, file.seed, index)
        return cls(
            index=index,
            name=name,
            file=file,
            world=world,
            camera=replace(section.camera, night=section.camera.night or is_night(section, index)),
            gps=_gps(file, index),
            channel=channel,
            codebook=codebook,
            noise=SweepNoise(
                reference_power=_clear_power(section, world, channel, codebook),
                floor_db=section.sweep.floor_db,
                n_snapshots=section.sweep.n_snapshots,
                nan_row_share=section.sweep.nan_row_share,
            ),
        )

    def stream(self, *name: object) -> np.random.Generator:
        """Random stream of one part of this base station."""
        return named_stream(self.file.seed, "world", self.index, *name)

    def instants(self, ticks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Ticks of the recording's clock that lie inside a sequence, with their instants.

        Returns:
            [F] ticks, [F] instants in s and [F] sequence numbers.
        """
        time_s = ticks / self.file.section.rate_hz
        sequence = self.world.sequence_index(time_s)
        recorded = sequence != BETWEEN_SEQUENCES
        return ticks[recorded], time_s[recorded], sequence[recorded]

    def scene(self, time_s: NDArray[np.float64]) -> Scene:
        """Scene of F frames at instants [F] in s."""
        scene, section, settings = self.world.scene(time_s), self.file.section, self.world.settings
        if isinstance(settings, StreetSettings):
            scene = planted(scene, section.trees, settings.far_kerb_y_m, settings.user_x_m, settings.reach_m)
        return replace(scene, surroundings=replace(scene.surroundings, weather=section.weather))

    def geometry(self) -> Mapping[str, Any]:
        """Geometry of the site in types of JSON, enough to draw it without making it again."""
        section, settings = self.file.section, self.world.settings
        geometry: dict[str, Any] = {
            "kind": section.kind,
            "base_station_m": [0.0, 0.0, settings.base_station_height_m],
            "latitude_deg": self.gps.latitude_deg,
            "longitude_deg": self.gps.longitude_deg,
            "heading_deg": self.gps.heading_deg,
            "carrier_hz": section.carrier_hz,
            "transmit_power_w": section.sweep.transmit_power_w,
            "codebook": section.codebook.model_dump(mode="json"),
            section.kind: asdict(settings),
            "camera": asdict(self.camera),
            "lidar": asdict(section.lidar),
            **({} if section.weather == CLEAR else {"weather": asdict(section.weather)}),
            **({} if section.trees == NO_TREES else {"trees": asdict(section.trees)}),
            **{modality: asdict(getattr(section, modality)) for modality in section.recorded if modality in ON_REQUEST},
        }
        if isinstance(settings, StreetSettings):
            geometry["user"] = section.user
            if section.tracks.file:
                geometry["tracks_sha256"] = tracks_digest(section.tracks)
            if section.user == "kerb":
                geometry["user_m"] = [settings.user_x_m, settings.user_y_m, settings.user_height_m]
        return geometry


def is_night(section: WorldSection, index: int) -> bool:
    """Whether this base station records at night."""
    return (index + 0.5) * GOLDEN_RATIO % 1.0 < section.night_share


def _world(file: WorldFile, index: int) -> tuple[str, StreetWorld | SkyWorld]:
    section = file.section
    movement = named_stream(file.seed, "world", index, "movement")
    if section.kind == "sky":
        return "drone flights", SkyWorld(section.sky, movement, section.duration_s)
    street = section.street
    if section.vary_sites:
        varied = tracked_street if section.user == "car" else site_street
        street = varied(index, named_stream(file.seed, "world", index, "site"), street)
    name = f"{street.n_lanes}-lane street, {street.user_y_m:.0f} m"
    ways = track_ways(section, street, index) if section.tracks.file else None
    return name, StreetWorld(street, movement, section.duration_s, section.user, ways)


def _gps(file: WorldFile, index: int) -> GpsSettings:
    """Every site at a place of its own; what differs must not move the errors, which have their own stream."""
    gps = file.section.gps
    if not file.section.vary_sites:
        return gps
    heading_deg = float(named_stream(file.seed, "world", index, "heading").uniform(-180.0, 180.0))
    # Around the given latitude, on whichever side has room.
    north = SITE_STEP_DEG * index * (-1.0 if gps.latitude_deg > 0.0 else 1.0)
    return replace(gps, latitude_deg=gps.latitude_deg + north, heading_deg=heading_deg)


def _codebook(settings: CodebookSection, seed: int, index: int) -> NDArray[np.complex128]:
    if settings.kind == "dft":
        codebook = dft_codebook(settings.n_beams, settings.n_antennas)
    else:
        codebook = angle_codebook(settings.n_beams, settings.n_antennas, settings.half_width_deg)
    # phase shifters round first; errors of the elements come on top of the rounded phases
    if settings.phase_bits:
        codebook = with_quantized_phases(codebook, settings.phase_bits)
    if settings.gain_sigma_db or settings.phase_sigma_deg:
        draws = named_stream(seed, "world", index, "array")
        codebook = with_element_errors(codebook, draws, settings.gain_sigma_db, settings.phase_sigma_deg)
    return codebook


def _clear_power(
    section: WorldSection, world: StreetWorld | SkyWorld, channel: ChannelSettings, codebook: NDArray[np.complex128]
) -> float:
    """Linear power of the best beam when nothing is in the way and the user is where it usually is.

    For a standing user that is the empty street with its reflections, which can take some decibels.
    """
    settings = world.settings
    if isinstance(settings, SkySettings):
        # geometric mean: path loss in dB grows with the logarithm of the distance
        usual_m = float(np.sqrt(settings.min_distance_m * settings.max_distance_m))
    elif section.user == "car":
        usual_m = float(np.mean(settings.lanes_y_m))
    else:
        scene = world.scene(np.zeros(1))
        empty = replace(scene, present=np.zeros_like(scene.present))
        return float(beam_powers(trace_paths(empty, channel), codebook).max())
    return clear_power(usual_m, section.carrier_hz, section.codebook.n_antennas)
