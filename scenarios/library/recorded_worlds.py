"""`record`: a world to one recording file, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..recording.record import Progress, RecordReport, record_world
from ..recording.recording_target import refuse_target
from ..recording.world_file import WorldFile, load_world
from .shown_progress import lines_console


def record(
    world: str | os.PathLike[str],
    out: str | os.PathLike[str],
    edits: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    *,
    threads: int = 1,
) -> RecordReport:
    """Record the sensor data of all base stations of an emulated world.

    Args:
        world: "street", "sky", the name of a shipped scenario with a world, or the path of a TOML file.
        out: recording file (HDF5), which must not exist; a scenario reads it with data.source = "recording".
        edits: dotted keys below `world`, and `seed`.
        progress: True: lines or a bar as on the command line; a callback: called with instants done and in all.
        threads: sensing threads beside the writing one; the file does not depend on it.

    Returns:
        Figures of the recording: its size, and per base station frames, blocked shares and events.

    Raises:
        ConfigError: no such world, an impossible value, or a file that cannot be made there.
        DataError: the file cannot be written.

    Examples:
        >>> from sheafedge import record
        >>> report = record("street", "street.h5", {"world.n_sites": 1, "world.duration_s": 20, "seed": 3})
        >>> report.stations[0].n_frames, report.rate_hz
        (200, 10.0)
    """
    file, target = load_world(os.fspath(world), edits), Path(out)
    refuse_target(target)
    with _shown(progress, file) as callback:
        return record_world(file.section, file.seed, target, callback, threads=threads)


def _shown(progress: Progress | bool | None, file: WorldFile) -> AbstractContextManager[Progress | None]:
    """Context with the callback."""
    if progress is True:
        from ..terminal.recording_console import RecordingProgress

        return RecordingProgress(lines_console(), file.section)
    return nullcontext(progress or None)
