"""Whether beams and positions of a recording agree with what its geometry says the array faces, and counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .recording_reader import RecordedStation
from .site_geometry import CODEBOOK_ORDER, HEADING, clockwise, stated_heading_deg, stated_order

#: Frames that a judgment needs, nearest user whose bearing counts, least spread of bearings from the 5 % to the 95 %.
LEAST_FRAMES, NEAREST_M, LEAST_SPREAD_DEG = 50, 3.0, 20.0
#: Correlation of beams with bearings below which nothing is said: beams may be numbered at random.
LEAST_CORRELATION = 0.7
#: By how much the middle of the codebook may point beside the heading; half a usual sector is 45 degrees.
MOST_OFF_DEG = 15.0
_M_PER_DEGREE = 111_320.0


def orientation_complaints(station: RecordedStation) -> Iterator[str]:
    """What the order of its beams or its heading seems to be, of a base station with positions and best beams."""
    where_m, beam = _positions_m(station), _best_beams(station)
    if where_m is None or beam is None:
        return
    counted = np.linalg.norm(where_m, axis=1) >= NEAREST_M
    if counted.sum() < LEAST_FRAMES:
        return
    bearing_rad = np.arctan2(where_m[counted, 0], where_m[counted, 1])
    middle_rad = float(np.angle(np.exp(1j * bearing_rad).mean()))
    off_deg = np.degrees(np.angle(np.exp(1j * (bearing_rad - middle_rad))))
    low, high = np.quantile(off_deg, (0.05, 0.95))
    numbers = beam[counted].astype(np.float64)
    if high - low < LEAST_SPREAD_DEG or np.ptp(numbers) == 0.0:
        return
    correlation = float(np.corrcoef(off_deg, numbers)[0, 1])
    if abs(correlation) < LEAST_CORRELATION:
        return
    if correlation < 0.0:
        # clockwise here is as stated: beams were turned round before
        stated = stated_order(station.name, station.geometry)
        other = "clockwise" if stated == "counterclockwise" else "counterclockwise"
        yield (
            f"best beams follow the bearing of the user {other}, seen from above (correlation {abs(correlation):.2f});"
            f' state it in the geometry: "{CODEBOOK_ORDER}": "{other}"'
        )
    slope, offset_deg = np.polyfit(numbers, off_deg, 1)
    n_beams = station.field("rf").shape[0] if "rf" in station.field_names else int(numbers.max()) + 1
    faced_deg = (np.degrees(middle_rad) + offset_deg + slope * (n_beams - 1) / 2.0) % 360.0
    heading_deg = stated_heading_deg(station.name, station.geometry)
    beside_deg = (faced_deg - (heading_deg or 0.0) + 180.0) % 360.0 - 180.0
    if abs(beside_deg) > MOST_OFF_DEG:
        said = f"states no {HEADING}, so 0" if heading_deg is None else f"states {HEADING} = {heading_deg:g}"
        yield (
            f"the middle of the codebook is best at a bearing of about {faced_deg:.0f} degrees from north, while the"
            f" geometry {said}; what does the array face?"
        )


def _positions_m(station: RecordedStation) -> NDArray[np.float64] | None:
    """[n, 2] east and north of the base station; None: the recording does not tell."""
    if "gps" not in station.field_names:
        return None
    at = {name: index for index, name in enumerate(station.field("gps").columns)}
    gps = station.read("gps")
    if {"east_m", "north_m"} <= at.keys():
        return np.asarray(gps[:, [at["east_m"], at["north_m"]]], dtype=np.float64)
    place = [station.geometry.get(name) for name in ("latitude_deg", "longitude_deg")]
    if not {"latitude_deg", "longitude_deg"} <= at.keys() or not all(isinstance(one, float) for one in place):
        return None
    north_deg, east_deg = (gps[:, [at["latitude_deg"], at["longitude_deg"]]] - np.array(place)).T
    east_m = east_deg * np.cos(np.radians(float(place[0] or 0.0))) * _M_PER_DEGREE
    return np.stack([east_m, north_deg * _M_PER_DEGREE], axis=1)


def _best_beams(station: RecordedStation) -> NDArray[np.int64] | None:
    """[n] best beam of every frame, clockwise as far as the geometry knows; None: the recording does not tell."""
    if "best_beam" not in station.field_names:
        return None
    beam = station.read("best_beam").astype(np.int64)
    n_beams = station.field("rf").shape[0] if "rf" in station.field_names else int(beam.max()) + 1
    numbers = clockwise(np.arange(n_beams)[None], stated_order(station.name, station.geometry))[0]
    return np.asarray(numbers[np.clip(beam, 0, n_beams - 1)], dtype=np.int64)
