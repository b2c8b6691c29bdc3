"""Inspection of a recording file: figures and pictures of its content."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_layout import Field
from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...emulator.contracts import MODALITY_SPECS, ConfigError, DataError, Modality
from ...emulator.modalities import has_images
from ...emulator.sensors.camera import pixels_of
from .recorded_site import RecordedSite
from .track_ways import tracks_digest
from .world_file import WorldFile, parse_world

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_AT_ONCE = 4096
#: Labels of blockage, the ones that are drawn first.
LABELS = ("blocked_geometric", "blocked_labeled", "blocked_power")
#: Seconds shown before and after a blockage, and seconds shown where there is none.
AROUND_S, QUIET_S = 3.0, 20.0
#: Seconds from the first moment to the blockage.
BEFORE_S = 1.0
MOMENTS = 3


@dataclass(frozen=True, slots=True)
class StationFacts:
    """Figures of one base station of a recording.

    Attributes:
        index, name: number and name of the base station.
        n_frames, n_sequences, duration_s: frames, unbroken stretches, and time from the first frame to the last.
        rate_hz: nominal number of frames per second.
        measured_rate_hz: median inside sequences; None where no sequence has two frames.
        modalities: its sensors.
        fields: everything stored.
        blocked_shares: share of blocked frames per label.
        n_events: times that the first of these labels becomes true.
        disagreement: share of frames in which the label by power differs from the other; None without the two.
        beam_persistence: share of frames with the best beam of the frame before; None without beams.
        nan_sweep_share: share of sweeps with a beam that was not measured; None without sweeps.
        doppler_spread_hz: median, and what nine of ten frames stay below; None where it is not recorded.
    """

    index: int
    name: str
    n_frames: int
    n_sequences: int
    duration_s: float
    rate_hz: float
    measured_rate_hz: float | None
    modalities: tuple[Modality, ...]
    fields: tuple[Field, ...]
    blocked_shares: dict[str, float]
    n_events: int
    disagreement: float | None
    beam_persistence: float | None
    nan_sweep_share: float | None
    doppler_spread_hz: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """Figures of a recording.

    Attributes:
        path, n_bytes: path and size of the file.
        created_by, seed: program that made it, and seed of its world; None for imported data.
        stations: its base stations.
    """

    path: Path
    n_bytes: int
    created_by: str
    seed: int | None
    stations: tuple[StationFacts, ...]


def inspect_recording(path: Path) -> Inspection:
    """Figures of a recording.

    Raises:
        DataError: no whole recording.
    """
    with RecordingReader(path) as reader:
        return Inspection(
            path=path,
            n_bytes=path.stat().st_size,
            created_by=reader.description.created_by,
            seed=reader.description.seed,
            stations=tuple(_facts(station) for station in reader.base_stations),
        )


def plot_recording(path: Path, folder: Path, stations: tuple[int, ...] = (0, 1, 2)) -> list[Path]:
    """Pictures of some moments, a PNG per base station.

    Where the recording was made from a world, the scene is made again from the text and the seed in the file; where it
    was imported, pictures show what the sensors saw.

    Args:
        path: path of the recording.
        folder: folder of the pictures, made if absent.
        stations: numbers of base stations; those that the recording does not have are ignored.

    Raises:
        ConfigError: none of these base stations is in the recording, or its world cannot be made again.
        DataError: no whole recording.
    """
    from .pictures import save_picture

    written = []
    with RecordingReader(path) as reader:
        shown = [station for station in reader.base_stations if station.index in stations]
        if not shown:
            raise ConfigError(f"{path} has base stations 0 to {len(reader.base_stations) - 1}, none of those asked for")
        folder.mkdir(parents=True, exist_ok=True)
        file = _world_file(reader)
        for station in shown:
            rows, moments = _moments(station)
            figure = _from_data(station, rows, moments) if file is None else _from_world(file, station, rows, moments)
            written.append(folder / f"bs{station.index:02d}.png")
            save_picture(figure, written[-1])
    return written


def _facts(station: RecordedStation) -> StationFacts:
    names = set(station.field_names)
    time_s, sequence = station.read("time_s"), station.read("sequence")
    inside = np.diff(sequence) == 0
    # not across sequences: the pause between two of them would bias the rate
    steps_s = np.diff(time_s)[inside]
    middle_s = float(np.median(steps_s)) if len(steps_s) else 0.0
    labels = {name: station.read(name) for name in LABELS if name in names}
    beams = station.read("best_beam") if "best_beam" in names else None
    return StationFacts(
        index=station.index,
        name=station.name,
        n_frames=station.n_frames,
        n_sequences=1 + int((~inside).sum()),
        duration_s=float(time_s[-1] - time_s[0]),
        rate_hz=station.rate_hz,
        measured_rate_hz=1.0 / middle_s if middle_s > 0.0 else None,
        modalities=station.modalities,
        fields=station.description.fields,
        blocked_shares={name: float(label.mean()) for name, label in labels.items()},
        n_events=len(_events(next(iter(labels.values())), sequence)) if labels else 0,
        disagreement=_disagreement(labels),
        beam_persistence=None if beams is None or not inside.any() else float((np.diff(beams) == 0)[inside].mean()),
        nan_sweep_share=next((_nan_share(station, one) for one in station.modalities if _is_swept(one)), None),
        doppler_spread_hz=_doppler_spread_hz(station) if "doppler_spread_hz" in names else None,
    )


def _doppler_spread_hz(station: RecordedStation) -> tuple[float, float]:
    middle, high = np.quantile(station.read("doppler_spread_hz"), (0.5, 0.9))
    return float(middle), float(high)


def _disagreement(labels: dict[str, NDArray[np.bool_]]) -> float | None:
    other = next((label for name, label in labels.items() if name != "blocked_power"), None)
    if other is None or "blocked_power" not in labels:
        return None
    return float((other != labels["blocked_power"]).mean())


def _is_swept(modality: Modality) -> bool:
    return MODALITY_SPECS[modality].per_beam


def _nan_share(station: RecordedStation, modality: Modality) -> float:
    n_missing = 0
    # block by block: the sweeps of a long recording may not fit into memory
    for first in range(0, station.n_frames, ROWS_AT_ONCE):
        n_missing += int(np.isnan(station.read(modality, slice(first, first + ROWS_AT_ONCE))).any(axis=1).sum())
    return n_missing / station.n_frames


def _events(blocked: NDArray[np.bool_], sequence: NDArray[Any]) -> list[tuple[int, int]]:
    """First row, and row after the last, of every blocked stretch; none goes on into another sequence."""
    cuts = np.flatnonzero((np.diff(blocked.astype(np.int8)) != 0) | (np.diff(sequence) != 0)) + 1
    borders = [0, *cuts.tolist(), len(blocked)]
    return [(one, other) for one, other in pairwise(borders) if blocked[one]]


def _moments(station: RecordedStation) -> tuple[slice, list[int]]:
    """A stretch of rows worth looking at, and moments in it: before, during and after a blockage, or spread evenly."""
    sequence, rate_hz = station.read("sequence"), station.rate_hz
    label = next((name for name in LABELS if name in station.field_names), None)
    events = _events(station.read(label), sequence) if label else []
    if events:
        # preferably alone: no other blockage in the seconds that are shown before it
        gap = round(AROUND_S * rate_hz)
        alone = [one for before, one in pairwise([(0, 0), *events]) if one[0] - before[1] >= gap] or events
        begin, end = alone[(len(alone) // 2 + station.index) % len(alone)]
        first, stop = begin - round(AROUND_S * rate_hz), end + round(AROUND_S * rate_hz)
        wanted = [begin - round(BEFORE_S * rate_hz), (begin + end - 1) // 2, end + round(BEFORE_S * rate_hz)]
    else:
        middle, half = station.n_frames // 2, round(QUIET_S * rate_hz / 2.0)
        begin, first, stop = middle, middle - half, middle + half
        wanted = [first + half // 3, middle, stop - half // 3]
    # a stretch must not reach into another sequence, where the scene is a different one
    same = np.flatnonzero(sequence == sequence[begin])
    first, stop = max(first, int(same[0])), min(stop, int(same[-1]) + 1)
    inside = sorted({min(max(row, first), stop - 1) - first for row in wanted})
    return slice(first, stop), inside[:MOMENTS]


def _world_file(reader: RecordingReader) -> WorldFile | None:
    """The world that made a recording; None for one that was imported, or whose file of tracks is another one now."""
    if reader.description.seed is None:
        return None
    file = parse_world(reader.description.scenario, str(reader.path))
    if file.section.tracks.file:
        recorded = {station.geometry.get("tracks_sha256") for station in reader.base_stations}
        with suppress(DataError):
            return file if recorded == {tracks_digest(file.section.tracks)} else None
        return None
    return file


def _from_world(file: WorldFile, station: RecordedStation, rows: slice, moments: list[int]) -> Figure:
    from .pictures import draw_moments

    site = RecordedSite.of(file, station.index)
    scene = site.scene(station.read("time_s", rows))
    readings = _readings(station, rows)
    pixels = None
    if has_images(readings):
        column, row, depth_m = pixels_of(scene.user_m, scene, site.camera)
        # behind the camera the projection would mirror the user into the image
        in_front = bool((depth_m > 0.0).all())
        pixels = np.stack([column, row], axis=-1) if in_front else None
    light = "night" if site.camera.night else "day"
    return draw_moments(
        scene,
        moments,
        readings,
        blocked=station.read("blocked_geometric", rows) if "blocked_geometric" in station.field_names else None,
        user_pixels=pixels,
        lidar_max_m=_lidar_max_m(station),
        title=f"base station {station.index}: {station.name}, {light}, seed {file.seed}",
    )


def _from_data(station: RecordedStation, rows: slice, moments: list[int]) -> Figure:
    from .sensor_panels import draw_recorded

    label = next((name for name in LABELS if name in station.field_names), None)
    return draw_recorded(
        station.read("time_s", rows),
        moments,
        _readings(station, rows),
        blocked=station.read(label, rows) if label else None,
        lidar_max_m=_lidar_max_m(station),
        title=station.name,
    )


def _lidar_max_m(station: RecordedStation) -> float:
    """Range from which on a ray has no echo; infinite without a LiDAR."""
    reach_m = station.nothing_seen("lidar") if "lidar" in station.modalities else None
    return np.inf if reach_m is None else reach_m


def _readings(station: RecordedStation, rows: slice) -> dict[Modality, NDArray[Any]]:
    """Modality -> [n_rows, ...] recorded frames, of the modalities that are drawn."""
    drawn = (modality for modality in station.modalities if MODALITY_SPECS[modality].picture)
    return {modality: station.read(modality, rows) for modality in drawn}
