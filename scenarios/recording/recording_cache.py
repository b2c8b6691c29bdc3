"""Cache of recordings: each world is recorded once, and found again by a hash of everything that decides its bytes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import h5py
import numpy as np
import xxhash

from ...datasets.recordings.recording_layout import VERSION
from ...emulator.contracts import DataError
from ...emulator.ownership import OwnedError, owned
from ...emulator.source_hash import source_hash
from ...emulator.whole_file import replacing
from ...version import __version__
from ..schema.world_section import WorldSection
from .record import Progress, record_world
from .sionna_scene import sionna_version
from .track_ways import tracks_digest
from .world_file import WorldFile

CACHE_VARIABLE = "SHEAFEDGE_CACHE"
#: File name and content of a recording.
Recording = tuple[str, bytes]
#: Called with a sentence for the user.
Note = Callable[[str], None]
_PIECE_BYTES = 1 << 20
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
    "datasets/tracks/*.py",
    "scenarios/recording/record.py",
    "scenarios/recording/recorded_site.py",
    "scenarios/recording/site_sensors.py",
    "scenarios/recording/track_ways.py",
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

#: And of the worlds that Sionna traces.
_OF_SIONNA = (
    "datasets/ray_paths/*.py",
    "scenarios/recording/own_paths.py",
    "scenarios/recording/sionna_scene.py",
    "scenarios/recording/traced_paths.py",
)


def cached_recording(
    section: WorldSection,
    seed: int,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    *,
    threads: int = 1,
    note: Note | None = None,
) -> Path:
    """Path of a complete recording of this world: the cached one, or a new one.

    Of two processes that need the same one, the second waits for the first.

    Args:
        section, seed, progress, threads: as for `record_world`.
        cache_dir: folder of recordings, made if absent; None: $SHEAFEDGE_CACHE, or ~/.cache/sheafedge.
        note: called with a sentence about a damaged recording, which is made again, or about a process waited for.

    Returns:
        Path of the file, named after a hash over everything that decides its bytes, and a checksum of these.

    Raises:
        ConfigError: a world that cannot be made here, or a folder that cannot be written.
        DataError: the file cannot be written.
    """
    folder, note = cache_dir or default_cache_dir(), note or (lambda _: None)
    name = f"{section.kind}-{recording_key(section, seed)}"
    if path := _undamaged(folder, name):
        return path
    elsewhere = f"set {CACHE_VARIABLE} to another folder"

    def waiting(owner: str) -> None:
        note(f"{owner} is recording this world; waiting for it")

    with owned(folder / name, elsewhere, waiting=waiting):
        if path := _undamaged(folder, name):  # meanwhile
            return path
        for damaged in folder.glob(f"{name}-*.h5"):
            note(f"cached recording {damaged} is damaged, and made again")
        _remove_leftovers(folder, name)
        return _recorded(section, seed, folder / name, progress, threads)


def found_recording(section: WorldSection, seed: int) -> Path | None:
    """Path of the recording of a world in the cache of this host; None: it is not there, or damaged."""
    return _undamaged(default_cache_dir(), f"{section.kind}-{recording_key(section, seed)}")


def keep_recording(recording: Recording) -> None:
    """Put a recording that another host has made into the cache of this one.

    Raises:
        DataError: the file cannot be written.
    """
    name, content = recording
    path = default_cache_dir() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as fresh:
            fresh.write_bytes(content)
    except OSError as error:
        raise DataError(f"cannot write recording {path} ({error.strerror}); check the folder and the space") from error


def _recorded(section: WorldSection, seed: int, path: Path, progress: Progress | None, threads: int) -> Path:
    """A new recording, under a hidden name until its checksum is known."""
    fresh = path.with_name(f".{path.name}.h5.whole.partial")
    try:
        record_world(section, seed, fresh, progress, threads=threads)
        return fresh.replace(path.with_name(f"{path.name}-{_checksum(fresh)}.h5"))
    except OSError as error:
        raise DataError(f"cannot write recording {path} ({error.strerror}); check the folder and the space") from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def default_cache_dir() -> Path:
    """$SHEAFEDGE_CACHE, or ~/.cache/sheafedge."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "sheafedge"


def recording_key(section: WorldSection, seed: int) -> str:
    """Hash over all that decides the bytes of a recording: world, seed, versions of program, format and numbers.

    Raises:
        ConfigError: Sionna traces the world, and is not installed.
    """
    facts = {
        "world": WorldFile(section, seed).text(),
        "package": __version__,
        "format": VERSION,
        # random streams and file bytes may change with the versions of both libraries
        "numpy": np.__version__,
        "hdf5": h5py.version.info,
        "code": code_hash(),
    }
    if section.tracks.file:
        facts["tracks"] = tracks_digest(section.tracks)
    if section.radio_engine == "sionna":
        facts["sionna"] = [sionna_version(), source_hash(_OF_SIONNA)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def code_hash() -> str:
    """Hash over the source files that make recordings."""
    return source_hash(_SOURCES, _OF_LINKS)


def _undamaged(folder: Path, name: str) -> Path | None:
    """The recording of this name, if its bytes are those that were written; what is damaged is made again."""
    for path in sorted(folder.glob(f"{name}-*.h5")):
        with suppress(OSError):
            if path.stem == f"{name}-{_checksum(path)}":
                return path
    return None


def _checksum(path: Path) -> str:
    """Far faster than unpacking; a bit that flips in a packed field would be found only when that is read."""
    total = xxhash.xxh3_128()
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            total.update(piece)
    return total.hexdigest()


def _remove_leftovers(folder: Path, own: str) -> None:
    """Remove hidden files of recordings that were killed: those of names that nobody owns, and of our own."""
    for partial in folder.glob(".*.h5.*.partial"):
        name = partial.name.lstrip(".").split(".h5.")[0]
        with suppress(OSError, OwnedError), nullcontext() if name == own else owned(folder / name):
            partial.unlink()
