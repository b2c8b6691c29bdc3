"""Statistics of recorded streets: how often, how deeply and how long the line of sight is blocked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.world.scene import Kind, blockers
from ..recording.recorded_site import RecordedSite
from ..recording.world_file import WorldFile, parse_world

#: Below this loss nothing is near the line of sight.
CLEAR_BELOW_DB = 0.1
VEHICLES, PEOPLE = frozenset({Kind.CAR, Kind.VAN, Kind.BUS}), frozenset({Kind.PEDESTRIAN})
#: Number of instants per scene, which bounds memory.
AT_ONCE = 4096

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StreetFigures:
    """Statistics over all base stations.

    Attributes:
        vehicle_fall_db, pedestrian_fall_db: median power loss of the best beam against the clear level of its street,
            over frames blocked by vehicles only, or by people only; NaN without such frames.
        blocked_share: share of frames blocked by geometry, mean over base stations.
        lowest_share, highest_share: smallest and largest share of a base station.
        disagreement: share of frames whose power and geometry labels differ.
        n_events: number of blockages.
        median_event_s: median duration of a blockage.
    """

    vehicle_fall_db: float
    pedestrian_fall_db: float
    blocked_share: float
    lowest_share: float
    highest_share: float
    disagreement: float
    n_events: int
    median_event_s: float


def street_figures(path: Path) -> StreetFigures:
    """Statistics of a recording of streets with standing users.

    Raises:
        DataError: not a recording.
    """
    vehicle_db, pedestrian_db, shares, differ, events = [], [], [], [], []
    with RecordingReader(path) as reader:
        file = parse_world(reader.description.scenario, str(path))
        for station in reader.base_stations:
            blocked: Bools = station.read("blocked_geometric")
            fall_db = _fall_db(station)
            by_vehicles, by_people = _blocked_by_kind(file, station)
            # frames that both kinds block would mix the losses of the two
            vehicle_db.append(fall_db[blocked & by_vehicles & ~by_people])
            pedestrian_db.append(fall_db[blocked & by_people & ~by_vehicles])
            shares.append(float(blocked.mean()))
            differ.append(float((blocked != station.read("blocked_power")).mean()))
            events.append(event_lengths(blocked) / station.rate_hz)
    lengths_s = np.concatenate(events)
    return StreetFigures(
        vehicle_fall_db=_median(np.concatenate(vehicle_db)),
        pedestrian_fall_db=_median(np.concatenate(pedestrian_db)),
        blocked_share=float(np.mean(shares)),
        lowest_share=min(shares),
        highest_share=max(shares),
        disagreement=float(np.mean(differ)),
        n_events=len(lengths_s),
        median_event_s=_median(lengths_s),
    )


def event_lengths(blocked: Bools) -> NDArray[np.int64]:
    """[n_events] lengths in frames of all blockages, including those cut off by the start or end of the recording."""
    # a clear frame at either end gives every blockage a beginning and an end
    change = np.diff(np.concatenate([[False], blocked, [False]]).astype(np.int8))
    return (np.flatnonzero(change < 0) - np.flatnonzero(change > 0)).astype(np.int64)


def _fall_db(station: RecordedStation) -> Floats:
    """[n_frames] power loss of the best beam against its median over clear frames."""
    # the best beam of each frame: a blocked link may use the beam of a reflection
    best_db = SensedFrames.of(station, ["rf"]).frames("rf").max(axis=1).astype(np.float64)
    return np.asarray(np.median(best_db[station.read("los_loss_db") < CLEAR_BELOW_DB]) - best_db)


def _blocked_by_kind(file: WorldFile, station: RecordedStation) -> tuple[Bools, Bools]:
    """[n_frames] whether a vehicle, and [n_frames] whether a person, blocks the line of sight."""
    site, time_s = RecordedSite.of(file, station.index), station.read("time_s")
    by_vehicles: list[Bools] = []
    by_people: list[Bools] = []
    for begin in range(0, len(time_s), AT_ONCE):
        scene = site.scene(time_s[begin : begin + AT_ONCE])
        blocks = blockers(scene)
        for kinds, found in ((VEHICLES, by_vehicles), (PEOPLE, by_people)):
            found.append(np.asarray((blocks & np.isin(scene.kind, sorted(kinds))).any(axis=1)))
    return np.concatenate(by_vehicles), np.concatenate(by_people)


def _median(values: NDArray[Any]) -> float:
    return float(np.median(values)) if len(values) else float("nan")
