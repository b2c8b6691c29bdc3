"""Paths of Sionna RT through a world of the emulator, as the file that `sheafedge import paths` reads.

    pip install sionna-rt        # its CPU backend needs LLVM 19 or later: set DRJIT_LIBLLVM_PATH to libLLVM.so
    python examples/sionna_paths.py street.toml paths.h5 --every 5

`neutral` converts a `sionna.rt.Paths` of any scene; the rest builds the scene of a world: ground, walls, and a fixed
pool of boxes that move from instant to instant. Vehicles are metal, people skin at 60 GHz; trees and weather
are left out. Paths have up to two reflections and no diffraction. The user sends, so that arrivals are those at the
base station.
"""

import argparse
import sys

import numpy as np
from sheafedge import write_paths
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.schema.world_section import load_world

#: Relative permittivity and conductivity (S/m) of dry skin at 60 GHz. Source: Gabriel et al. 1996, Cole-Cole fit.
SKIN = 7.98, 36.4
PEDESTRIAN, VEHICLES, MOST_PATHS = 4, (1, 2, 3, 5), 128
PARKED_M = (0.0, 0.0, -1000.0)  # boxes that are not there wait below the ground


def neutral(paths, carrier_hz):
    """Series of one instant out of a `sionna.rt.Paths` with one transmitter, one receiver and one antenna each.

    Sionna's amplitudes lack the phase of the way, which the neutral file has.
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


class SionnaStreet:
    """A site as a Sionna scene, whose boxes are moved from one instant to the next."""

    def __init__(self, site, scene, n_rays):
        import mitsuba as mi  # noqa: PLC0415 - `neutral` is of use without it
        from sionna import rt  # noqa: PLC0415

        self._mi, self._n_rays, self._solver = mi, n_rays, rt.PathSolver()
        self._site, self._scene = site, scene
        self.scene = rt.load_scene()
        self.scene.frequency = site.channel.carrier_hz
        self.scene.tx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
        self.scene.rx_array = self.scene.tx_array
        walls = scene.surroundings.facades
        itu = {
            name: rt.ITURadioMaterial(f"wall-{name}", name, thickness=0.1)
            for name in sorted({scene.surroundings.ground_material, "metal", *(wall.material for wall in walls)})
        }
        skin = rt.RadioMaterial("skin", relative_permittivity=SKIN[0], conductivity=SKIN[1], thickness=0.1)

        def cube(name, center_m, size_m, material):
            made = rt.SceneObject(mi_mesh=mi.load_dict({"type": "cube"}), name=name, radio_material=material)
            self.scene.edit(add=made)
            self._place(made, center_m, size_m)
            return made

        cube("ground", (0.0, 0.0, -0.05), (400.0, 400.0, 0.1), itu[scene.surroundings.ground_material])
        for index, wall in enumerate(walls):
            middle_m, length_m = (wall.x_min_m + wall.x_max_m) / 2.0, wall.x_max_m - wall.x_min_m
            behind_m = 0.05 if wall.y_m > scene.base_station_m[1] else -0.05
            place = (middle_m, wall.y_m + behind_m, wall.height_m / 2.0)
            cube(f"wall-{index}", place, (length_m, 0.1, wall.height_m), itu[wall.material])
        n_people = (scene.present & (scene.kind == PEDESTRIAN)).sum(axis=1).max(initial=0)
        n_vehicles = (scene.present & np.isin(scene.kind, VEHICLES)).sum(axis=1).max(initial=0)
        self._people = [cube(f"person-{index}", PARKED_M, (1.0, 1.0, 1.0), skin) for index in range(n_people)]
        self._vehicles = [
            cube(f"vehicle-{index}", PARKED_M, (1.0, 1.0, 1.0), itu["metal"]) for index in range(n_vehicles)
        ]
        self.scene.add(rt.Receiver("station", mi.Point3f(*scene.base_station_m.tolist())))
        self.scene.add(rt.Transmitter("user", mi.Point3f(*scene.user_m[0].tolist())))

    def paths(self, row):
        """Series of one instant of the scene."""
        scene = self._scene
        pools = {True: iter(self._people), False: iter(self._vehicles)}
        known = np.isin(scene.kind[row], (PEDESTRIAN, *VEHICLES))
        for box in np.flatnonzero(scene.present[row] & known).tolist():
            made = next(pools[bool(scene.kind[row, box] == PEDESTRIAN)])
            self._place(made, scene.center_m[row, box].tolist(), scene.size_m[row, box].tolist())
            made.velocity = self._mi.Vector3f(*scene.velocity_m_per_s[row, box].tolist())
        for left in (*pools[True], *pools[False]):
            self._place(left, PARKED_M, (1.0, 1.0, 1.0))
        self.scene.transmitters["user"].position = self._mi.Point3f(*scene.user_m[row].tolist())
        found = self._solver(
            self.scene, max_depth=2, samples_per_src=self._n_rays, refraction=False, synthetic_array=True, seed=1
        )
        return neutral(found, self._site.channel.carrier_hz)

    def _place(self, made, center_m, size_m):
        made.scaling = self._mi.Vector3f(*(side_m / 2.0 for side_m in size_m))  # the cube reaches from -1 to 1
        made.position = self._mi.Point3f(*center_m)


def series(site, every, n_rays):
    """Series of one base station, at every so many-th instant of the world."""
    _, time_s, _ = site.instants(np.arange(0, site.file.section.n_ticks, every))
    scene = site.scene(time_s)
    street = SionnaStreet(site, scene, n_rays)
    tables = []
    for row in range(len(time_s)):
        tables.append(street.paths(row))
        print(f"\r{site.name}: {row + 1} of {len(time_s)} instants", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {
        "time_s": time_s,
        "user_m": scene.user_m,
        "offset": np.concatenate([[0], np.cumsum([len(table["gain"]) for table in tables])]),
        **{name: np.concatenate([table[name] for table in tables]) for name in tables[0]},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", help="street, sky, a shipped scenario, or a TOML file")
    parser.add_argument("out", help="file of paths; must not exist yet")
    parser.add_argument("--every", type=int, default=1, help="trace every so many-th instant")
    parser.add_argument("--rays", type=int, default=10_000, help="rays per instant")
    chosen = parser.parse_args()
    world = load_world(chosen.world)
    sites = [RecordedSite.of(world, index) for index in range(world.section.n_sites)]
    stations = [series(site, chosen.every, chosen.rays) for site in sites]
    print(f"wrote {write_paths(chosen.out, world.section.carrier_hz, stations)}")
