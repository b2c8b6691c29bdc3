"""Section `world` of a scenario: the recorded streets or skies, their sensors and their duration.

A world is the table `[world]` of a scenario file, or of a file of its own, beside a `seed`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
import tomli_w
from pydantic import Field

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, ConfigError, Modality, ScenarioError
from ...emulator.radio.segments import BlockageModel
from ...emulator.regular_file import is_regular
from ...emulator.sensors.camera import CameraSettings
from ...emulator.sensors.gps import GpsSettings
from ...emulator.sensors.lidar import LidarSettings
from ...emulator.sensors.radar import RadarSettings
from ...emulator.world.sky import SkySettings
from ...emulator.world.street_settings import StreetSettings
from ...emulator.world.track_classes import TrackClassName
from ...emulator.world.trees import NO_TREES, Trees
from ...emulator.world.weather import CLEAR, Weather
from ..scenario_files.layered_file import LayeredFile, read_layers
from .section import Probability, Section
from .toml_file import parsed_toml
from .wording import one_sentence, shown

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
    """

    transmit_power_w: Annotated[float, Field(gt=0.0, le=1e3)] = 0.1
    floor_db: Annotated[float, Field(ge=0.0, le=100.0)] = 23.0
    n_snapshots: Annotated[int, Field(ge=1, le=100_000)] = 8
    nan_row_share: Probability = 0.0
    n_subcarriers: Annotated[int, Field(ge=1, le=100_000)] = 64
    bandwidth_hz: Annotated[float, Field(gt=0.0, le=1e11)] = 100e6


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
        lidar, camera, gps, radar: how the sensors are built. In the sky the camera looks up, and sweeps are less noisy
            by default.
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
        for table in ("weather", "trees"):
            if getattr(self, table) != type(self).model_fields[table].default:
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
    def n_ticks(self) -> int:
        """Instants per base station; between two tracked cars nothing is recorded."""
        return max(1, round(self.duration_s * self.rate_hz))


class _Tables(Section):
    """Parts of a scenario file that decide a recording."""

    seed: Annotated[int, Field(ge=0, lt=1 << 63, strict=True)] = 0
    world: WorldSection


@dataclass(frozen=True, slots=True)
class WorldFile:
    """A world and the seed that makes it one of many.

    Attributes:
        section: settings of the world.
        seed: root seed of the world.
    """

    section: WorldSection
    seed: int

    def text(self) -> str:
        """TOML with everything that decides a recording; `parse_world` gives the same value back."""
        # Their settings decide nothing here, and files of worlds without them keep the bytes that they had.
        left_out = {str(modality) for modality in ON_REQUEST.difference(self.section.recorded)}
        if self.section.weather == CLEAR:
            left_out.add("weather")
        left_out |= set() if self.section.tracks.file else {"tracks"}
        if self.section.kind == "sky":
            left_out |= {"blockage", "bounce_pairs"}
        if not self.section.link_rate_hz:
            left_out.add("link_rate_hz")
        if self.section.trees == NO_TREES:
            left_out.add("trees")
        if self.section.radio_engine == "rays":
            left_out.add("radio_engine")
        world = self.section.model_dump(mode="json", exclude=left_out)
        return tomli_w.dumps({"seed": self.seed, "world": world})


def parse_world(text: str, source: str) -> WorldFile:
    """A world from TOML text; tables of a scenario other than `[world]` are left to others.

    Args:
        text: TOML.
        source: how messages name it.

    Raises:
        ConfigError: no TOML, no `[world]`, or an impossible value.
    """
    return _world(parsed_toml(text, source), source)


def load_world(name_or_path: str, edits: Mapping[str, Any] | None = None) -> WorldFile:
    """A world by name ("street", "sky"), the world of a shipped scenario, or a TOML file by path.

    Args:
        name_or_path: which.
        edits: dotted keys below `world`, and `seed`, such as {"world.n_sites": 3}.

    Raises:
        ConfigError: no such world, not TOML, or a key or value that does not fit.
    """
    if name_or_path in WORLDS:
        layers, tree = None, {"world": dict(WORLDS[name_or_path])}
    else:
        layers = _read(name_or_path)
        tree = copy.deepcopy(dict(layers.tables))
    for key, value in (edits or {}).items():
        _edit(tree, key, value)
    try:
        return _world(tree, name_or_path)
    except ScenarioError as errors:
        if layers is None or edits:  # of an edit, no file is to blame
            raise
        raise layers.located(errors.sentences) from None


def _read(name_or_path: str) -> LayeredFile:
    shipped = SHIPPED / f"{name_or_path}.toml"
    # a plain name first means a shipped scenario; a path with folders never does
    path = shipped if Path(name_or_path).name == name_or_path and is_regular(shipped) else Path(name_or_path)
    if not is_regular(path):
        raise ConfigError(
            f"unknown world {shown(name_or_path)}; give a TOML file, a scenario, or one of: {', '.join(WORLDS)}"
        )
    return read_layers(path, {one.stem: one for one in SHIPPED.glob("*.toml")})


def _edit(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    if key != "seed" and parents[:1] != ["world"]:
        raise ConfigError(f"{key} does not change a recording; set seed or a field of world, such as world.{last}")
    table: Any = tree
    for part in parents:
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{key} is not a known field; {'.'.join(parents)} holds no fields")
    table[last] = value


def _world(tree: Mapping[str, Any], source: str) -> WorldFile:
    if not isinstance(tree.get("world"), Mapping):
        raise ConfigError(f'{source} describes no world; add a table [world], such as kind = "street"')
    try:
        tables = _Tables.model_validate({name: tree[name] for name in _Tables.model_fields if name in tree})
    except pydantic.ValidationError as error:
        raise ScenarioError([one_sentence(error, _Tables)]) from None
    return WorldFile(tables.world, tables.seed)
