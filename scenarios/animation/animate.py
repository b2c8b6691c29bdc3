"""Animation of a complete run as one file: streets with beams and warnings, and messages between clients."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.whole_file import replacing
from ..export.finished_run import FinishedRun, finished_run
from .network_film import network_film
from .station_film import station_films

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter

    from .film_pictures import FilmPictures

#: Pictures per second, at most: of faster recordings every second frame is shown, or every third, and so on.
MOST_FPS = 12.5
#: Dots per inch of a picture.
DPI = 100
#: Most base stations in one picture.
MOST_CLIENTS = 4
LONGEST_S = 120.0
#: Characters of what a failing ffmpeg says that a message repeats.
SAID_CHARACTERS = 240

#: Called after every picture: number of pictures so far, and of all pictures.
Drawn = Callable[[int, int], None]


def animate_run(
    folder: Path,
    out: Path,
    clients: Sequence[NodeId] = (),
    seconds: float = 12.0,
    drawn: Drawn = lambda _done, _total: None,
) -> Path:
    """Write an animation of held-out seconds of a run, in real time unless its world has less than a frame per second.

    Args:
        folder: of a complete run.
        out: the file, `.gif` or `.mp4`; one of this name is replaced.
        clients: clients whose base stations are shown, up to four; empty: the first of two base stations.
        seconds: longest duration, above 0 and up to 120.
        drawn: called after every picture.

    Returns:
        Path of the file.

    Raises:
        ConfigError: no such client, no world, a duration or name that cannot be, or no ffmpeg for `.mp4` that works.
        DataError: a file of the run is damaged.
    """
    if not 0.0 < seconds <= LONGEST_S:
        raise ConfigError(f"--seconds must lie above 0 and at most at {LONGEST_S:g}, got {seconds:g}; 12 is usual")
    if len(clients) > MOST_CLIENTS:
        raise ConfigError(f"--client may be given {MOST_CLIENTS} times, got {len(clients)}; show fewer at once")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out} is in a folder that does not exist; make it, or choose another")
    check_format(out)
    run = finished_run(folder, needs_models=False)
    section = run.scenario.recorded_world if run.scenario.data.source == "world" else None
    every = 1 if section is None else max(1, round(section.rate_hz / MOST_FPS))
    fps = 1 if section is None else max(1, round(section.rate_hz / every))  # writers take whole numbers
    films = station_films(run.scenario, _models(run), clients, max(2, round(seconds * fps)), every)

    from .film_pictures import FilmPictures

    pictures = FilmPictures(films, network_film(folder), f"{run.scenario.name}, {run.scenario.algorithm}")
    try:
        _write(pictures, _writer(out, fps), out, drawn)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written ({error.strerror or error}); choose another") from None
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())[:SAID_CHARACTERS].rstrip(".") or f"exit code {error.returncode}"
        raise ConfigError(
            f"--out {out} cannot be written, because ffmpeg failed ({said}); write"
            f" {out.with_suffix('.gif').name} instead"
        ) from None
    return out


def check_format(out: Path) -> None:
    """Refuse a name whose ending says no format that can be written here.

    Raises:
        ConfigError: as said.
    """
    if out.suffix not in {".gif", ".mp4"}:
        raise ConfigError(f"--out {out} must end in .gif or .mp4, for example {out.with_suffix('.gif').name}")
    if out.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ConfigError(
            f"--out {out} needs the program ffmpeg, which is not found; install it, or write"
            f" {out.with_suffix('.gif').name}"
        )


def _models(run: FinishedRun) -> dict[NodeId, Path]:
    return {row.client: run.model_file(row.client) for row in run.summary.exports}


def _writer(out: Path, fps: int) -> AbstractMovieWriter:
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if out.suffix == ".gif":
        return PillowWriter(fps=fps)
    # players of phones and browsers read no other sampling of colors, and it needs even widths
    return FFMpegWriter(
        fps=fps, codec="libx264", extra_args=["-pix_fmt", "yuv420p", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
    )


def _write(pictures: FilmPictures, writer: AbstractMovieWriter, out: Path, drawn: Drawn) -> None:
    with replacing(out) as partial, _without_log(), writer.saving(pictures.figure, str(partial), DPI):
        for index in range(len(pictures)):
            pictures.draw(index)
            writer.grab_frame()
            drawn(index + 1, len(pictures))


@contextmanager
def _without_log() -> Iterator[None]:
    """Context in which matplotlib does not also log what a failing ffmpeg says, which its error holds."""
    log = logging.getLogger("matplotlib.animation")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
