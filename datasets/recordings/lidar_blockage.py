"""Whether a LiDAR saw what its blockage label says: the ray at the user's bearing shortens while something blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .recording_reader import RecordedStation

#: Frames of either kind that a judgment needs, and rays of all frames that are read.
LEAST_FRAMES, MOST_READ = 20, 1 << 23
#: By how much a ray shortens, in m, in the median over blocked frames; noise of LiDARs is 0.1 m at most.
LEAST_SHORTENING_M = 0.5
#: Rays within this angle of the user's bearing count; people are half a meter wide, and a bus stands beside the ray.
HALF_WIDTH_RAD = math.radians(6.0)
#: Frames that a label may lead or trail, and how much better a shifted label must fit.
MOST_LAG, LAG_MARGIN = 5, 0.05


def lidar_complaint(station: RecordedStation, label: str) -> Iterator[str]:
    """Why the LiDAR cannot have seen what the label says; nothing where it can, or too few frames are blocked.

    Args:
        station: base station with a LiDAR.
        label: name of its blockage label.
    """
    n_rays = station.field("lidar").shape[0]
    rows = slice(0, min(station.n_frames, max(LEAST_FRAMES, MOST_READ // n_rays)))
    blocked = station.read(label, rows)
    if min(int(blocked.sum()), int((~blocked).sum())) < LEAST_FRAMES:
        return
    sweeps = station.read("lidar", rows)
    range_m, angle_rad = sweeps[..., 0], np.median(sweeps[..., 1], axis=0)
    shortening_m = np.median(range_m[~blocked], axis=0) - np.median(range_m[blocked], axis=0)
    at_user = _rays_at_user(station.geometry, angle_rad)
    rays = np.flatnonzero(at_user) if at_user is not None and at_user.any() else np.arange(len(angle_rad))
    best = int(rays[shortening_m[rays].argmax()])
    if shortening_m[best] < LEAST_SHORTENING_M:
        which = "at the user's bearing" if at_user is not None and at_user.any() else "of any direction"
        clear_m, blocked_m = (float(np.median(range_m[those][:, best])) for those in (~blocked, blocked))
        yield (
            f"no LiDAR ray {which} shortens while {label} is true: the median of the one that shortens most is"
            f" {clear_m:.1f} m when clear and {blocked_m:.1f} m when blocked; are angles, labels and sweeps of one"
            " place and one time?"
        )
        return
    by_lag = {lag: _correlation(blocked, -range_m[:, best], lag) for lag in range(-MOST_LAG, MOST_LAG + 1)}
    lag = max(by_lag, key=lambda one: by_lag[one])
    if by_lag[lag] > by_lag[0] + LAG_MARGIN:
        yield (
            f"{label} fits the LiDAR {abs(lag)} frame(s) {'later' if lag > 0 else 'earlier'} better (correlation"
            f" {by_lag[lag]:.2f} instead of {by_lag[0]:.2f}); one of the two is shifted"
        )


def _rays_at_user(geometry: Mapping[str, Any], angle_rad: NDArray[Any]) -> NDArray[np.bool_] | None:
    """[n_rays] those near the bearing of a user who stands at a place that the geometry tells; None: it tells none.

    Angles count from +y towards +x, as those of emulated streets.
    """
    user, base = _place(geometry.get("user_m")), _place(geometry.get("base_station_m"))
    if user is None or base is None:
        return None
    bearing_rad = math.atan2(user[0] - base[0], user[1] - base[1])
    off_rad = np.abs((angle_rad - bearing_rad + math.pi) % math.tau - math.pi)
    near: NDArray[np.bool_] = off_rad < HALF_WIDTH_RAD
    return near


def _place(place: Any) -> tuple[float, float] | None:
    if not isinstance(place, list) or len(place) < 2 or not all(isinstance(one, int | float) for one in place[:2]):
        return None
    return float(place[0]), float(place[1])


def _correlation(blocked: NDArray[np.bool_], nearness: NDArray[Any], lag: int) -> float:
    """Of the label in one frame with the ray `lag` frames later."""
    n = len(blocked) - abs(lag)
    label = blocked[:n] if lag >= 0 else blocked[-n:]
    ray = nearness[-n:] if lag >= 0 else nearness[:n]
    if n < 3 or label.std() == 0.0 or ray.std() == 0.0:
        return 0.0
    return float(np.corrcoef(label, ray)[0, 1])
