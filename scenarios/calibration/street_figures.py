"""Figures of recorded streets that need no learning: how often, how deep and how long the link is blocked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.world.line_of_sight import blockers
from ...emulator.world.scene import Kind
from ..recording.recorded_site import RecordedSite
from ..schema.world_section import WorldFile, parse_world

#: Clear means that nothing at all is near the line of sight.
CLEAR_BELOW_DB = 0.1
VEHICLES, PEOPLE = frozenset({Kind.CAR, Kind.VAN, Kind.BUS}), frozenset({Kind.PEDESTRIAN})
#: Instants whose scene is made at once.
AT_ONCE = 4096

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StreetFigures:
    """Over all base stations.

    Attributes:
        vehicle_fall_db, pedestrian_fall_db: median over blocked frames of how far the best beam lies below the clear
            level of its street, where only vehicles, or only people, are in the way; NaN where there is no such frame.
        blocked_share: mean over base stations of the share of frames blocked by geometry.
        lowest_share, highest_share: of them.
        disagreement: share of frames in which the label by power is another one.
        n_events: times that a link becomes blocked.
        median_event_s: how long it then stays blocked.
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
    """Figures of a recording of streets with standing users.

    Raises:
        DataError: no recording.
    """
    vehicle_db, pedestrian_db, shares, differ, events = [], [], [], [], []
    with RecordingReader(path) as reader:
        file = parse_world(reader.description.scenario, str(path))
        for station in reader.base_stations:
            blocked: Bools = station.read("blocked_geometric")
            fall_db = _fall_db(station)
            by_vehicles, by_people = _who_blocks(file, station)
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
    """[n_events] frames of every unbroken blocked stretch, those that begin or end with the recording included."""
    change = np.diff(np.concatenate([[False], blocked, [False]]).astype(np.int8))
    return (np.flatnonzero(change < 0) - np.flatnonzero(change > 0)).astype(np.int64)


def _fall_db(station: RecordedStation) -> Floats:
    """[n_frames] how far the best beam lies below its median with a clear view."""
    best_db = SensedFrames.of(station, ["rf"]).frames("rf").max(axis=1).astype(np.float64)
    return np.asarray(np.median(best_db[station.read("los_loss_db") < CLEAR_BELOW_DB]) - best_db)


def _who_blocks(file: WorldFile, station: RecordedStation) -> tuple[Bools, Bools]:
    """[n_frames] whether a vehicle, and whether a person, stands in the line of sight."""
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
