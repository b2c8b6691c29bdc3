"""Paths of a DeepMIMO (version 4) scenario, as the file that `sheafedge import paths` reads.

    pip install deepmimo
    python examples/deepmimo_paths.py SCENARIO paths.h5 --step 0.1

The users of the scenario are the frames: receiver i of its list is where the user is i steps after 0. So it must have
been traced in the world that the paths are imported into, with receivers where the world has its user; a grid of
receivers over a city is no track. DeepMIMO's transmitter is the base station, at x = y = 0 of the file.
"""

import argparse

import numpy as np
from sheafedge import write_paths

MOST_PATHS = 128


def neutral(dataset, carrier_hz, step_s, with_carrier_phase):
    """Series of one base station out of a `deepmimo.Dataset`: one transmitter, n receivers, paths padded with NaN.

    Powers are dB for a transmitter of 0 dB, angles degrees: azimuths from +x, "elevations" from +z down. Phases of some
    ray tracers hold the phase of the way (Wireless InSite), of others not (Sionna): `with_carrier_phase` adds it.
    """
    power_db, phase_deg, delay_s = (np.asarray(dataset[name], dtype=np.float64) for name in ("power", "phase", "delay"))
    there = np.isfinite(power_db) & np.isfinite(delay_s)
    there &= np.cumsum(there, axis=1) <= MOST_PATHS
    # Without the way's phase it is that of the carrier; whole turns are taken off before the precision is lost.
    turns = np.mod(carrier_hz * delay_s[there], 1.0) if with_carrier_phase else 0.0
    phase_rad = np.deg2rad(phase_deg[there]) - 2.0 * np.pi * turns
    station_m = np.asarray(dataset["tx_pos"], dtype=np.float64).reshape(-1, 3)[0]
    codes = np.asarray(dataset["inter"], dtype=np.float64)[there]
    return {
        "time_s": np.arange(len(power_db)) * step_s,
        "user_m": np.asarray(dataset["rx_pos"], dtype=np.float64) - [station_m[0], station_m[1], 0.0],
        "offset": np.concatenate([[0], np.cumsum(there.sum(axis=1))]),
        "gain": 10.0 ** (power_db[there] / 20.0) * np.exp(1j * phase_rad),
        "delay_s": delay_s[there],
        # The user sends here: DeepMIMO's departures at the base station are arrivals.
        "arrival_zenith_rad": np.deg2rad(np.asarray(dataset["aod_el"], dtype=np.float64)[there]),
        "arrival_azimuth_rad": np.deg2rad(np.asarray(dataset["aod_az"], dtype=np.float64)[there]),
        "departure_zenith_rad": np.deg2rad(np.asarray(dataset["aoa_el"], dtype=np.float64)[there]),
        "departure_azimuth_rad": np.deg2rad(np.asarray(dataset["aoa_az"], dtype=np.float64)[there]),
        # A digit per interaction; 0 is the direct path.
        "interactions": [0 if code == 0.0 else len(str(int(code))) for code in codes.tolist()],
    }


if __name__ == "__main__":
    import deepmimo

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", help="name or folder of the scenario")
    parser.add_argument("out", help="file of paths; must not exist yet")
    parser.add_argument("--step", type=float, required=True, help="seconds from one receiver to the next")
    parser.add_argument("--with-carrier-phase", action="store_true", help="phases of the scenario lack that of the way")
    chosen = parser.parse_args()
    loaded = deepmimo.load(chosen.scenario, max_paths=MOST_PATHS)
    datasets = loaded.datasets if hasattr(loaded, "datasets") else [loaded]  # one per transmitter and set of receivers
    carrier_hz = float(datasets[0]["rt_params"]["frequency"])
    stations = [neutral(one, carrier_hz, chosen.step, chosen.with_carrier_phase) for one in datasets]
    print(f"wrote {write_paths(chosen.out, carrier_hz, stations)}")
