"""From a world to one recording file: sensor frames and labels of every base station."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import numpy as np
from numpy.typing import NDArray

from ...datasets.ray_paths.path_reader import PathReader
from ...datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from ...datasets.recordings.recording_writer import RecordingWriter
from ...emulator.contracts import ConfigError, DataError
from ...emulator.regular_file import quoted, shown
from ...version import __version__
from ..schema.world_section import WorldSection
from .own_paths import write_paths
from .recorded_site import RecordedSite
from .sionna_scene import checked_sionna, sionna_series, sionna_version
from .site_sensors import Frames, SiteSensors, sensor_fields
from .traced_paths import PathFigures, TracedPaths, matched_paths
from .world_file import WorldFile

#: Number of instants per base station that are sensed at once, which bounds memory.
CHUNK_FRAMES = 256

#: Called with the instants done and the instants in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class StationReport:
    """Figures of what one base station recorded.

    Attributes:
        name: name of the base station.
        n_frames: number of recorded frames.
        n_sequences: unbroken stretches, flights or passes.
        blocked_share: share of frames blocked by geometry.
        power_blocked_share: share of frames blocked by power; None where the user moves and power has no clear level.
        disagreement: share of frames in which the two differ; None likewise.
        n_events: number of times that the line of sight becomes blocked.
        beam_persistence: share of frames whose best beam is that of the frame before, in the same sequence.
    """

    name: str
    n_frames: int
    n_sequences: int
    blocked_share: float
    power_blocked_share: float | None
    disagreement: float | None
    n_events: int
    beam_persistence: float


@dataclass(frozen=True, slots=True)
class RecordReport:
    """Figures of a recording.

    Attributes:
        path: path of the file.
        n_bytes: size of the file.
        rate_hz: frames per second.
        stations: report of every base station.
        paths: figures of the paths of every base station; empty where the emulator found them itself.
    """

    path: Path
    n_bytes: int
    rate_hz: float
    stations: tuple[StationReport, ...]
    paths: tuple[PathFigures, ...] = ()


def record_world(
    section: WorldSection,
    seed: int,
    out: Path,
    progress: Progress | None = None,
    *,
    threads: int = 1,
    paths: Path | None = None,
) -> RecordReport:
    """Makes a world and writes what its base stations sense.

    Memory does not grow with the length, but for paths of Sionna: some kB per frame. The file's bytes depend on the
    section, the seed and the file of paths, not on the threads; Sionna does not repeat itself bit for bit.

    Args:
        section: section `world` of the scenario.
        seed: root seed of all random streams of the world.
        out: recording file, see `datasets.recording_layout`; its folder must exist. Whole or not there at all.
        progress: called from the caller's thread with (instants done, instants in total); where Sionna traces them
            first, which takes most of the time, with those that are traced.
        threads: number of sensing threads beside the caller's, which compresses and writes; 0: the caller's senses too.
        paths: file of paths that a ray tracer found in this world, see `datasets.ray_paths`: sweeps then measure these,
            and only its instants are recorded. None: the emulator finds them, at all instants.

    Raises:
        ConfigError: a world that cannot be made, a negative number of threads, or paths beside `world.radio_engine =
            "sionna"`, or that without Sionna RT.
        DataError: the file cannot be written, or the paths are not of this world.
    """
    if threads < 0:
        raise ConfigError(f"threads must be at least 0, got {threads}")
    if section.radio_engine == "sionna":
        if paths:
            raise ConfigError(
                f'{shown(paths)} has the paths of a world whose world.radio_engine = "sionna" would find them anew; set'
                ' world.radio_engine="rays", or record it without the file'
            )
        checked_sionna()
    file = WorldFile(section, seed)
    sites = [RecordedSite.of(file, index) for index in range(section.n_sites)]
    with ExitStack() as files:
        origin = _origin(paths)
        if section.radio_engine == "sionna":
            folder = files.enter_context(TemporaryDirectory(prefix="sheafedge-paths-"))
            paths, origin = _by_sionna(sites, Path(folder), progress), f"# paths of sionna-rt {sionna_version()}\n"
            progress = None
        traced = matched_paths(files.enter_context(PathReader(paths)), sites) if paths else []
        description = RecordingDescription(
            scenario=origin + file.text(),
            seed=seed,
            created_by=f"sheafedge {__version__}",
            base_stations=tuple(_described(site, with_links=not traced) for site in sites),
        )
        tallies = [_Tally(site.name) for site in sites]
        turns = _traced_turns(traced) if traced else _whole_turns(section.n_ticks, sites)
        n_all = sum(len(one.ticks) for one in traced) if traced else section.n_ticks * len(sites)
        n_done = 0
        writer = files.enter_context(RecordingWriter(out, description))
        for index, n_ticks, frames in _sensed(sites, turns, threads):
            if frames:
                writer.append(index, frames)
                tallies[index].add(frames)
            n_done += n_ticks
            if progress is not None:
                progress(n_done, n_all)
    stations = tuple(tally.report() for tally in tallies)
    return RecordReport(out, out.stat().st_size, section.rate_hz, stations, tuple(one.figures for one in traced))


def _by_sionna(sites: Sequence[RecordedSite], folder: Path, progress: Progress | None) -> Path:
    """File of the paths that Sionna finds around all base stations."""
    n_done, n_all = 0, sum(site.file.section.n_ticks for site in sites)

    def advanced(n_instants: int) -> None:
        nonlocal n_done
        n_done += n_instants
        if progress is not None:
            progress(n_done, n_all)

    return write_paths(
        folder / "paths.h5", sites[0].channel.carrier_hz, [sionna_series(site, advanced) for site in sites]
    )


def _origin(paths: Path | None) -> str:
    """Comment above the text of a world: which file its paths came from."""
    if paths is None:
        return ""
    with paths.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"# paths of {quoted(paths.name)}, sha256 {digest}\n"


def _described(site: RecordedSite, *, with_links: bool) -> StationDescription:
    section = site.file.section
    labels = ["blocked_geometric", "los_loss_db", "best_beam"]
    if section.has_clear_level:
        labels.append("blocked_power")
    if section.doppler:
        labels += ["doppler_shift_hz", "doppler_spread_hz"]
    fields = [standard_field(name) for name in ("time_s", "sequence", "frame_index", *labels)]
    if section.links_per_frame and with_links:
        fields.append(standard_field("link_power_dbw", (section.links_per_frame,)))
    return StationDescription(site.name, section.rate_hz, (*fields, *sensor_fields(site)), site.geometry())


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """One piece of one base station.

    Attributes:
        index: number of the base station.
        ticks: [F] instants of the recording's clock.
        traced: paths of the base station, and the first frame of this piece in their file; None: found on the way.
    """

    index: int
    ticks: NDArray[np.int64]
    traced: tuple[TracedPaths, int] | None = None

    def sense(self, sensors: SiteSensors) -> Frames:
        if self.traced is None:
            return sensors.sense(self.ticks)
        paths, first = self.traced
        return sensors.sense(self.ticks, paths.channel(first, first + len(self.ticks)))


def _whole_turns(n_ticks: int, sites: Sequence[RecordedSite]) -> Iterator[_Turn]:
    """Pieces of all base stations in turn, all instants of the clock."""
    for first in range(0, n_ticks, CHUNK_FRAMES):
        for index in range(len(sites)):
            yield _Turn(index, np.arange(first, min(first + CHUNK_FRAMES, n_ticks)))


def _traced_turns(traced: Sequence[TracedPaths]) -> Iterator[_Turn]:
    """Pieces of all base stations in turn, the instants of their paths."""
    for first in range(0, max(len(paths.ticks) for paths in traced), CHUNK_FRAMES):
        for index, paths in enumerate(traced):
            if len(ticks := paths.ticks[first : first + CHUNK_FRAMES]):
                yield _Turn(index, ticks, (paths, first))


def _sensed(sites: list[RecordedSite], turns: Iterable[_Turn], threads: int) -> Iterator[tuple[int, int, Frames]]:
    """Number of a base station, instants worked on, and its next frames; in one order for any number of threads.

    Base stations take turns. A base station's pieces follow each other, because its sensors drift from one to the next.
    """
    sensors = [SiteSensors(site) for site in sites]
    if threads == 0:
        for turn in turns:
            yield turn.index, len(turn.ticks), turn.sense(sensors[turn.index])
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sense")
    try:
        sensed: dict[int, Event] = {}
        ahead: deque[tuple[int, int, Future[Frames]]] = deque()
        for turn in turns:
            before, sensed[turn.index] = sensed.get(turn.index), Event()
            future = pool.submit(_sense_after, before, sensed[turn.index], sensors[turn.index], turn)
            ahead.append((turn.index, len(turn.ticks), future))
            # bounded: finished pieces would pile up in memory if writing were slower than sensing
            if len(ahead) > threads + 1:
                yield _collected(ahead.popleft())
        while ahead:
            yield _collected(ahead.popleft())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _sense_after(before: Event | None, done: Event, sensors: SiteSensors, turn: _Turn) -> Frames:
    """Sense a piece after the piece before of the same base station, which a thread has begun already."""
    if before is not None:
        before.wait()
    try:
        return turn.sense(sensors)
    finally:
        done.set()


def _collected(turn: tuple[int, int, Future[Frames]]) -> tuple[int, int, Frames]:
    index, n_ticks, future = turn
    return index, n_ticks, future.result()


class _Tally:
    """Running counts of what one base station records, for its report."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._n_frames = self._n_sequences = self._n_blocked = self._n_events = 0
        self._n_power_blocked = self._n_differ = self._n_same_beam = self._n_followers = 0
        self._has_power_label = False
        self._last: tuple[int, int, bool] | None = None

    def add(self, frames: Frames) -> None:
        sequence, beam, blocked = frames["sequence"], frames["best_beam"], frames["blocked_geometric"]
        # no sequence has the number -1, so that the first frame follows nothing
        before = self._last or (-1, -1, False)
        follows = np.diff(sequence, prepend=before[0]) == 0
        self._n_frames += len(sequence)
        self._n_sequences += int((~follows).sum())
        self._n_followers += int(follows.sum())
        self._n_same_beam += int((follows & (np.diff(beam, prepend=before[1]) == 0)).sum())
        was_blocked = np.concatenate([[before[2]], blocked[:-1]]) & follows
        self._n_blocked += int(blocked.sum())
        self._n_events += int((blocked & ~was_blocked).sum())
        if "blocked_power" in frames:
            self._has_power_label = True
            self._n_power_blocked += int(frames["blocked_power"].sum())
            self._n_differ += int((frames["blocked_power"] != blocked).sum())
        self._last = (int(sequence[-1]), int(beam[-1]), bool(blocked[-1]))

    def report(self) -> StationReport:
        if not self._n_frames:  # the writer has refused this already
            raise DataError(f"base station {self._name!r} recorded no frame; record longer")
        n = self._n_frames
        return StationReport(
            name=self._name,
            n_frames=n,
            n_sequences=self._n_sequences,
            blocked_share=self._n_blocked / n,
            power_blocked_share=self._n_power_blocked / n if self._has_power_label else None,
            disagreement=self._n_differ / n if self._has_power_label else None,
            n_events=self._n_events,
            beam_persistence=self._n_same_beam / max(self._n_followers, 1),
        )
