"""Ways of boxes along a street, out of tracks of a file: placed, sized, and cut to where the street's boxes exist.

A box has faces along the axes. What drives more along the street than across it is long along it; what turns is one box
before and another one after.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...datasets.tracks.track_files import read_tracks
from ...datasets.tracks.track_table import TrackTable, TrackWindow
from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown
from ...emulator.world.street_settings import StreetSettings
from ...emulator.world.track_classes import TRACK_CLASSES, TrackClass, class_of
from ...emulator.world.tracks import HalfPlane, Way, rectangle, times_within
from ..schema.world_section import TracksSection, WorldSection

Array = NDArray[np.float64]
Point = tuple[float, float, float]

#: What is nearer than that to a place outside of the reach may come in before its next sample.
AROUND_REACH_M = 60.0
#: A track that is silent for so many usual steps, or faster than that, has ended; SUMO moves vehicles that are stuck.
LONGEST_GAP_STEPS, FASTEST_M_PER_S = 2.5, 100.0
#: Longer ways are several, end to end: arrays of ways are as wide as the longest.
MOST_KNOTS = 512


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """A track in the frame of a base station: [n] instants, [n, 2] centers, [n] whether it is long along x."""

    name: str
    boxes: TrackClass
    time_s: Array
    center_m: Array
    along_x: NDArray[np.bool_]
    first_sample: int


def track_ways(world: WorldSection, street: StreetSettings, index: int) -> list[Way]:
    """Vehicles and people around one base station while it records.

    Args:
        world: file, places, and length of the recording.
        street: geometry of the street; boxes exist within its reach, and between its walls.
        index: number of the base station.

    Raises:
        DataError: the file cannot be read, covers another time, has a type without a class, or something in it drives
            through an antenna; names file and line.
    """
    section, duration_s, start_s = world.tracks, world.duration_s, world.tracks.start_s
    antennas = {"the base station": (0.0, 0.0, street.base_station_height_m)}
    if world.user == "kerb":
        antennas["the user on the kerb"] = (street.user_x_m, street.user_y_m, street.user_height_m)
    places = tuple((x_m, y_m) for x_m, y_m, _ in section.places)
    table = read_tracks(
        section.path, TrackWindow(places, street.reach_m + AROUND_REACH_M, start_s, start_s + duration_s)
    )
    _check_clock(table, start_s, duration_s)
    usual_s = _usual_step_s(table)
    ways: list[Way] = []
    for course in _courses(table, section, section.place(index)):
        for piece in _pieces(course, usual_s):
            made = [way for way in _ways(course, piece, street) if _is_recorded(way, duration_s)]
            _check_antennas(table, course, made, antennas, section.place(index))
            ways.extend(made)
    if not ways:
        raise DataError(
            f"{shown(table.path)} has nobody between the walls of the street of base station {index}, within"
            f" {street.reach_m:g} m along it, while it records; change world.tracks.places or world.street"
        )
    return ways


def tracks_digest(section: TracksSection) -> str:
    """SHA-256 of the file of tracks, as hexadecimal text.

    Raises:
        DataError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(section.path) as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise DataError(f"no tracks at {shown(section.path)} ({reason(error)}); set world.tracks.file") from None
    return digest.hexdigest()


def _check_clock(table: TrackTable, start_s: float, duration_s: float) -> None:
    usual_s = _usual_step_s(table)
    if start_s < table.first_s - usual_s or start_s + duration_s > table.last_s + 2.0 * usual_s:
        raise DataError(
            f"{shown(table.path)} has tracks from {table.first_s:g} to {table.last_s:g} s, the recording needs them"
            f" from {start_s:g} to {start_s + duration_s:g} s; set world.tracks.start_s and world.duration_s"
        )


def _usual_step_s(table: TrackTable) -> float:
    steps_s = np.diff(table.time_s)[np.diff(table.track) == 0]
    return float(np.median(steps_s)) if len(steps_s) else 1.0


def _courses(table: TrackTable, section: TracksSection, place: tuple[float, float, float]) -> Iterator[_Course]:
    """Every track in the frame of a base station: x to its right, y ahead."""
    at_x_m, at_y_m, heading_deg = place
    turn_rad = np.radians(heading_deg)
    sine, cosine = np.sin(turn_rad), np.cos(turn_rad)
    borders = np.flatnonzero(np.diff(table.track, prepend=-1, append=-1))
    for first, stop in pairwise(borders.tolist()):
        named = table.names[table.track[first]]
        boxes = class_of(named.kind, named.is_person, section.classes)
        if boxes is None:
            raise DataError(
                f"{shown(table.path)}:{named.line}: {quoted(named.name)} is of type {quoted(named.kind)}, which does"
                f" not say what it is; name its class in world.tracks.classes, one of {', '.join(TRACK_CLASSES)}"
            )
        east_m, north_m = (table.place_m[first:stop] - [at_x_m, at_y_m]).T
        off_rad = np.radians(table.heading_deg[first:stop]) - turn_rad
        ahead = np.stack([np.sin(off_rad), np.cos(off_rad)], axis=1)
        center_m = np.stack([east_m * cosine - north_m * sine, east_m * sine + north_m * cosine], axis=1)
        if table.reference == "front" and not named.is_person:
            center_m -= boxes.size_m[0] / 2.0 * ahead
        yield _Course(
            named.name,
            boxes,
            table.time_s[first:stop] - section.start_s,
            center_m,
            np.abs(ahead[:, 0]) >= np.abs(ahead[:, 1]),
            first,
        )


def _pieces(course: _Course, usual_s: float) -> Iterator[slice]:
    """Stretches of samples without a gap or a jump, of one orientation; where it turns, both have the sample."""
    step_s = np.diff(course.time_s)
    far = np.linalg.norm(np.diff(course.center_m, axis=0), axis=1) > FASTEST_M_PER_S * step_s
    broken = (step_s > LONGEST_GAP_STEPS * usual_s) | far
    first = 0
    for sample in range(1, len(course.time_s) + 1):
        ends = sample == len(course.time_s) or bool(broken[sample - 1])
        turns = not ends and course.along_x[sample] != course.along_x[first]
        if ends or turns:
            stop = sample + 1 if turns else sample
            if stop - first > 1:
                yield slice(first, stop)
            first = sample


def _ways(course: _Course, piece: slice, street: StreetSettings) -> list[Way]:
    """Ways of one piece: what of it lies in the street, standing still as one leg, and none too long."""
    length_m, width_m, height_m = course.boxes.size_m
    size_m = (length_m, width_m, height_m) if course.along_x[piece.start] else (width_m, length_m, height_m)
    time_s, center_m = _without_repeats(course.time_s[piece], course.center_m[piece])
    ways: list[Way] = []
    for begin_s, end_s in times_within(time_s, center_m, _street_region(street, size_m)):
        inside = (time_s > begin_s) & (time_s < end_s)
        at_s = np.concatenate([[begin_s], time_s[inside], [end_s]])
        x_m, y_m = (np.interp(at_s, time_s, center_m[:, axis]) for axis in (0, 1))
        knots = tuple(zip(at_s.tolist(), x_m.tolist(), y_m.tolist(), strict=True))
        cuts = range(0, len(knots) - 1, MOST_KNOTS - 1)
        ways.extend(Way(course.boxes.kind, size_m, knots[first : first + MOST_KNOTS]) for first in cuts)
    return ways


def _is_recorded(way: Way, duration_s: float) -> bool:
    return way.knots[-1][0] > 0.0 and way.knots[0][0] <= duration_s


def _without_repeats(time_s: Array, center_m: Array) -> tuple[Array, Array]:
    still = (np.diff(center_m, axis=0) == 0.0).all(axis=1)
    kept = np.ones(len(time_s), dtype=bool)
    kept[1:-1] = ~(still[:-1] & still[1:])
    return time_s[kept], center_m[kept]


def _street_region(street: StreetSettings, size_m: tuple[float, float, float]) -> list[HalfPlane]:
    """Where boxes of a size exist: within the reach along the street, and between its walls."""
    half_x_m, half_y_m = street.reach_m + size_m[0] / 2.0, street.reach_m + street.user_y_m
    lowest_m, highest_m = -half_y_m, half_y_m
    if street.near_facade_setback_m:
        lowest_m = -street.near_facade_setback_m + size_m[1] / 2.0
    if street.facade_setback_m:
        highest_m = street.far_kerb_y_m + street.facade_setback_m - size_m[1] / 2.0
    return rectangle((-half_x_m, half_x_m), (lowest_m, highest_m))


def _check_antennas(
    table: TrackTable, course: _Course, ways: list[Way], antennas: Mapping[str, Point], place: Point
) -> None:
    """Refuses what drives through an antenna; low vehicles may pass below one."""
    for way in ways:
        knots = np.array(way.knots)
        for what, (x_m, y_m, height_m) in antennas.items():
            half_x_m, half_y_m = way.size_m[0] / 2.0, way.size_m[1] / 2.0
            near = rectangle((x_m - half_x_m, x_m + half_x_m), (y_m - half_y_m, y_m + half_y_m))
            met = times_within(knots[:, 0], knots[:, 1:], near) if height_m < way.size_m[2] else []
            if met:
                after = int(np.searchsorted(course.time_s, met[0][0], side="right"))
                sample = course.first_sample + min(after, len(course.time_s) - 1)
                raise DataError(
                    f"{table.where(sample)}: {quoted(course.name)} passes through {what} of the street placed at"
                    f" {place[0]:g}, {place[1]:g} m, {place[2]:g} deg, {met[0][0]:.1f} s after its beginning; change"
                    " world.tracks.places or world.street"
                )
