"""`StreetWorld`: a street with traffic, pedestrians, a base station and its user, at any instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ..contracts import ConfigError
from .pedestrians import crossers, walkers
from .scene import Array, Facade, Kind, Scene, Surroundings
from .street_settings import StreetSettings
from .tracks import Index, Slots, Tracks, Way, times_within
from .traffic import vehicles

#: A tracked car carries its antenna this far above its roof.
ROOF_ANTENNA_M = 0.1
#: It is tracked while its bearing from the base station is within so many degrees of broadside.
TRACKED_SECTOR_DEG = 45.0
BETWEEN_SEQUENCES = -1
#: Shortest pass of a car whose way comes from a file, and the last instant of such a pass before its way ends.
LEAST_PASS_S, BEFORE_END_S = 1.0, 1e-6


class StreetWorld:
    """One street for some time: all arrivals are drawn in advance, and positions are closed-form functions of time.

    So scenes can be computed for any instants in any order, always with the same result. Memory grows with the number
    of passing vehicles and people, about 200 bytes each, plus the instants of one scene.

    Attributes:
        settings: settings of the street.
        duration_s: last valid instant; the first is 0.
        user: "kerb": the user stands on the far kerb; "car": one car after the other is the user.
        passes_s: [n_passes, 2] first and last instant of each tracked car inside the sector; none with a user on the
            kerb. Passes do not overlap; between them there is nothing to track.

    Args:
        settings, duration_s, user: as above.
        draws: random stream of all movement.
        ways: vehicles and people in the place of drawn ones, on any way; None: they are drawn.
    """

    def __init__(
        self,
        settings: StreetSettings,
        draws: np.random.Generator,
        duration_s: float,
        user: Literal["kerb", "car"] = "kerb",
        ways: Sequence[Way] | None = None,
    ) -> None:
        if not 0.0 < duration_s < np.inf:
            raise ConfigError(f"duration_s must be a positive number of seconds, got {duration_s}")
        self.settings, self.duration_s, self.user = settings, float(duration_s), user
        self._drives_straight = ways is None
        self._tracks = Tracks.of(self._drawn_ways(draws) if ways is None else ways)
        self._slots = Slots(self._tracks, 0.0, duration_s)
        self._surroundings = _surroundings(settings)
        self._pass_track, self.passes_s = self._tracked_cars() if user == "car" else _no_passes()

    def _drawn_ways(self, draws: np.random.Generator) -> list[Way]:
        settings, duration_s = self.settings, self.duration_s
        # One stream each: more people on a kerb do not change the vehicles of any lane.
        *lane_draws, near_draws, far_draws, crossing_draws = draws.spawn(settings.n_lanes + 3)
        lanes = [list(vehicles(settings, lane, stream, duration_s)) for lane, stream in enumerate(lane_draws)]
        people = [
            *walkers(settings, True, near_draws, duration_s),
            *walkers(settings, False, far_draws, duration_s),
            # Last, because they wait for gaps between the vehicles.
            *crossers(settings, lanes, crossing_draws, duration_s),
        ]
        return [way for lane in lanes for way in lane] + people

    @property
    def n_boxes(self) -> int:
        """Number of box slots in every scene: the largest number of simultaneous boxes."""
        return len(self._slots)

    def scene(self, times_s: Array) -> Scene:
        """The street at some instants.

        A box keeps its column while it is present.

        Args:
            times_s: [F] in any order, each from 0 to the duration; with a tracked car also inside a pass.

        Raises:
            ConfigError: an instant outside the duration or between two passes.
        """
        times_s = self._checked(times_s)
        track, present = self._slots.tracks_at(times_s)
        center, velocity = self._tracks.motion_at(track, times_s[:, None])
        kind = np.where(present, self._tracks.kind[track], np.uint8(Kind.NONE))
        if self.user == "car":
            kind[present & (track == self._target_track(times_s)[:, None])] = Kind.TARGET
        shown = present[..., None]
        return Scene(
            time_s=times_s,
            center_m=np.where(shown, center, 0.0),
            size_m=np.where(shown, self._tracks.size_m[track], 0.0),
            velocity_m_per_s=np.where(shown, velocity, 0.0),
            kind=kind,
            present=present,
            base_station_m=np.array([0.0, 0.0, self.settings.base_station_height_m]),
            user_m=self.user_before_m(times_s, 0.0),
            surroundings=self._surroundings,
        )

    def sequence_index(self, times_s: Array) -> Index:
        """[F] number of the pass at each instant, `BETWEEN_SEQUENCES` outside; with a user on the kerb always 0."""
        times_s = np.asarray(times_s, dtype=np.float64)
        if self.user == "kerb":
            return np.zeros(len(times_s), dtype=np.int64)
        index = np.searchsorted(self.passes_s[:, 0], times_s, side="right") - 1
        inside = (index >= 0) & (times_s <= self.passes_s[np.maximum(index, 0), 1])
        return np.where(inside, index, BETWEEN_SEQUENCES)

    def user_before_m(self, times_s: Array, delay_s: float) -> Array:
        """[F, 3] where the user's antenna was a delay ago, but not before its pass began: what a slow GPS reports.

        Raises:
            ConfigError: as of `scene`.
        """
        times_s = self._checked(times_s)
        if self.user == "kerb":
            place = (self.settings.user_x_m, self.settings.user_y_m, self.settings.user_height_m)
            return np.tile(np.array(place), (len(times_s), 1))
        begin_s = self.passes_s[self.sequence_index(times_s), 0]
        track = self._target_track(times_s)
        center, _ = self._tracks.motion_at(track, np.maximum(times_s - delay_s, begin_s))
        center[:, 2] += self._tracks.size_m[track, 2] / 2.0 + ROOF_ANTENNA_M
        return center

    def _checked(self, times_s: Array) -> Array:
        times_s = np.asarray(times_s, dtype=np.float64)
        outside = ~((times_s >= 0.0) & (times_s <= self.duration_s))
        if outside.any():
            raise ConfigError(
                f"times_s[{int(outside.argmax())}] = {times_s[outside.argmax()]} lies outside of the street's "
                f"[0, {self.duration_s:g}] s; make the world last longer"
            )
        between = self.sequence_index(times_s) == BETWEEN_SEQUENCES
        if between.any():
            raise ConfigError(
                f"times_s[{int(between.argmax())}] = {times_s[between.argmax()]} lies between two passes, where no car "
                "is tracked; use instants inside passes_s"
            )
        return times_s

    def _target_track(self, times_s: Array) -> Index:
        return self._pass_track[self.sequence_index(times_s)]

    def _tracked_cars(self) -> tuple[Index, Array]:
        """The next car that enters the sector after the one before has left it, over and over."""
        chosen: list[tuple[float, float, int]] = []
        for begin_s, end_s, track in sorted(self._straight_passes() if self._drives_straight else self._any_passes()):
            # One user at a time: passes that overlap would leave the target undefined.
            if not chosen or begin_s > chosen[-1][1]:
                chosen.append((begin_s, end_s, track))
        if not chosen:
            raise ConfigError(
                f"no car passes within {self.duration_s:g} s; make the world last longer, raise street.arrivals_per_s,"
                " or take a file with cars in view"
            )
        numbers = np.array(chosen)
        return numbers[:, 2].astype(np.int64), numbers[:, :2]

    def _straight_passes(self) -> Iterator[tuple[float, float, int]]:
        """First and last instant in the sector, and track, of all cars of a street whose lanes run along x."""
        tracks = self._tracks
        for track in np.flatnonzero(tracks.kind == Kind.CAR).tolist():
            (x_m, y_m), x_m_per_s = tracks.knot_m[track, 0], tracks.leg_m_per_s[track, 0, 0]
            # Not beyond the reach, where boxes do not exist.
            half_m = min(y_m * np.tan(np.radians(TRACKED_SECTOR_DEG)), self.settings.reach_m)
            middle_s = tracks.knot_s[track, 0] - x_m / x_m_per_s
            begin_s, end_s = middle_s - half_m / abs(x_m_per_s), middle_s + half_m / abs(x_m_per_s)
            if begin_s >= 0.0 and end_s <= self.duration_s:
                yield float(begin_s), float(end_s), track

    def _any_passes(self) -> Iterator[tuple[float, float, int]]:
        """The same of cars on any way: a car that leaves the sector and comes back passes twice."""
        tracks, slope = self._tracks, float(np.tan(np.radians(TRACKED_SECTOR_DEG)))
        reach_m = self.settings.reach_m
        sector = [(1.0, -slope, 0.0), (-1.0, -slope, 0.0), (-1.0, 0.0, reach_m), (1.0, 0.0, reach_m)]
        for track in np.flatnonzero(tracks.kind == Kind.CAR).tolist():
            for first_s, last_s in times_within(tracks.knot_s[track], tracks.knot_m[track], sector):
                # a box is absent at the last instant of its way
                begin_s = max(first_s, 0.0)
                end_s = min(last_s, float(tracks.end_s[track]) - BEFORE_END_S, self.duration_s)
                if end_s - begin_s >= LEAST_PASS_S:
                    yield begin_s, end_s, track


def _no_passes() -> tuple[Index, Array]:
    return np.empty(0, dtype=np.int64), np.empty((0, 2))


def _surroundings(settings: StreetSettings) -> Surroundings:
    half_m, facades = settings.facade_half_length_m, []
    if settings.facade_setback_m:
        y_m = settings.far_kerb_y_m + settings.facade_setback_m
        facades.append(Facade(y_m, -half_m, half_m, settings.facade_height_m, settings.facade_material))
    if settings.near_facade_setback_m:
        y_m = -settings.near_facade_setback_m
        facades.append(Facade(y_m, -half_m, half_m, settings.near_facade_height_m, settings.near_facade_material))
    return Surroundings(
        facades=tuple(facades),
        ground_material="concrete",
        kerbs_y_m=(settings.roadway_offset_m, settings.far_kerb_y_m),
        lanes_y_m=settings.lanes_y_m,
    )
