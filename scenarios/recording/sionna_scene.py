"""Paths of a street that Sionna RT finds: `world.radio_engine = "sionna"`, the extra `sionna`.

Vehicles are metal, people skin at 60 GHz. Paths have up to two reflections and no diffraction. The user sends, so that
arrivals are those at the base station. Sionna does not repeat itself bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.ray_paths.path_layout import MOST_PATHS
from ...emulator.contracts import ConfigError
from ...emulator.world.scene import Kind, Scene
from .recorded_site import RecordedSite

#: Series of `write_paths`.
Series = dict[str, NDArray[Any]]

N_RAYS, MOST_REFLECTIONS, SEED = 10_000, 2, 1
#: Relative permittivity and conductivity (S/m) of dry skin at 60 GHz. Source: Gabriel et al. 1996, Cole-Cole fit.
SKIN = 7.98, 36.4
THICKNESS_M, GROUND_SIDE_M = 0.1, 400.0
#: Boxes that are not there wait below the ground.
PARKED_M = (0.0, 0.0, -1000.0)
#: LLVM 15 and 16 of Debian compile a kernel of Sionna RT 2.2.0 by ending the process; 19 and 22 work.
OLDEST_LLVM = (19,)
_OTHERWISE = "or set world.radio_engine = 'rays'"


def sionna_version() -> str:
    """Version of the package sionna-rt, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return version("sionna-rt")
    except PackageNotFoundError:
        raise ConfigError(
            "world.radio_engine = 'sionna' needs sionna-rt, which is not installed; pip install 'sheafedge[sionna]',"
            f" {_OTHERWISE}"
        ) from None


def checked_sionna() -> None:
    """Refuse a machine on which Sionna RT cannot trace.

    Raises:
        ConfigError: it is not installed, there is no LLVM, or an old one.
    """
    sionna_version()
    remedy = "install libllvm19 and set DRJIT_LIBLLVM_PATH to its libLLVM-19.so"
    try:
        import drjit
        import mitsuba
        import sionna.rt  # noqa: F401 - chooses the GPU, or else LLVM
    except ImportError as error:
        raise ConfigError(
            f"world.radio_engine = 'sionna' cannot load Sionna RT ({str(error).rstrip('!. ')}); without a GPU it needs"
            f" LLVM {OLDEST_LLVM[0]} or later: {remedy}, {_OTHERWISE}"
        ) from None
    if mitsuba.variant().startswith("llvm") and (found := tuple(drjit.detail.llvm_version())) < OLDEST_LLVM:
        raise ConfigError(
            f"world.radio_engine = 'sionna' needs LLVM {OLDEST_LLVM[0]} or later without a GPU, found"
            f" {'.'.join(map(str, found))}; {remedy}, {_OTHERWISE}"
        )


def neutral_series(paths: Any, carrier_hz: float) -> Series:
    """Series of one instant out of a `sionna.rt.Paths` with one transmitter, one receiver and one antenna each.

    Sionna's amplitudes lack the phase of the way, which files of paths have.

    Args:
        paths: what `sionna.rt.PathSolver` answers.
        carrier_hz: frequency of the scene.

    Returns:
        Flat series [P] of `write_paths`, strongest path first.
    """
    real, imaginary = (np.array(part, dtype=np.float64).reshape(-1) for part in paths.a)
    delay_s = np.array(paths.tau, dtype=np.float64).reshape(-1)
    there = np.flatnonzero(np.array(paths.valid, dtype=bool).reshape(-1) & (delay_s > 0.0))
    there = there[np.argsort(-np.hypot(real, imaginary)[there], kind="stable")][:MOST_PATHS]
    bounces = np.array(paths.interactions)
    bounces = bounces.reshape(len(bounces), -1) if len(bounces) else np.zeros((1, len(delay_s)), dtype=int)
    angles = {
        name: np.array(getattr(paths, theirs), dtype=np.float64).reshape(-1)[there]
        for name, theirs in {
            "arrival_zenith_rad": "theta_r",
            "arrival_azimuth_rad": "phi_r",
            "departure_zenith_rad": "theta_t",
            "departure_azimuth_rad": "phi_t",
            "doppler_hz": "doppler",
        }.items()
    }
    turns = np.mod(carrier_hz * delay_s[there], 1.0)
    return {
        "gain": (real + 1j * imaginary)[there] * np.exp(-2j * np.pi * turns),
        "delay_s": delay_s[there],
        "interactions": (bounces[:, there] != 0).sum(axis=0),
        **angles,
    }


class SionnaScene:
    """A street as a scene of Sionna RT: ground, walls, and a fixed pool of boxes that move from instant to instant.

    Args:
        scene: F instants of a street with a standing user, without trees.
        carrier_hz: carrier frequency.
    """

    def __init__(self, scene: Scene, carrier_hz: float) -> None:
        import mitsuba
        from sionna import rt

        self._mitsuba, self._rt, self._street, self._carrier_hz = mitsuba, rt, scene, carrier_hz
        self._solver, self._traced = rt.PathSolver(), rt.load_scene()
        self._traced.frequency = carrier_hz
        self._traced.tx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
        self._traced.rx_array = self._traced.tx_array
        around = scene.surroundings
        self._itu = {
            name: rt.ITURadioMaterial(f"itu-{name}", name, thickness=THICKNESS_M)
            for name in sorted({"metal", around.ground_material, *(wall.material for wall in around.facades)})
        }
        self._build_ground_and_walls()
        skin = rt.RadioMaterial("skin", relative_permittivity=SKIN[0], conductivity=SKIN[1], thickness=THICKNESS_M)
        self._is_person = scene.kind == Kind.PEDESTRIAN
        self._people = self._pool("person", scene.present & self._is_person, skin)
        self._vehicles = self._pool("vehicle", scene.present & ~self._is_person, self._itu["metal"])
        self._traced.add(rt.Receiver("station", mitsuba.Point3f(*scene.base_station_m.tolist())))
        self._traced.add(rt.Transmitter("user", mitsuba.Point3f(*scene.user_m[0].tolist())))

    def paths(self, row: int) -> Series:
        """Paths at one of the instants, as of `neutral_series`."""
        scene = self._street
        people, vehicles = iter(self._people), iter(self._vehicles)
        for box in np.flatnonzero(scene.present[row]).tolist():
            made = next(people if self._is_person[row, box] else vehicles)
            self._place(made, scene.center_m[row, box].tolist(), scene.size_m[row, box].tolist())
            made.velocity = self._mitsuba.Vector3f(*scene.velocity_m_per_s[row, box].tolist())
        for left in (*people, *vehicles):
            self._place(left, PARKED_M, (1.0, 1.0, 1.0))
        self._traced.transmitters["user"].position = self._mitsuba.Point3f(*scene.user_m[row].tolist())
        found = self._solver(
            self._traced,
            max_depth=MOST_REFLECTIONS,
            samples_per_src=N_RAYS,
            refraction=False,
            synthetic_array=True,
            seed=SEED,
        )
        return neutral_series(found, self._carrier_hz)

    def _build_ground_and_walls(self) -> None:
        around, thick_m = self._street.surroundings, THICKNESS_M
        ground_m = (GROUND_SIDE_M, GROUND_SIDE_M, thick_m)
        self._cube("ground", (0.0, 0.0, -thick_m / 2.0), ground_m, self._itu[around.ground_material])
        for index, wall in enumerate(around.facades):
            behind_m = thick_m / 2.0 if wall.y_m > self._street.base_station_m[1] else -thick_m / 2.0
            center_m = (wall.x_min_m + wall.x_max_m) / 2.0, wall.y_m + behind_m, wall.height_m / 2.0
            size_m = wall.x_max_m - wall.x_min_m, thick_m, wall.height_m
            self._cube(f"wall-{index}", center_m, size_m, self._itu[wall.material])

    def _pool(self, name: str, present: NDArray[np.bool_], material: Any) -> list[Any]:
        """As many boxes as there are at once."""
        n_boxes = int(present.sum(axis=1).max(initial=0))
        return [self._cube(f"{name}-{index}", PARKED_M, (1.0, 1.0, 1.0), material) for index in range(n_boxes)]

    def _cube(self, name: str, center_m: Sequence[float], size_m: Sequence[float], material: Any) -> Any:
        mesh = self._mitsuba.load_dict({"type": "cube"})
        made = self._rt.SceneObject(mi_mesh=mesh, name=name, radio_material=material)
        self._traced.edit(add=made)
        self._place(made, center_m, size_m)
        return made

    def _place(self, made: Any, center_m: Sequence[float], size_m: Sequence[float]) -> None:
        made.scaling = self._mitsuba.Vector3f(*(side_m / 2.0 for side_m in size_m))  # the cube reaches from -1 to 1
        made.position = self._mitsuba.Point3f(*center_m)


def sionna_series(site: RecordedSite, advanced: Callable[[int], None]) -> Series:
    """Paths of one base station at all instants of its world, as `write_paths` takes them.

    Args:
        site: base station of a street with a standing user.
        advanced: called with 1 after every instant.
    """
    time_s = site.instants(np.arange(site.file.section.n_ticks))[1]
    scene = site.scene(time_s)
    traced = SionnaScene(scene, site.channel.carrier_hz)
    tables = []
    for row in range(len(time_s)):
        tables.append(traced.paths(row))
        advanced(1)
    return {
        "time_s": time_s,
        "user_m": scene.user_m,
        "offset": np.concatenate([[0], np.cumsum([len(table["gain"]) for table in tables])]),
        **{name: np.concatenate([table[name] for table in tables]) for name in tables[0]},
    }
