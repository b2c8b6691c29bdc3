"""Section `world` of a scenario: the recorded streets or skies, their sensors and their duration.

A world is the table `[world]` of a scenario file, or of a file of its own, beside a `seed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, ConfigError, Modality
from ...emulator.radio.segments import BlockageModel
from ...emulator.sensors.camera import CameraSettings
from ...emulator.sensors.gps import GpsSettings
from ...emulator.sensors.lidar import LidarSettings
from ...emulator.sensors.radar import RadarSettings
from ...emulator.sensors.signal_receiver import SignalSettings
from ...emulator.world.sky import SkySettings
from ...emulator.world.street_settings import StreetSettings
from ...emulator.world.track_classes import TrackClassName
from ...emulator.world.trees import NO_TREES, Trees
from ...emulator.world.weather import CLEAR, Weather
from .section import Probability, Section

SHIPPED = Path(__file__).parents[1] / "shipped"
#: Folder of the tracks that come with the package.
SHIPPED_TRACKS = SHIPPED / "tracks"

#: Worlds that need no file.
WORLDS: Mapping[str, Mapping[str, Any]] = {"street": {"kind": "street"}, "sky": {"kind": "sky"}}
#: A camera that has the whole sector of `SkySettings` in view, finely enough for a drone.
SKY_CAMERA: Mapping[str, Any] = {"field_of_view_deg": 95.0, "tilt_deg": 25.0, "supersampling": 2}
#: On streets noise averages out over the subcarriers as the signal does, one look each: with fewer looks the fall
#: before a blockage drowns, which measured powers show.
STREET_SWEEP: Mapping[str, Any] = {"n_snapshots": 64}
STREET_SENSORS: tuple[Modality, ...] = ("lidar", "camera", "rf")
SKY_SENSORS: tuple[Modality, ...] = ("camera", "rf", "gps")
#: A quotient of two rates is whole up to this.
_ROUNDING = 1e-6
#: Sensors that no world records unless they are named; a world that does not name them says nothing of them.
ON_REQUEST = frozenset(modality for modality in SENSED_MODALITIES if MODALITY_SPECS[modality].on_request)
#: What finds the paths of the radio.
RadioEngine = Literal["rays", "sionna"]
_Finite = Annotated[float, Field(ge=-1e8, le=1e8)]


class CodebookSection(Section):
    """The beams that every base station sweeps.

    Attributes:
        kind: spacing of the beams: "angle" spaces them evenly in angle over the sector, "dft" in the sine of the angle
            over all directions.
        n_beams: number of beams.
        n_antennas: number of antennas of the array.
        half_width_deg: half the width of the sector; only for "angle".
        phase_bits: resolution of the phase shifters; 0: exact phases.
        gain_sigma_db, phase_sigma_deg: how far the elements of an array differ, drawn per base station.
    """

    kind: Literal["angle", "dft"] = "angle"
    n_beams: Annotated[int, Field(ge=2, le=1024)] = 64
    n_antennas: Annotated[int, Field(ge=2, le=1024)] = 16
    half_width_deg: Annotated[float, Field(gt=0.0, le=90.0)] = 45.0
    phase_bits: Annotated[int, Field(ge=0, le=16)] = 0
    gain_sigma_db: Annotated[float, Field(ge=0.0, le=20.0)] = 0.0
    phase_sigma_deg: Annotated[float, Field(ge=0.0, le=180.0)] = 0.0


class SweepSection(Section):
    """How beam powers are measured; streets start from `STREET_SWEEP`.

    Attributes:
        transmit_power_w: transmit power of the user.
        floor_db: noise below the best beam's power with a clear view, for a user that moves at its usual distance;
            measured sweeps have 15 to 25.
        n_snapshots: independent looks that a reading averages.
        nan_row_share: share of sweeps with one beam that was not measured.
        n_subcarriers, bandwidth_hz: number of subcarriers and bandwidth that a reading averages over.
        duration_s: time that the beams of a sweep are measured in, one after the other from the instant of the frame
            on, while phases turn by the Doppler shifts of the paths; 0: all at one instant.
    """

    transmit_power_w: Annotated[float, Field(gt=0.0, le=1e3)] = 0.1
    floor_db: Annotated[float, Field(ge=0.0, le=100.0)] = 23.0
    n_snapshots: Annotated[int, Field(ge=1, le=100_000)] = 8
    nan_row_share: Probability = 0.0
    n_subcarriers: Annotated[int, Field(ge=1, le=100_000)] = 64
    bandwidth_hz: Annotated[float, Field(gt=0.0, le=1e11)] = 100e6
    duration_s: Annotated[float, Field(ge=0.0, le=0.1)] = 0.0


class TracksSection(Section):
    """Vehicles and people of a street out of a file, in the place of those that are drawn.

    Attributes:
        file: floating-car data of SUMO (`.xml`, `.xml.gz`), or a table (`.csv`) with the columns time_s, id, kind, x_m,
            y_m, heading_deg; a name that ships, such as "two_lanes"; empty: traffic is drawn at random.
        start_s: instant of the file's clock at which the recording begins.
        places: where base stations stand in coordinates of the file, and where they face: x in m, y in m, and degrees
            clockwise from the file's +y; one for each, or one for all.
        classes: names of types in the file, and the class of SUMO whose size and kind they have.
    """

    file: Annotated[str, Field(max_length=4096)] = ""
    start_s: Annotated[float, Field(ge=-1e9, le=1e10)] = 0.0
    places: Annotated[
        tuple[tuple[_Finite, _Finite, _Finite], ...],
        Field(min_length=1, max_length=1000, examples=["places = [[120.0, 48.5, 90.0]]"]),
    ] = ((0.0, 0.0, 0.0),)
    classes: Annotated[
        dict[str, TrackClassName], Field(max_length=1000, examples=['classes = { gas = "passenger" }'])
    ] = Field(default_factory=dict)

    @property
    def path(self) -> Path:
        """File of the tracks: the one that ships, if it is named so."""
        shipped = SHIPPED_TRACKS / f"{self.file}.xml.gz"
        return shipped if Path(self.file).name == self.file and shipped.is_file() else Path(self.file)

    def place(self, index: int) -> tuple[float, float, float]:
        """Place of a base station by its number."""
        return self.places[index if len(self.places) > 1 else 0]


class WorldSection(Section):
    """Base stations, the streets or skies around them, and their sensors.

    Attributes:
        kind: "street", with vehicles and pedestrians; or "sky", with drones.
        user: on a street, "kerb" has the user stand and be blocked, "car" tracks one car after the other.
        n_sites: base stations, each with a site of its own.
        vary_sites: on streets, geometry, speeds and traffic differ from site to site; False: all are as `street` says.
        duration_s: duration of the recording.
        rate_hz: frames per second.
        link_rate_hz: how often the power of the user's link is recorded beside the frames, in readings per second: a
            whole multiple of `rate_hz`, on streets with a standing user; 0: not at all, as with a ray tracer's paths.
        carrier_hz: carrier frequency of the radio.
        radio_engine: what finds the paths of the beam sweeps: "rays", the emulator; or "sionna", Sionna RT (the extra
            `sionna`), on streets with a standing user, in clear weather and without trees: with reflections, and
            without diffraction.
        blockage: how boxes on a street block the radio: "fresnel" by complex Fresnel integrals past their edges, with
            ripples and phases; "3gpp_b" by model B of TR 38.901, with losses only.
        doppler: record the mean and the spread of the Doppler shifts in the strongest beam of every frame.
        double_facade: follow paths over two facades.
        bounce_pairs: follow paths over two different surfaces: ground and facade, ground and vehicle, facade and
            vehicle; "auto": unless `blockage` is "3gpp_b", which stands for the channel as it was.
        codebook, sweep: settings of the beam sweep; on streets the default number of snapshots is larger.
        sensors: sensors that are recorded; empty: lidar, camera, rf on streets with a standing user, these and gps with
            a tracked car, camera, rf, gps in the sky.
        night_share: share of base stations that record at night.
        weather: rain and fog: LiDAR reaches less far, images have less contrast, radio waves are attenuated.
        trees: trees or a hedge before the user, on streets: leaves attenuate radio waves, and all sensors see them.
        street, sky: where they stand; the one of `kind` counts.
        tracks: vehicles and people of streets out of a file.
        lidar, camera, gps, radar, signal: how the sensors are built; "signal" reads the user's own power. In the sky
            the camera looks up, and sweeps are less noisy by default.
    """

    kind: Literal["street", "sky"] = "street"
    user: Literal["kerb", "car"] = "kerb"
    n_sites: Annotated[int, Field(ge=1, le=1000)] = 20
    vary_sites: bool = True
    duration_s: Annotated[float, Field(ge=1.0, le=1e6)] = 300.0
    rate_hz: Annotated[float, Field(ge=0.1, le=1000.0)] = 10.0
    link_rate_hz: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    carrier_hz: Annotated[float, Field(ge=1e9, le=100e9)] = 60e9
    radio_engine: RadioEngine = "rays"
    blockage: BlockageModel = "fresnel"
    doppler: bool = False
    double_facade: bool = False
    bounce_pairs: bool | Literal["auto"] = "auto"
    codebook: CodebookSection = CodebookSection()
    sweep: SweepSection = SweepSection()
    sensors: tuple[Modality, ...] = ()
    night_share: Probability = 0.0
    weather: Weather = CLEAR
    trees: Trees = NO_TREES
    street: StreetSettings = StreetSettings()
    sky: SkySettings = SkySettings()
    tracks: TracksSection = TracksSection()
    lidar: LidarSettings = LidarSettings()
    camera: CameraSettings = CameraSettings()
    gps: GpsSettings = GpsSettings()
    radar: RadarSettings = RadarSettings()
    signal: SignalSettings = SignalSettings()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _starts_from_its_kind(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        table, usual = ("camera", SKY_CAMERA) if tree.get("kind") == "sky" else ("sweep", STREET_SWEEP)
        given = tree.get(table, {})
        # values that are given win over the usual ones of this kind of world
        return {**tree, table: {**usual, **given}} if isinstance(given, Mapping) else tree

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.duration_s * self.rate_hz < 1.0:
            raise ConfigError(
                f"world.duration_s = {self.duration_s:g} at world.rate_hz = {self.rate_hz:g} holds no frame; "
                "record longer"
            )
        if self.sweep.duration_s * self.rate_hz > 1.0 + _ROUNDING:
            raise ConfigError(
                f"world.sweep.duration_s must be at most {1.0 / self.rate_hz:g}, the time between two frames at"
                f" world.rate_hz = {self.rate_hz:g}, got {self.sweep.duration_s:g}; 0.005 is a burst of 5G beams"
            )
        per_frame = self.link_rate_hz / self.rate_hz
        if abs(per_frame - round(per_frame)) > _ROUNDING:
            raise ConfigError(
                f"world.link_rate_hz must be a whole multiple of world.rate_hz = {self.rate_hz:g}, got"
                f" {self.link_rate_hz:g}; set it to {max(round(per_frame), 1) * self.rate_hz:g}"
            )
        if self.link_rate_hz and not self.has_clear_level:
            raise ConfigError(
                f"world.link_rate_hz = {self.link_rate_hz:g} needs a standing user (world.kind = 'street', world.user ="
                " 'kerb'); set it to 0"
            )
        if "signal" in self.sensors and (complaint := self.complaint_about_signal):
            raise ConfigError(complaint)
        if self.kind == "sky" and self.trees != NO_TREES:
            raise ConfigError("world.trees stand along streets, and world.kind is 'sky'; leave the table out")
        if len(set(self.sensors)) < len(self.sensors):
            raise ConfigError(f"world.sensors names a sensor twice: {', '.join(self.sensors)}; name each once")
        if self.tracks.file:
            self._check_tracks()
        if self.radio_engine == "sionna":
            self._check_sionna()
        return self

    def _check_sionna(self) -> None:
        for table in self.attenuating:
            raise ConfigError(
                f'world.radio_engine = "sionna" does not trace world.{table}; leave the table out, or set the'
                ' engine to "rays"'
            )
        needed = {"kind": "street", "user": "kerb", "link_rate_hz": 0.0}
        self._check_only(needed, 'world.radio_engine = "sionna"', 'set the engine to "rays"')

    def _check_only(self, needed: Mapping[str, object], what: str, otherwise: str) -> None:
        """Refuse other values of fields than those that `what` goes with."""
        for name, only in needed.items():
            if (value := getattr(self, name)) != only:
                raise ConfigError(
                    f"{what} goes with world.{name} = {json.dumps(only)} alone, got {json.dumps(value)}; set it so, or"
                    f" {otherwise}"
                )

    def _check_tracks(self) -> None:
        self._check_only({"kind": "street", "vary_sites": False}, "world.tracks.file", "leave the file out")
        # more are well: a run records the first base stations only, as many as it has clients
        if 1 < len(self.tracks.places) < self.n_sites:
            raise ConfigError(
                f"world.tracks.places must have one place, or one for each of world.n_sites = {self.n_sites}, got"
                f" {len(self.tracks.places)}"
            )

    @property
    def attenuating(self) -> tuple[str, ...]:
        """Tables that are set and attenuate the emulator's own paths; those of a ray tracer stay as they are."""
        tables = ("weather", "trees")
        return tuple(one for one in tables if getattr(self, one) != type(self).model_fields[one].default)

    @property
    def has_bounce_pairs(self) -> bool:
        """Whether paths over two different surfaces are followed."""
        return self.blockage != "3gpp_b" if self.bounce_pairs == "auto" else self.bounce_pairs

    @property
    def recorded(self) -> tuple[Modality, ...]:
        """Sensors that are recorded, in the one order of modalities."""
        chosen = self.sensors or self._usual
        return tuple(modality for modality in SENSED_MODALITIES if modality in chosen)

    @property
    def recordable(self) -> tuple[Modality, ...]:
        """Sensors that clients may have: those that are recorded, and without a choice those on request as well."""
        chosen = self.sensors or {*self._usual, *ON_REQUEST}
        return tuple(modality for modality in SENSED_MODALITIES if modality in chosen)

    @property
    def _usual(self) -> frozenset[Modality]:
        if self.kind == "sky":
            return frozenset(SKY_SENSORS)
        return frozenset(SENSED_MODALITIES) - ON_REQUEST if self.user == "car" else frozenset(STREET_SENSORS)

    @property
    def has_clear_level(self) -> bool:
        """Whether power falls for no reason but blockage: the user stands still."""
        return self.kind == "street" and self.user == "kerb"

    @property
    def links_per_frame(self) -> int:
        """Readings of the user's link from a frame until the next; 0: none is recorded."""
        return round(self.link_rate_hz / self.rate_hz)

    @property
    def needs_doppler(self) -> bool:
        """Whether what is recorded depends on the Doppler shifts of the paths."""
        return self.doppler or self.sweep.duration_s > 0.0

    @property
    def readings_per_frame(self) -> int:
        """Readings that the sensor "signal" takes from a frame to the next, 1 at least."""
        return max(1, round(1.0 / (self.rate_hz * self.signal.period_s)))

    @property
    def complaint_about_signal(self) -> str:
        """Why the user's own power cannot be read; empty if it can."""
        n_steps, n_readings = self.links_per_frame, self.readings_per_frame
        if n_steps and n_steps % n_readings == 0:
            return ""
        return (
            f'the sensor "signal" reads the recorded power of the user every {1e3 * self.signal.period_s:g} ms, and'
            f" world.link_rate_hz = {self.link_rate_hz:g} does not have it then; set it to"
            f" {2 * n_readings * self.rate_hz:g}"
        )

    @property
    def n_ticks(self) -> int:
        """Instants per base station; between two tracked cars nothing is recorded."""
        return max(1, round(self.duration_s * self.rate_hz))
