"""Layout of a file of paths: what a ray tracer found between the user and every base station, instant by instant.

The layout, version 1, in one HDF5 file; n frames and P paths of all frames together:

    /                format, version, carrier_hz, n_base_stations
    /bs00, /bs01     a group per base station
    /bs00/time_s     [n] and the other series of `FRAME_SERIES`; offset is [n + 1]: the paths of frame i are those from
                     offset[i] up to offset[i + 1] of the flat series
    /bs00/gain       [P] and the other series of `PATH_SERIES`

Angles are those of a unit vector that points away from an antenna, towards where the path goes or comes from: the
zenith from +z down, the azimuth from +x towards +y. The user sends and the base station receives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FORMAT = "sheafedge-paths"
VERSION = 1
PAGE = "docs/bring_your_world.md"

#: Most paths of a frame: the power of a sweep is a sum over pairs of them.
MOST_PATHS = 128
#: Whole turns are taken as well: some programs count azimuths from 0, others from -pi.
_TURN_RAD, _HALF_TURN_RAD = 6.2832, 3.1416


@dataclass(frozen=True, slots=True)
class PathSeries:
    """One series of a file of paths.

    Attributes:
        kinds: numpy kinds of its type: "f" real, "c" complex, "iu" whole numbers.
        dtype: type in which it is written.
        lowest, highest: values that it may have; of complex numbers, their magnitude.
        description: meaning, with the unit in brackets.
        is_needed: whether a file must have it.
        n_columns: 0: a number per row; otherwise so many.
    """

    kinds: str
    dtype: str
    lowest: float
    highest: float
    description: str
    is_needed: bool = True
    n_columns: int = 0


FRAME_SERIES: Mapping[str, PathSeries] = {
    "time_s": PathSeries("f", "float64", 0.0, 1e6, "instant of the frame, rising (s)"),
    "user_m": PathSeries(
        "f", "float64", -1e5, 1e5, "antenna of the user: along the street, across it, up (m)", True, 3
    ),
    "offset": PathSeries("iu", "int64", 0, 2**40, "number of paths of all frames before"),
}
PATH_SERIES: Mapping[str, PathSeries] = {
    "gain": PathSeries(
        "c", "complex64", 0.0, 1.0, "amplitude between isotropic antennas, phase at the carrier included"
    ),
    "delay_s": PathSeries("f", "float64", 0.0, 1.0, "time of flight (s)"),
    "arrival_zenith_rad": PathSeries("f", "float32", 0.0, _HALF_TURN_RAD, "zenith at the base station (rad)"),
    "arrival_azimuth_rad": PathSeries("f", "float32", -_TURN_RAD, _TURN_RAD, "azimuth at the base station (rad)"),
    "departure_zenith_rad": PathSeries("f", "float32", 0.0, _HALF_TURN_RAD, "zenith at the user (rad)", False),
    "departure_azimuth_rad": PathSeries("f", "float32", -_TURN_RAD, _TURN_RAD, "azimuth at the user (rad)", False),
    "doppler_hz": PathSeries("f", "float32", -1e6, 1e6, "Doppler shift, above 0: the path shortens (Hz)", False),
    "interactions": PathSeries("iu", "uint8", 0, 255, "reflections, diffractions and the like; 0: direct path", False),
}
