"""Paths between the user and every base station of a world, as the file that `sheafedge import paths` reads.

    python examples/trace_world.py street.toml paths.h5

Here they are the emulator's own. Put a ray tracer in the place of `trace`: it is handed the geometry of the world, and
answers with the paths of one instant after the other.
"""

import argparse

import numpy as np
from sheafedge import write_paths
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import load_world


def trace(scene, channel):
    """Paths of every instant of a scene: a list of one table per instant, with a row per path.

    A ray tracer needs of the scene (x along the street, y across it, z up, all in m):
      scene.base_station_m [3], scene.user_m [n, 3]: the antennas
      scene.center_m, scene.size_m [n, n_boxes, 3]: vehicles and people, boxes along the axes
      scene.kind [n, n_boxes]: 1 car, 2 van, 3 bus, 4 pedestrian, 5 carries the user, 6 crown and 7 trunk of a tree
      scene.present [n, n_boxes]: is it there?
      scene.velocity_m_per_s [n, n_boxes, 3]
      scene.surroundings.facades: walls across y (y_m, x_min_m, x_max_m, height_m, material); the ground is z = 0
      scene.surroundings.weather: rain and fog, if the world has them
      channel.carrier_hz

    The columns are gain (complex amplitude between isotropic antennas, with the phase exp(-2j pi carrier_hz delay_s)),
    delay_s, zenith and azimuth (rad) from which the path arrives at the base station, and doppler_hz (above 0 where the
    path becomes shorter), which may be left out unless the world asks for it.
    """
    paths = trace_paths(scene, channel)
    tables = []
    for row in range(len(scene)):
        there = paths.valid[row]
        from_broadside, sine = paths.azimuth_rad[row, there], paths.direction_sine[row, there]
        level = np.where(np.abs(from_broadside) < 1e-9, 1.0, sine / np.sin(from_broadside))
        zenith, azimuth = np.arcsin(np.clip(level, -1.0, 1.0)), np.pi / 2.0 - from_broadside
        tables.append(
            (paths.gain[row, there], paths.delay_s[row, there], zenith, azimuth, paths.doppler_hz[row, there])
        )
    return tables


def series(site):
    """Series of one base station, at all instants that the world records."""
    _, time_s, _ = site.instants(np.arange(site.file.section.n_ticks))
    scene = site.scene(time_s)
    tables = trace(scene, site.channel)
    flat = [np.concatenate(column) for column in zip(*tables, strict=True)]
    return {
        "time_s": time_s,
        "user_m": scene.user_m,
        "offset": np.concatenate([[0], np.cumsum([len(table[0]) for table in tables])]),
        **dict(zip(("gain", "delay_s", "arrival_zenith_rad", "arrival_azimuth_rad", "doppler_hz"), flat, strict=True)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", help="street, sky, a shipped scenario, or a TOML file")
    parser.add_argument("out", help="file of paths; must not exist yet")
    chosen = parser.parse_args()
    world = load_world(chosen.world)
    sites = [RecordedSite.of(world, index) for index in range(world.section.n_sites)]
    print(f"wrote {write_paths(chosen.out, world.section.carrier_hz, [series(site) for site in sites])}")
