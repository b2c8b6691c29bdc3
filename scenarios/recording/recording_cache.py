"""Cache of recordings: each world is recorded once, and found again by a hash of everything that decides its bytes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np

from ...datasets.recordings.recording_layout import VERSION
from ...datasets.recordings.recording_reader import RecordingReader
from ...emulator.contracts import DataError
from ...version import __version__
from ..schema.world_section import WorldFile, WorldSection
from .record import Progress, record_world

CACHE_VARIABLE = "SHEAFEDGE_CACHE"
#: Age in s after which the unfinished file of a killed recording is removed.
LEFTOVER_S = 86_400.0
_PACKAGE = Path(__file__).parents[2]
#: Code that decides what a recording holds; a change makes recordings anew.
_SOURCES = (
    "emulator/random_streams.py",
    "emulator/modalities.py",
    "emulator/world/*.py",
    "emulator/radio/*.py",
    "emulator/radio/tables/*.csv",
    "emulator/sensors/*.py",
    "datasets/recordings/recording_layout.py",
    "datasets/recordings/recording_writer.py",
    "datasets/power_blockage.py",
    "scenarios/recording/record.py",
    "scenarios/recording/recorded_site.py",
    "scenarios/recording/site_sensors.py",
    "scenarios/schema/world_section.py",
)
#: What lies among them and only links use: a change there leaves recordings as they are.
_OF_LINKS = frozenset(
    {
        "emulator/radio/block_error.py",
        "emulator/radio/link_adaptation.py",
        "emulator/radio/link_budget.py",
        "emulator/radio/tables/block_error.csv",
    }
)


def cached_recording(
    section: WorldSection,
    seed: int,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    *,
    threads: int = 1,
) -> Path:
    """Path of a complete recording of this world: the cached one, or a new one.

    Args:
        section, seed, progress, threads: as for `record_world`.
        cache_dir: folder of recordings, made if absent; None: $SHEAFEDGE_CACHE, or ~/.cache/sheafedge.

    Returns:
        Path of the file, named after a hash over everything that decides its bytes.

    Raises:
        ConfigError: a world that cannot be made.
        DataError: the folder or the file cannot be written.
    """
    folder = cache_dir or default_cache_dir()
    path = folder / f"{section.kind}-{recording_key(section, seed)}.h5"
    if path.exists() and _is_whole(path):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the cache folder {folder} ({error}); set {CACHE_VARIABLE} to another") from error
    _remove_leftovers(folder)
    record_world(section, seed, path, progress, threads=threads)
    return path


def default_cache_dir() -> Path:
    """$SHEAFEDGE_CACHE, or ~/.cache/sheafedge."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "sheafedge"


def recording_key(section: WorldSection, seed: int) -> str:
    """Hash over all that decides the bytes of a recording: world, seed, versions of program, format and numbers."""
    facts = {
        "world": WorldFile(section, seed).text(),
        "package": __version__,
        "format": VERSION,
        # random streams and file bytes may change with the versions of both libraries
        "numpy": np.__version__,
        "hdf5": h5py.version.info,
        "code": code_hash(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Hash over the source files that make recordings."""
    total = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_PACKAGE.glob(pattern)):
            name = path.relative_to(_PACKAGE).as_posix()
            if name in _OF_LINKS:
                continue
            # the name is hashed too: exchanging the content of two files is a change
            total.update(name.encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _is_whole(path: Path) -> bool:
    """Whether the file is a complete recording; what is not is made again."""
    try:
        with RecordingReader(path):
            return True
    except DataError:
        return False


def _remove_leftovers(folder: Path) -> None:
    """Hidden files of recordings that were killed; those of recordings that go on now are younger, and locked."""
    now_s = time.time()
    for partial in folder.glob(".*.h5.*.partial"):
        try:
            if now_s - partial.stat().st_mtime > LEFTOVER_S and not _is_being_written(partial):
                partial.unlink()
        except OSError:  # another process was faster
            continue


def _is_being_written(partial: Path) -> bool:
    """Whether HDF5 holds its lock on the file: a clock that jumped makes a living recording look old."""
    try:
        import fcntl
    except ModuleNotFoundError:  # a system without such locks, where an open file cannot be removed either
        return False
    with partial.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
