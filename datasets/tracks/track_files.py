"""Tracks of any file that is read, by its name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...emulator.contracts import DataError
from ...emulator.regular_file import reason, shown
from .csv_tracks import read_track_csv
from .fcd_file import read_fcd
from .track_table import TrackTable, TrackWindow

#: Endings of the names, and who reads such files.
READERS = {".csv": read_track_csv, ".xml": read_fcd, ".xml.gz": read_fcd}


def read_tracks(path: Path, window: TrackWindow) -> TrackTable:
    """Vehicles and people of a file; read once for all base stations of a world.

    Args:
        path: path of the file; its ending decides the format.
        window: what is kept of it.

    Raises:
        DataError: another ending, or as the readers of `READERS`.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise DataError(f"no tracks at {shown(path)}; give world.tracks.file the path of a file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(path)} cannot be read ({reason(error)}); give a file of tracks") from None
    return _read(path, window, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, window: TrackWindow, n_bytes: int, changed_ns: int) -> TrackTable:
    del n_bytes, changed_ns  # they are part of what is remembered
    for ending, read in READERS.items():
        if path.name.endswith(ending):
            return read(path, window)
    raise DataError(f"{shown(path)} must end in {', '.join(READERS)}: tracks of SUMO, or a table")
