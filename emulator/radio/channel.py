"""Few-ray channel between a user and a base station, from the scene that all sensors share.

Line of sight, ground, facades and the sides of vehicles, each with its length, direction, reflection and blockage.
The channel is deterministic: phases follow from path lengths. Antennas are vertically polarized, so walls and vehicles
reflect as TE and the ground as TM, which is exact for horizontal paths and a good approximation for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError, DataError
from ..world.planting import without_trees
from ..world.scene import Scene
from ..world.trees import NO_TREES
from .bounce_pairs import pair_images
from .box_fields import segments_field
from .doppler import doppler_hz
from .foliage import depth_in_crowns_m, foliage_db
from .images import NO_BOX, OVER_GROUND, Images, Surfaces, candidate_images
from .model_b import segments_loss_db
from .pathloss import oxygen_db
from .segments import BlockageModel, PathSegments
from .waves import SPEED_OF_LIGHT_M_PER_S, Array, wavelength_m
from .weather_loss import weather_db

Complex = NDArray[np.complex128]
Mask = NDArray[np.bool_]
#: Fields past boxes are not smaller, so that their losses in dB are finite.
SMALLEST_FIELD = 1e-15


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of the path search.

    Attributes:
        carrier_hz: carrier frequency; all materials of the scene must be specified there.
        blockage: "fresnel", complex Fresnel integrals past the edges of boxes (`box_fields.py`); "3gpp_b", losses by
            the arctangents of the standard (`model_b.py`), without ripples and phases.
        orientation_deg: direction of the array's broadside, clockwise from +y seen from above.
        double_facade: follow paths over two facades.
        bounce_pairs: follow paths over two different surfaces: ground and facade, ground and vehicle, facade and
            vehicle.
        vehicle_sides: follow paths over the upright faces of cars, vans and buses.
        vehicle_loss_db: loss of such a path against a flat metal mirror, because bodywork is curved and uneven.
        ground_roughness_m, facade_roughness_m: standard deviation of the surfaces' heights; asphalt has 0.3 to 1 mm.
        oxygen: include its absorption, 0.2 dB at 12 m and 60 GHz.

    Raises:
        ConfigError: a value outside its range.

    Source: vehicle loss, pi r^2 / sigma: a mirror half way of a path of length 2 r against a body with radar
    cross-section sigma. That is 10 dB for r = 6 m and the 11 m^2 or so that radars find for cars; our choice for all
    vehicles.
    """

    carrier_hz: float = 60e9
    blockage: BlockageModel = "fresnel"
    orientation_deg: float = 0.0
    double_facade: bool = False
    bounce_pairs: bool = True
    vehicle_sides: bool = True
    vehicle_loss_db: float = 10.0
    ground_roughness_m: float = 0.5e-3
    facade_roughness_m: float = 0.0
    oxygen: bool = True

    def __post_init__(self) -> None:
        if self.blockage not in get_args(BlockageModel):
            raise ConfigError(
                f"channel.blockage must be one of {', '.join(get_args(BlockageModel))}, got {self.blockage!r}"
            )
        for name, low, high in (
            ("carrier_hz", 1e9, 100e9),
            ("orientation_deg", -360.0, 360.0),
            ("vehicle_loss_db", 0.0, 100.0),
            ("ground_roughness_m", 0.0, 0.1),
            ("facade_roughness_m", 0.0, 0.1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"channel.{name} must lie in [{low:g}, {high:g}], got {value}")


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """F channels of P possible paths, always in the same columns.

    Attributes:
        carrier_hz: their frequency, the middle of the band.
        kind: [P] uint8 of `PathKind`; column 0 is the line of sight.
        valid: [F, P] bool, the path exists and arrives in front of the array.
        gain: [F, P] complex amplitude between isotropic antennas, 0 where not valid.
        delay_s: [F, P] time of flight.
        azimuth_rad: [F, P] azimuth of arrival from the broadside of the array, positive towards +x.
        direction_sine: [F, P] sine of the angle off the array's broadside, sin(azimuth) cos(elevation).
        blockage_db: [F, P] blockage loss by boxes, 0 where not valid; below 0 in ripples of "fresnel".
        doppler_hz: [F, P] Doppler shift, 0 where not valid; gains turn by 2 pi of it per second.
    """

    carrier_hz: float
    kind: NDArray[np.uint8]
    valid: Mask
    gain: Complex
    delay_s: Array
    azimuth_rad: Array
    direction_sine: Array
    blockage_db: Array
    doppler_hz: Array

    @property
    def los_blockage_db(self) -> Array:
        """[F] blockage loss of the line of sight, from which the geometric label is made."""
        return self.blockage_db[:, 0]


def trace_paths(scene: Scene, settings: ChannelSettings | None = None) -> Paths:
    """All paths of a scene.

    Raises:
        ConfigError: a material of the scene is unknown or not specified at this carrier.
        DataError: the user stands within a wavelength of the base station.

    Source: image method; w / (4 pi r) * reflection * blockage * e^(-j 2 pi r / w), w the wavelength and blockage a
    complex factor, the field past the boxes.
    """
    settings = settings or ChannelSettings()
    # nothing reflects in leaves, and trunks are too thin
    mirroring = without_trees(scene)
    images = list(candidate_images(mirroring, _surfaces(settings)))
    if settings.bounce_pairs:
        images += pair_images(mirroring, _surfaces(settings))
    valid = np.concatenate([group.valid for group in images], axis=1)
    image_m = np.concatenate([group.image_m for group in images], axis=1)
    across = image_m - scene.base_station_m
    # The image method unfolds a path: its length is the straight distance to the last image.
    length_m = np.sqrt((across**2).sum(axis=-1))
    _check_apart(scene, length_m[:, 0], settings.carrier_hz)
    length_m = np.where(valid, length_m, 1.0)  # any length above 0 where there is no path

    sideways, ahead = in_array_frame(across, settings.orientation_deg)
    valid &= ahead > 0.0
    legs = _legs(scene, images, valid, length_m)
    blockage_db, turn = _blockage(scene, legs, valid, settings)
    loss_db = blockage_db + oxygen_db(length_m, settings.carrier_hz) if settings.oxygen else blockage_db
    loss_db = loss_db + weather_db(length_m, settings.carrier_hz, scene.surroundings.weather)
    if scene.surroundings.trees != NO_TREES:
        loss_db = loss_db + _foliage_db(scene, legs, valid)
    waves = length_m / wavelength_m(settings.carrier_hz)
    amplitude = 10.0 ** (-loss_db / 20.0) / (4.0 * np.pi * waves)
    reflection = np.concatenate([group.reflection for group in images], axis=1)
    return Paths(
        carrier_hz=settings.carrier_hz,
        kind=np.concatenate([np.full(group.valid.shape[1], group.kind, dtype=np.uint8) for group in images]),
        valid=valid,
        gain=np.where(valid, amplitude * reflection * np.exp(-2j * np.pi * waves) * turn, 0.0),
        delay_s=length_m / SPEED_OF_LIGHT_M_PER_S,
        azimuth_rad=np.arctan2(sideways, ahead),
        direction_sine=np.where(valid, sideways / length_m, 0.0),
        blockage_db=blockage_db,
        doppler_hz=doppler_hz(scene, images, valid, settings.carrier_hz),
    )


def _surfaces(settings: ChannelSettings) -> Surfaces:
    return Surfaces(
        carrier_hz=settings.carrier_hz,
        ground_roughness_m=settings.ground_roughness_m,
        facade_roughness_m=settings.facade_roughness_m,
        double_facade=settings.double_facade,
        vehicle_sides=settings.vehicle_sides,
        vehicle_loss_db=settings.vehicle_loss_db,
    )


def _check_apart(scene: Scene, length_m: Array, carrier_hz: float) -> None:
    # Nearer than that the law of the far field does not hold.
    too_near = ~(length_m > wavelength_m(carrier_hz))  # NaN is too near as well
    if too_near.any():
        frame = int(too_near.argmax())
        raise DataError(
            f"scene.user_m in frame {frame} is {scene.user_m[frame]}, within a wavelength of the base station at "
            f"{scene.base_station_m}; move one of them"
        )


def in_array_frame(across_m: Array, orientation_deg: float) -> tuple[Array, Array]:
    """[...] components of vectors [..., 3] along the array, and along its broadside."""
    turn_rad = np.radians(orientation_deg)
    sine, cosine = np.sin(turn_rad), np.cos(turn_rad)
    x_m, y_m = across_m[..., 0], across_m[..., 1]
    return x_m * cosine - y_m * sine, x_m * sine + y_m * cosine


def _blockage(
    scene: Scene, legs: list[PathSegments], valid: Mask, settings: ChannelSettings
) -> tuple[Array, Complex | float]:
    """Blockage by all boxes: [F, P] loss in dB, and [F, P] what it turns phases by, a factor of size 1.

    A box near a reflection point is close to two pieces of the path. It blocks the path once, on the piece where it
    changes the level most.
    """
    row = np.cumsum(valid).reshape(valid.shape) - 1  # few of the possible paths exist
    shape = (int(valid.sum()), scene.present.shape[1])
    if settings.blockage == "3gpp_b":
        blockage_db, loss_db = np.zeros(valid.shape), np.zeros(shape)
        for segments in legs:
            rows = row[segments.frame, segments.path]
            loss_db[rows] = np.maximum(loss_db[rows], segments_loss_db(segments, scene, settings.carrier_hz))
        blockage_db[valid] = loss_db.sum(axis=-1)
        return blockage_db, 1.0
    field = np.ones(shape, dtype=np.complex128)
    for segments in legs:
        rows = row[segments.frame, segments.path]
        found, before = segments_field(segments, scene, settings.carrier_hz), field[rows]
        field[rows] = np.where(_level(found) > _level(before), found, before)
    total = np.ones(valid.shape, dtype=np.complex128)
    total[valid] = field.prod(axis=-1)
    size = np.maximum(np.abs(total), SMALLEST_FIELD)
    return 20.0 * np.log10(1.0 / size), total / size


def _foliage_db(scene: Scene, legs: list[PathSegments], valid: Mask) -> Array:
    """[F, P] loss in the leaves of all trees that a path runs through."""
    depth_m = np.zeros(valid.shape)
    for segments in legs:
        depth_m[segments.frame, segments.path] += depth_in_crowns_m(scene, segments)
    return foliage_db(depth_m, scene.surroundings.trees)


def _level(field: Complex) -> Array:
    """[...] how far the level lies off that of free space, up or down."""
    return np.asarray(np.abs(np.log(np.maximum(np.abs(field), SMALLEST_FIELD))))


def _legs(scene: Scene, images: list[Images], valid: Mask, length_m: Array) -> list[PathSegments]:
    """First, second and third legs of all valid paths, from the base station on."""
    legs: dict[int, list[PathSegments]] = {}
    first_column = 0
    for group in images:
        for leg, segments in enumerate(_group_legs(scene, group, first_column, valid, length_m)):
            legs.setdefault(leg, []).append(segments)
        first_column += group.valid.shape[1]
    # Most groups have few paths: joined they take a third of the time.
    return [PathSegments.joined(legs[leg]) for leg in sorted(legs)]


def _group_legs(scene: Scene, group: Images, first_column: int, valid: Mask, length_m: Array) -> Iterator[PathSegments]:
    """Legs of the valid paths of one group, whose columns begin at `first_column`."""
    columns = slice(first_column, first_column + group.valid.shape[1])
    frame, column = np.nonzero(valid[:, columns])
    if not len(frame):
        return
    total_m = length_m[:, columns][frame, column, None]
    station = np.broadcast_to(scene.base_station_m, (len(frame), 3))
    points = [station, *(hit[frame, column] for hit in group.hits_m), scene.user_m[frame]]
    before_m = np.zeros((len(frame), 1))
    for leg, (start, end) in enumerate(pairwise(points)):
        piece_m = np.sqrt(((end - start) ** 2).sum(axis=-1, keepdims=True))
        # Two reflections in one point, a corner, have no leg between them.
        along = (end - start) / np.maximum(piece_m, 1e-12)
        # The detour over an edge belongs to the whole unfolded path, not to the piece between two reflections.
        unfolded_start = start - along * before_m
        yield PathSegments(
            frame=frame,
            path=column + first_column,
            start_m=unfolded_start,
            end_m=unfolded_start + along * total_m,
            first=(before_m / total_m)[:, 0],
            last=((before_m + piece_m) / total_m)[:, 0],
            mirror_box=group.mirror_box[column] if leg in group.mirror_legs else np.full(len(frame), NO_BOX),
            over_ground=np.full(len(frame), group.kind in OVER_GROUND),
        )
        before_m = before_m + piece_m
