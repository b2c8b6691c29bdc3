"""Image method: reflected paths from the user to the base station over flat surfaces.

A straight line from the image of the user behind a surface to the base station crosses the surface at the reflection
point; without a crossing there is no path. What a surface reflects follows from the permittivity of its material.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..world.scene import Kind, Scene
from .tables import table
from .waves import VACUUM_PERMITTIVITY_F_PER_M, Array, wavelength_m

Complex = NDArray[np.complex128]
Mask = NDArray[np.bool_]

X, Y, Z = 0, 1, 2
MIRRORING_KINDS = (Kind.CAR, Kind.VAN, Kind.BUS)
NO_BOX = -1


class PathKind(IntEnum):
    """Reflecting surfaces of a path."""

    LOS = 0
    GROUND = 1
    FACADE = 2
    DOUBLE_FACADE = 3
    VEHICLE = 4
    FACADE_GROUND = 5
    VEHICLE_GROUND = 6
    FACADE_VEHICLE = 7


#: Kinds of paths that meet the ground once, so that boxes and their images in it block them.
OVER_GROUND = (PathKind.GROUND, PathKind.FACADE_GROUND, PathKind.VEHICLE_GROUND)


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """P possible paths of one kind, some of which exist in a frame.

    Attributes:
        kind: kind of all of them.
        valid: [F, P] bool, the path exists.
        image_m: [F, P, 3] image of the user as observed from the base station.
        hits_m: [n_bounces] arrays [F, P, 3], reflection points, from the base station on; undefined where not valid.
        reflection: [F, P] product of the reflection coefficients.
        mirror_box: [P] int64 box slot that reflects, or `NO_BOX`.
        mirror_legs: legs of the path that touch that box, or cannot meet it otherwise; it blocks none of them.
        axes: [n_bounces] normal X, Y or Z of the surface of each reflection, from the base station on.
        moving_bounce: which of the reflections is that box's; -1: none.
    """

    kind: PathKind
    valid: Mask
    image_m: Array
    hits_m: tuple[Array, ...]
    reflection: Complex
    mirror_box: NDArray[np.int64]
    mirror_legs: tuple[int, ...] = (0, 1)
    axes: tuple[int, ...] = ()
    moving_bounce: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Mirrors:
    """S flat surfaces across one axis.

    Attributes:
        axis: X, Y or Z: their normal.
        plane_m: [F, S] coordinate of the surface on this axis.
        side: [F, S] +1 or -1: reflecting side of the plane.
        lower_m, upper_m: [F, S, 3] extent; the entry of their own axis is ignored.
    """

    axis: int
    plane_m: Array
    side: Array
    lower_m: Array
    upper_m: Array


@dataclass(frozen=True, slots=True, eq=False)
class Bounce:
    """Result of one reflection: [F, S] each, [F, S, 3] for points."""

    valid: Mask
    image_m: Array
    hit_m: Array
    cos_incidence: Array


@dataclass(frozen=True, slots=True)
class Surfaces:
    """Settings of the reflecting surfaces.

    Attributes:
        carrier_hz: sets permittivities and roughness.
        ground_roughness_m, facade_roughness_m: standard deviations of the surfaces' heights.
        double_facade: follow two facades in a row.
        vehicle_sides: follow the four upright faces of cars, vans and buses.
        vehicle_loss_db: loss of these reflections against those of a flat metal mirror.
    """

    carrier_hz: float
    ground_roughness_m: float
    facade_roughness_m: float
    double_facade: bool
    vehicle_sides: bool
    vehicle_loss_db: float


def bounced(observer_m: Array, source_m: Array, mirrors: Mirrors) -> Bounce:
    """Reflections of a source in mirrors, for an observer.

    Args:
        observer_m, source_m: [F or 1, S or 1, 3].
        mirrors: S of them.
    """
    axis, plane, side = mirrors.axis, mirrors.plane_m, mirrors.side
    observer_off, source_off = side * (observer_m[..., axis] - plane), side * (source_m[..., axis] - plane)
    valid = (observer_off > 0.0) & (source_off > 0.0)
    image = np.broadcast_to(source_m, (*plane.shape, 3)).copy()
    image[..., axis] = 2.0 * plane - image[..., axis]
    across = image - observer_m
    # The line crosses the plane where the distances to it are in this ratio; 0 / 1 where there is no crossing.
    share = np.where(valid, observer_off, 0.0) / np.where(valid, observer_off + source_off, 1.0)
    hit = observer_m + share[..., None] * across
    for other in {X, Y, Z} - {axis}:
        valid &= (mirrors.lower_m[..., other] <= hit[..., other]) & (hit[..., other] <= mirrors.upper_m[..., other])
    length = np.sqrt((across**2).sum(axis=-1))
    return Bounce(valid, image, hit, np.abs(across[..., axis]) / np.maximum(length, 1e-12))


def candidate_images(scene: Scene, surfaces: Surfaces) -> Iterator[Images]:
    """Every path that may exist, kind by kind in a fixed order; the first is the line of sight."""
    n_frames = len(scene)
    user, station = scene.user_m[:, None], scene.base_station_m
    yield Images(PathKind.LOS, np.ones((n_frames, 1), bool), user, (), np.ones((n_frames, 1), complex), _no_boxes(1))
    yield _ground_image(scene, surfaces, station, user)
    if scene.surroundings.facades:
        yield _facade_images(scene, surfaces, station, user)
    if surfaces.double_facade and len(scene.surroundings.facades) > 1:
        yield _double_facade_images(scene, surfaces, station, user)
    if surfaces.vehicle_sides and scene.present.shape[1]:
        yield from (_vehicle_images(scene, surfaces, station, user, axis) for axis in (X, Y))


def _ground_image(scene: Scene, surfaces: Surfaces, station_m: Array, user_m: Array) -> Images:
    everywhere = np.full((1, 1, 3), np.inf)
    ground = Mirrors(Z, np.zeros((len(scene), 1)), np.ones((len(scene), 1)), -everywhere, everywhere)
    bounce = bounced(station_m, user_m, ground)
    reflection = ground_reflection(scene, surfaces, bounce.cos_incidence)
    return Images(PathKind.GROUND, bounce.valid, bounce.image_m, (bounce.hit_m,), reflection, _no_boxes(1), axes=(Z,))


def ground_reflection(scene: Scene, surfaces: Surfaces, cos_incidence: Array) -> Complex:
    """[...] coefficients: vertical polarization lies in the plane of ray and normal of the ground, hence TM."""
    permittivity = complex_permittivity(scene.surroundings.ground_material, surfaces.carrier_hz)
    reflection = reflection_tm(permittivity, cos_incidence)
    return reflection * roughness_factor(surfaces.ground_roughness_m, cos_incidence, surfaces.carrier_hz)


def facade_mirrors(scene: Scene, indices: list[int], seen_from_y_m: Array) -> Mirrors:
    """Facades as mirrors that reflect towards y positions `seen_from_y_m` [S] or [F, S]."""
    facades = [scene.surroundings.facades[index] for index in indices]
    plane = np.array([facade.y_m for facade in facades])
    lower = np.array([[facade.x_min_m, -np.inf, 0.0] for facade in facades])
    upper = np.array([[facade.x_max_m, np.inf, facade.height_m] for facade in facades])
    shape = (len(scene), len(facades))
    side = np.where(seen_from_y_m >= plane, 1.0, -1.0)
    return Mirrors(Y, np.broadcast_to(plane, shape), np.broadcast_to(side, shape), lower, upper)


def facade_reflection(scene: Scene, surfaces: Surfaces, indices: list[int], cos_incidence: Array) -> Complex:
    """[F, S] coefficients: vertical polarization lies along an upright wall."""
    carrier_hz = surfaces.carrier_hz
    reflection = np.empty(cos_incidence.shape, dtype=np.complex128)
    for column, index in enumerate(indices):
        permittivity = complex_permittivity(scene.surroundings.facades[index].material, carrier_hz)
        reflection[:, column] = reflection_te(permittivity, cos_incidence[:, column])
    return reflection * roughness_factor(surfaces.facade_roughness_m, cos_incidence, carrier_hz)


def _facade_images(scene: Scene, surfaces: Surfaces, station_m: Array, user_m: Array) -> Images:
    indices = list(range(len(scene.surroundings.facades)))
    bounce = bounced(station_m, user_m, facade_mirrors(scene, indices, station_m[Y]))
    reflection = facade_reflection(scene, surfaces, indices, bounce.cos_incidence)
    hits_m, no_boxes = (bounce.hit_m,), _no_boxes(len(indices))
    return Images(PathKind.FACADE, bounce.valid, bounce.image_m, hits_m, reflection, no_boxes, axes=(Y,))


def _double_facade_images(scene: Scene, surfaces: Surfaces, station_m: Array, user_m: Array) -> Images:
    """Pairs of facades, the one nearer to the base station along the path first."""
    facades = scene.surroundings.facades
    # Both orders, since they are two paths; walls in one plane do not face each other.
    pairs = [pair for pair in permutations(range(len(facades)), 2) if facades[pair[0]].y_m != facades[pair[1]].y_m]
    near, far = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    near_y = np.array([facades[index].y_m for index in near])
    far_mirrors = facade_mirrors(scene, far, near_y)
    # The image of an image: the user is mirrored first in the surface that the path meets last.
    behind_far = np.repeat(user_m, len(pairs), axis=1)
    behind_far[..., Y] = 2.0 * far_mirrors.plane_m - behind_far[..., Y]
    first = bounced(station_m, behind_far, facade_mirrors(scene, near, station_m[Y]))
    second = bounced(first.hit_m, user_m, far_mirrors)
    reflection = facade_reflection(scene, surfaces, near, first.cos_incidence)
    reflection *= facade_reflection(scene, surfaces, far, second.cos_incidence)
    return Images(
        PathKind.DOUBLE_FACADE,
        first.valid & second.valid,
        first.image_m,
        (first.hit_m, second.hit_m),
        reflection,
        _no_boxes(len(pairs)),
        axes=(Y, Y),
    )


def _vehicle_images(scene: Scene, surfaces: Surfaces, station_m: Array, user_m: Array, axis: int) -> Images:
    """Paths over the vehicle faces across this axis that face the base station."""
    faces, stand = vehicle_mirrors(scene, station_m, axis)
    bounce = bounced(station_m, user_m, faces)
    reflection = vehicle_reflection(surfaces, bounce.cos_incidence)
    slots = np.arange(stand.shape[1], dtype=np.int64)
    return Images(
        PathKind.VEHICLE,
        bounce.valid & stand,
        bounce.image_m,
        (bounce.hit_m,),
        reflection,
        slots,
        axes=(axis,),
        moving_bounce=0,
    )


def vehicle_mirrors(scene: Scene, seen_from_m: Array, axis: int) -> tuple[Mirrors, Mask]:
    """Faces across an axis of all boxes, turned towards a point [..., 3], and [F, B] which boxes have any."""
    # Not the target, which carries the antenna itself.
    stand = scene.present & np.isin(scene.kind, MIRRORING_KINDS)
    center = np.where(stand[..., None], scene.center_m, 0.0)
    half = np.where(stand[..., None], 0.5 * scene.size_m, 0.0)
    # Of two opposite faces only the one towards a point can reflect to it.
    side = np.where(seen_from_m[..., axis] >= center[..., axis], 1.0, -1.0)
    return Mirrors(axis, center[..., axis] + side * half[..., axis], side, center - half, center + half), stand


def vehicle_reflection(surfaces: Surfaces, cos_incidence: Array) -> Complex:
    """[...] coefficients of bodywork: metal, with the loss of its curves."""
    reflection = reflection_te(complex_permittivity("metal", surfaces.carrier_hz), cos_incidence)
    reflection *= 10.0 ** (-surfaces.vehicle_loss_db / 20.0)
    return reflection


def _no_boxes(n_paths: int) -> NDArray[np.int64]:
    return np.full(n_paths, NO_BOX, dtype=np.int64)


def complex_permittivity(material: str, carrier_hz: float) -> complex:
    """Relative permittivity eps_r - j sigma / (2 pi f eps_0) of a material.

    Args:
        material: a row of `tables/materials.csv`.
        carrier_hz: inside the range that the material is specified for.

    Raises:
        ConfigError: an unknown material, or a carrier outside its range.

    Source: Recommendation ITU-R P.2040-1, Table 3.
    """
    constants = table("materials")
    if material not in constants.labels:
        raise ConfigError(f"unknown material {material!r}; known: {', '.join(sorted(constants.labels))}")
    row = constants.row(material)
    f_ghz = carrier_hz / 1e9
    if not row["lowest_ghz"] <= f_ghz <= row["highest_ghz"]:
        fitting = (constants["lowest_ghz"] <= f_ghz) & (f_ghz <= constants["highest_ghz"])
        names = ", ".join(name for name, fits in zip(constants.labels, fitting, strict=True) if fits) or "none"
        raise ConfigError(
            f"material {material!r} is specified from {row['lowest_ghz']:g} to {row['highest_ghz']:g} GHz, "
            f"got a carrier of {f_ghz:g} GHz; specified there: {names}"
        )
    # ITU-R P.2040-1: eps_r = a f^b and sigma = c f^d, with f in GHz.
    conductivity_s_per_m = row["c"] * f_ghz ** row["d"]
    lossy = conductivity_s_per_m / (2 * np.pi * carrier_hz * VACUUM_PERMITTIVITY_F_PER_M)
    return complex(row["a"] * f_ghz ** row["b"], -lossy)


def reflection_te(permittivity: complex, cos_incidence: Any) -> Complex:
    """Fresnel coefficient for an electric field along the surface: [...] cosine between ray and normal -> [...].

    Source: Recommendation ITU-R P.2040-1, Fresnel coefficient R_TE for a wave that comes from air.
    """
    cosine, root = _cosine_and_root(permittivity, cos_incidence)
    return np.asarray((cosine - root) / (cosine + root))


def reflection_tm(permittivity: complex, cos_incidence: Any) -> Complex:
    """Fresnel coefficient for an electric field in the plane of ray and normal: [...] cosine -> [...].

    Source: Recommendation ITU-R P.2040-1, Fresnel coefficient R_TM for a wave that comes from air.
    """
    cosine, root = _cosine_and_root(permittivity, cos_incidence)
    return np.asarray((permittivity * cosine - root) / (permittivity * cosine + root))


def roughness_factor(roughness_m: float, cos_incidence: Any, carrier_hz: float) -> NDArray[np.float64]:
    """Amplitude factor of the reflection from a rough surface: e^(-8 (pi sigma cos / wavelength)^2).

    Args:
        roughness_m: standard deviation of the surface's height.
        cos_incidence: [...] cosine between ray and normal.
        carrier_hz: sets the wavelength.

    Returns:
        [...] in (0, 1]; scattered power is neglected.

    Source: Ament's factor, as in Rappaport, Wireless Communications, section 4.8.
    """
    phase = np.pi * roughness_m / wavelength_m(carrier_hz) * np.asarray(cos_incidence, dtype=np.float64)
    return np.asarray(np.exp(-8.0 * phase**2))


def _cosine_and_root(permittivity: complex, cos_incidence: Any) -> tuple[NDArray[np.float64], Complex]:
    cosine = np.asarray(cos_incidence, dtype=np.float64)
    return cosine, np.sqrt(permittivity - (1.0 - cosine**2))
