"""How fast base stations sense, and what a recording costs: prints JSON.

    OPENBLAS_NUM_THREADS=1 python benchmarks/record.py [--stations 20] [--seconds 300] [--keep FILE.h5]

One core means one core, matrix products included, hence the variable. The first part times every sensor of a street
and of a sky with 64-beam sweeps on one thread. The second records base stations as
`sheafedge record` does. The third records a longer and a shorter world and compares the memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sheafedge.benchmarks.machine import machine_facts, print_report
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.emulator.radio.sweep import beam_powers, measured_powers
from sheafedge.emulator.sensors.camera import Camera
from sheafedge.emulator.sensors.gps import GpsReceiver, drone_fix
from sheafedge.emulator.sensors.lidar import Lidar
from sheafedge.scenarios.recording.record import CHUNK_FRAMES, record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.site_sensors import SiteSensors
from sheafedge.scenarios.recording.world_file import WorldFile
from sheafedge.scenarios.schema.world_section import WorldSection

ALL_FOUR = ("lidar", "camera", "rf", "gps")
#: Sites of two, four and six lanes.
SITES = (0, 3, 6)


def sensing(kind: str, n_chunks: int) -> dict[str, Any]:
    """Frames per second of all four sensors with their labels on one thread, and milliseconds per frame of each."""
    section = WorldSection.model_validate({"kind": kind, "sensors": ALL_FOUR, "vary_sites": True})
    file = WorldFile(section, 0)
    spent_s: dict[str, float] = {}
    total_s, n_frames = 0.0, 0
    for index in SITES if kind == "street" else SITES[:1]:
        site = RecordedSite.of(file, index)
        sensors, parts = SiteSensors(site), _parts(site)
        sensors.sense(np.arange(CHUNK_FRAMES))  # the backdrop of the camera is drawn once
        for chunk in range(1, n_chunks + 1):
            ticks = np.arange(chunk * CHUNK_FRAMES, (chunk + 1) * CHUNK_FRAMES)
            begin_s = time.perf_counter()
            sensors.sense(ticks)
            total_s += time.perf_counter() - begin_s
            n_frames += len(ticks)
            for name, part in parts.items():
                begin_s = time.perf_counter()
                part(ticks / section.rate_hz)
                spent_s[name] = spent_s.get(name, 0.0) + time.perf_counter() - begin_s
    return {
        "frames_per_s": round(n_frames / total_s),
        "ms_per_frame": {name: round(1e3 * seconds / n_frames, 4) for name, seconds in spent_s.items()},
    }


def _parts(site: RecordedSite) -> dict[str, Callable[[Any], object]]:
    """Sensors one by one; `scene` is what the others are drawn from and is timed alone."""
    section = site.file.section
    lidar, receiver = Lidar(section.lidar, site.stream("lidar")), GpsReceiver(site.gps, site.stream("gps"))
    camera = Camera(site.camera, site.stream("camera"), site.stream("camera", "noise"))
    sweeps = site.stream("rf")
    scenes: dict[str, Any] = {}

    def scene(time_s: Any) -> None:
        scenes["now"] = site.scene(time_s)

    def rf(_: Any) -> object:
        return measured_powers(beam_powers(trace_paths(scenes["now"], site.channel), site.codebook), site.noise, sweeps)

    return {
        "scene": scene,
        "rf": rf,
        "lidar": lambda _: lidar.sense(scenes["now"]),
        "camera": lambda _: camera.sense(scenes["now"]),
        "gps": lambda time_s: drone_fix(receiver.sense(site.world, time_s), site.gps),
    }


def recording(n_stations: int, seconds: float, threads: int, keep: Path | None) -> dict[str, Any]:
    """Wall time and size of one recording."""
    section = WorldSection(n_sites=n_stations, duration_s=seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "recording.h5"
        begin_s = time.perf_counter()
        report = record_world(section, 0, path, threads=threads)
        wall_s = time.perf_counter() - begin_s
    n_frames = sum(station.n_frames for station in report.stations)
    return {
        "stations": n_stations,
        "seconds": seconds,
        "threads": threads,
        "frames": n_frames,
        "wall_s": round(wall_s, 2),
        "frames_per_s": round(n_frames / wall_s),
        "megabytes": round(report.n_bytes / 1e6, 1),
        "blocked_share": round(float(np.mean([station.blocked_share for station in report.stations])), 4),
    }


def memory(seconds: float) -> dict[str, float]:
    """Largest resident memory of a fresh process that records two base stations for a while, and four times as long."""
    code = (
        "import sys, tempfile, pathlib\n"
        "from sheafedge.scenarios.recording.record import record_world\n"
        "from sheafedge.scenarios.schema.world_section import WorldSection\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    section = WorldSection(n_sites=2, duration_s=float(sys.argv[1]))\n"
        "    record_world(section, 0, pathlib.Path(folder) / 'recording.h5')\n"
        # not getrusage: its maximum survives exec, and would be that of this process
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) / 1024)\n"
    )

    def peak_mb(duration_s: float) -> float:
        command = [sys.executable, "-c", code, str(duration_s)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603

    short_mb, long_mb = peak_mb(seconds), peak_mb(4.0 * seconds)
    return {
        "seconds": seconds,
        "peak_mb": round(short_mb, 1),
        "four_times_longer_peak_mb": round(long_mb, 1),
        "growth_kb_per_station_minute": round(1024 * (long_mb - short_mb) / (2 * 3.0 * seconds / 60.0), 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=8, help="of frames, per site, for the sensors alone")
    parser.add_argument("--keep", type=Path, default=None, help="keep the recording here")
    options = parser.parse_args(argv)
    machine = machine_facts()
    figures = {
        "sensing_on_one_core": {kind: sensing(kind, options.chunks) for kind in ("street", "sky")},
        "recording": recording(options.stations, options.seconds, options.threads, options.keep),
        "memory": memory(min(options.seconds, 150.0)),
    }
    print_report("record", machine, figures)


if __name__ == "__main__":
    main()
