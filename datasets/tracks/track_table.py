"""Tracks as they are in a file: samples of vehicles and people, collected near some places and in one stretch of time.

A file may cover a city and a day; only what comes near a base station while it records is kept, and memory is bounded.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, shown

#: Most samples and tracks that are kept; 36 bytes each, and some hundred.
MOST_SAMPLES, MOST_TRACKS = 4_000_000, 200_000
#: Largest coordinate and instant: maps count from far away, clocks from 1970.
MOST_M, MOST_S = 1e8, 1e10
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class TrackWindow:
    """What of a file is kept.

    Attributes:
        places_m: centers of the neighborhoods, in coordinates of the file.
        radius_m: size of these: half the edge of a square.
        first_s, last_s: instants of the file's clock. One sample before and after is kept as well, for interpolation,
            as far as `margin_s` reaches.
        margin_s: see there.
    """

    places_m: Sequence[tuple[float, float]]
    radius_m: float
    first_s: float
    last_s: float
    margin_s: float = 10.0

    def covers(self, x_m: float, y_m: float) -> bool:
        """Whether a place is near enough."""
        radius_m = self.radius_m
        return any(abs(x_m - at_x) <= radius_m and abs(y_m - at_y) <= radius_m for at_x, at_y in self.places_m)


@dataclass(frozen=True, slots=True)
class TrackName:
    """A vehicle or a person of a file.

    Attributes:
        name: its name in the file.
        kind: the file's word for what it is; empty: it says nothing.
        is_person: whether the file lists it among people.
        line: where it is first mentioned.
    """

    name: str
    kind: str
    is_person: bool
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class TrackTable:
    """n samples of tracks, those of one track together and in the order of time.

    Attributes:
        path: file that they came from.
        first_s, last_s: first and last instant that the file covers, as far as it was read.
        reference: which point of a vehicle the places are: the middle of its "front", or its "center".
        names: tracks in the order of their first sample.
        track: [n] int64 number of each sample's track.
        time_s: [n] instants of the file's clock.
        place_m: [n, 2] coordinates of the file.
        heading_deg: [n] clockwise from +y.
        line: [n] int64 line of the file.
    """

    path: Path
    first_s: float
    last_s: float
    reference: Literal["front", "center"]
    names: tuple[TrackName, ...]
    track: NDArray[np.int64]
    time_s: NDArray[np.float64]
    place_m: NDArray[np.float64]
    heading_deg: NDArray[np.float64]
    line: NDArray[np.int64]

    def where(self, sample: int) -> str:
        """How messages name a sample: file and line."""
        return f"{shown(self.path)}:{int(self.line[sample])}"


class TrackCollector:
    """Collector of samples while a file is read.

    Args:
        path: file, for messages.
        window: what is kept.
    """

    def __init__(self, path: Path, window: TrackWindow) -> None:
        self._path, self._window = path, window
        self._numbers: dict[tuple[bool, str], int] = {}
        self._names: list[TrackName] = []
        self._track, self._line = array("q"), array("q")
        self._numbers_of_samples = array("d")
        self._lowest, self._highest = [math.inf] * 3, [-math.inf] * 3

    def covers(self, time_s: float) -> None:
        """Note an instant that the file has, also one without anybody."""
        self._lowest[0], self._highest[0] = min(self._lowest[0], time_s), max(self._highest[0], time_s)

    def add(
        self,
        line: int,
        name: str,
        kind: str,
        is_person: bool,
        time_s: float,
        x_m: float,
        y_m: float,
        heading_deg: float,
    ) -> None:
        """Keep a sample, if it lies in the window.

        Raises:
            DataError: too many are kept, or a name is too long.
        """
        window = self._window
        self.covers(time_s)
        for axis, value in enumerate((x_m, y_m), 1):
            self._lowest[axis], self._highest[axis] = min(self._lowest[axis], value), max(self._highest[axis], value)
        if not window.first_s - window.margin_s <= time_s <= window.last_s + window.margin_s:
            return
        if not window.covers(x_m, y_m):
            return
        number = self._numbers.setdefault((is_person, name), len(self._names))
        if number == len(self._names):
            if len(name) > LONGEST_NAME or len(kind) > LONGEST_NAME:
                raise DataError(f"{shown(self._path)}:{line}: a name has over {LONGEST_NAME} characters; shorten it")
            self._names.append(TrackName(name, kind, is_person, line))
        if len(self._names) > MOST_TRACKS or len(self._track) >= MOST_SAMPLES:
            raise DataError(
                f"{shown(self._path)} has over {MOST_TRACKS:,} tracks or {MOST_SAMPLES:,} samples near base stations"
                " while they record; record shorter, or write the file with a longer time step"
            )
        self._track.append(number)
        self._line.append(line)
        self._numbers_of_samples.extend((time_s, x_m, y_m, heading_deg))

    def table(self, reference: Literal["front", "center"]) -> TrackTable:
        """What was kept.

        Raises:
            DataError: nothing, or a track that is in two places at one instant.
        """
        if not len(self._track):
            raise DataError(self._nothing())
        numbers = np.array(self._numbers_of_samples).reshape(-1, 4)
        track, line = np.array(self._track, dtype=np.int64), np.array(self._line, dtype=np.int64)
        order = np.lexsort((numbers[:, 0], track))
        track, line, numbers = track[order], line[order], numbers[order]
        again = (np.diff(track) == 0) & (np.diff(numbers[:, 0]) <= 0.0)
        if again.any():
            sample = int(again.argmax()) + 1
            raise DataError(
                f"{shown(self._path)}:{int(line[sample])}: {quoted(self._names[track[sample]].name)} is there twice at"
                f" {numbers[sample, 0]:g} s; give every vehicle and person a name of its own"
            )
        return TrackTable(
            path=self._path,
            first_s=self._lowest[0],
            last_s=self._highest[0],
            reference=reference,
            names=tuple(self._names),
            track=track,
            time_s=numbers[:, 0],
            place_m=numbers[:, 1:3],
            heading_deg=numbers[:, 3],
            line=line,
        )

    def _nothing(self) -> str:
        window = self._window
        if not math.isfinite(self._lowest[1]):
            return f"{shown(self._path)} has no vehicle and no person; give a file with tracks"
        time_s, x_m, y_m = (f"{low:g} to {high:g}" for low, high in zip(self._lowest, self._highest, strict=True))
        return (
            f"{shown(self._path)} has nobody within {window.radius_m:g} m of a base station from {window.first_s:g} to"
            f" {window.last_s:g} s: its clock goes from {time_s} s, its places from {x_m} m in x, {y_m} m in y;"
            " set world.tracks.places and world.tracks.start_s"
        )


def parsed_number(where: str, name: str, text: str, most: float) -> float:
    """A finite number out of a file.

    Args:
        where: file and line.
        name: of the column or attribute.
        text: what stands there.
        most: largest magnitude.

    Raises:
        DataError: it is no number, or larger.
    """
    try:
        value = float(text) if len(text) <= 40 else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) <= most:
        raise DataError(f"{where}: {name} must be a number from {-most:g} to {most:g}, got {quoted(text)}")
    return value
