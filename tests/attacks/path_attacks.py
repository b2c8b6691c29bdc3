"""Hostile files of paths: sound ones mutated, and structures and numbers that no ray tracer writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from attacks.file_attacks import POISON, WORDS, Draws, chosen, mutated
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.scenarios.recording.own_paths import write_paths
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import WorldFile
from sheafedge.scenarios.schema.world_section import WorldSection

PATHS, OUT = "paths.h5", "road.h5"
WORLD = WorldSection.model_validate(
    {"n_sites": 1, "duration_s": 4.0, "vary_sites": False, "sensors": ("rf",), "codebook": {"n_beams": 8}}
)
_FLAT = ("gain", "delay_s", "arrival_zenith_rad", "arrival_azimuth_rad", "interactions")


def write_sound_paths(folder: Path) -> None:
    """Direct paths, and one longer path of every second frame."""
    site = RecordedSite.of(WorldFile(WORLD, 0), 0)
    time_s = site.instants(np.arange(WORLD.n_ticks))[1]
    scene = site.scene(time_s)
    across_m = scene.user_m - scene.base_station_m
    counts = 1 + np.arange(len(time_s)) % 2
    frame = np.repeat(np.arange(len(time_s)), counts)
    length_m = np.linalg.norm(across_m, axis=1)[frame] + np.where(np.diff(frame, prepend=-1) == 0, 5.0, 0.0)
    write_paths(
        folder / PATHS,
        WORLD.carrier_hz,
        [
            {
                "time_s": time_s,
                "user_m": scene.user_m,
                "offset": np.concatenate([[0], np.cumsum(counts)]),
                "gain": 0.005 / (4.0 * np.pi * length_m) * np.exp(1j * frame),
                "delay_s": length_m / 299_792_458.0,
                "arrival_zenith_rad": np.full(len(frame), 1.57),
                "arrival_azimuth_rad": np.arctan2(across_m[frame, 1], across_m[frame, 0]),
                "interactions": np.where(np.diff(frame, prepend=-1) == 0, 1, 0),
            }
        ],
    )


def harm_paths(folder: Path, draws: Draws) -> None:
    """Bytes in a third of the tries; otherwise values, types, shapes, attributes and links."""
    path = folder / PATHS
    if draws.random() < 0.33:
        path.write_bytes(mutated(path.read_bytes(), draws))
        return
    with h5py.File(path, "r+") as file:
        chosen(draws, (_value, _value, _value, _column, _dataset, _dataset, _attribute, _link, _removed))(file, draws)


def read_paths(folder: Path) -> str:
    """The whole import: a recording with sound powers, or no file at all."""
    try:
        record_world(WORLD, 0, folder / OUT, threads=0, paths=folder / PATHS)
    finally:
        left = sorted(one.name for one in folder.iterdir() if one.name not in {PATHS, OUT})
    with RecordingReader(folder / OUT) as reader:
        powers = reader.base_stations[0].read("rf")
    if left:
        return f"{left[0]} was left behind"
    return "" if ((powers > 0.0) & (powers < 1.0)).all() else "powers that no sweep measures"


def _value(file: Any, draws: Draws) -> None:
    name = chosen(draws, sorted(file["bs00"]))
    with np.errstate(all="ignore"):
        rows = file["bs00"][name][()]
        rows.reshape(-1)[int(draws.integers(rows.size))] = np.array(chosen(draws, POISON)).astype(rows.dtype)
    file["bs00"][name][...] = rows


def _column(file: Any, draws: Draws) -> None:
    """A series in another unit, in another order, or of another frame."""
    name = chosen(draws, sorted(file["bs00"]))
    rows = file["bs00"][name][()]
    kind = int(draws.integers(3))
    with np.errstate(all="ignore"):
        changed = (rows * 1e3, draws.permutation(rows), np.roll(rows, 1, axis=0))[kind].astype(rows.dtype)
    file["bs00"][name][...] = changed


def _dataset(file: Any, draws: Draws) -> None:
    name = chosen(draws, sorted(file["bs00"]))
    del file["bs00"][name]
    shape = chosen(draws, ((40,), (0,), (40, 3), (41,), (60,), (10**12,), (1, 1, 1), (), (2**40, 3)))
    kind = chosen(draws, ("f4", "f8", "i4", "u1", "S9", "c8", "c16", h5py.string_dtype(), h5py.ref_dtype, "i8", "f2"))
    more = {"chunks": tuple(min(size, 16) or 1 for size in shape), "compression": "gzip"} if shape else {}
    file["bs00"].create_dataset(
        name, shape, kind, **(more if 0 not in shape else {"maxshape": (None,), "chunks": (4,)})
    )


def _attribute(file: Any, draws: Draws) -> None:
    name = chosen(draws, sorted(file.attrs))
    value = chosen(draws, (*POISON, *WORDS, np.zeros(9), h5py.Empty("f8"), 10**9, -5, True))
    file.attrs[name] = value if not isinstance(value, str) else np.bytes_(value.replace("\0", "?").encode())


def _link(file: Any, draws: Draws) -> None:
    where = chosen(draws, ("bs00/gain", "bs00/time_s", "bs00", "bs00/extra", "bs01"))
    if where in file:
        del file[where]
    file[where] = chosen(
        draws, (h5py.ExternalLink("/etc/passwd", "/x"), h5py.SoftLink(f"/{where}"), h5py.SoftLink("/nowhere"))
    )


def _removed(file: Any, draws: Draws) -> None:
    del file[chosen(draws, ("bs00", *(f"bs00/{name}" for name in ("time_s", "user_m", "offset", *_FLAT))))]
