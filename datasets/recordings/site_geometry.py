"""What the geometry of a base station states of its frames: reach of the LiDAR, axes of positions, order of beams.

Emulated arrays face north unless a heading turns them, and their beam 0 points to the left end of the sector. A
measured array faces wherever it was mounted, and may count its beams the other way round. Both are facts of the
installation: no recording holds them unless somebody says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError

#: Axes of positions: east and north, or to the right of the array and ahead of it.
PositionAxes = Literal["compass", "array"]
#: Direction in which the beams of a codebook follow each other, seen from above.
CodebookOrder = Literal["clockwise", "counterclockwise"]
#: Keys that state what the array faces, in degrees clockwise from north, and the order of its beams.
HEADING, CODEBOOK_ORDER = "heading_deg", "codebook_order"
#: Key that states the codebook, as `{"n_beams": 64}`; recordings of worlds have more of it there.
CODEBOOK = "codebook"
#: Key and value that state that `best_beam` is a label of its own, which holds in frames without powers as well.
BEST_BEAM, LABELED = "best_beam", "label"
#: Largest reach that a geometry can state.
LARGEST_REACH_M = 1e6


def stated_reach_m(geometry: Mapping[str, Any]) -> float | None:
    """Reach of the LiDAR, the reading of a ray without an echo; None: not stated."""
    lidar = geometry.get("lidar")
    reach_m = lidar.get("max_range_m") if isinstance(lidar, dict) else None
    return float(reach_m) if isinstance(reach_m, int | float) and 0.0 < reach_m <= LARGEST_REACH_M else None


def stated_heading_deg(where: str, geometry: Mapping[str, Any]) -> float | None:
    """Bearing of the array's broadside, clockwise from north; None: not stated.

    Args:
        where: how messages name the base station.
        geometry: of the base station.

    Raises:
        DataError: it is no number from -360 to 360.
    """
    stated = geometry.get(HEADING)
    if stated is None:
        return None
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not -360.0 <= stated <= 360.0:
        raise DataError(
            f"{where}: {HEADING} of the geometry must be degrees clockwise from north, -360 to 360, got"
            f" {str(stated)[:40]!r}; state the bearing that the array faces, or leave it out"
        )
    return float(stated)


def stated_order(where: str, geometry: Mapping[str, Any]) -> CodebookOrder:
    """Order of the beams; clockwise where none is stated.

    Args:
        where: how messages name the base station.
        geometry: of the base station.

    Raises:
        DataError: there is no such order.
    """
    stated = geometry.get(CODEBOOK_ORDER, "clockwise")
    known: tuple[CodebookOrder, ...] = get_args(CodebookOrder)
    found = next((order for order in known if order == stated), None)
    if found is None:
        raise DataError(
            f"{where}: {CODEBOOK_ORDER} of the geometry must be {' or '.join(known)}, got {str(stated)[:40]!r}; state"
            " how the beams follow each other, seen from above, or leave it out"
        )
    return found


def stated_n_beams(geometry: Mapping[str, Any]) -> int | None:
    """Number of beams of the codebook; None: not stated."""
    codebook = geometry.get(CODEBOOK)
    n_beams = codebook.get("n_beams") if isinstance(codebook, dict) else None
    return n_beams if isinstance(n_beams, int) and not isinstance(n_beams, bool) and n_beams > 1 else None


def states_best_beams(geometry: Mapping[str, Any]) -> bool:
    """Whether `best_beam` is a label of its own: frames without powers have a best beam as well."""
    return geometry.get(BEST_BEAM) == LABELED


def along_the_array(positions_m: NDArray[np.float64], heading_deg: float) -> NDArray[np.float64]:
    """[n, 2] positions to the right of an array and ahead of it.

    Args:
        positions_m: [n, 2] east and north of the base station.
        heading_deg: bearing of broadside, clockwise from north; 0 changes nothing, to the bit.
    """
    if heading_deg == 0.0:
        return positions_m
    turn_rad = np.radians(heading_deg)
    sine, cosine = np.sin(turn_rad), np.cos(turn_rad)
    east_m, north_m = positions_m[:, 0], positions_m[:, 1]
    return np.stack([east_m * cosine - north_m * sine, east_m * sine + north_m * cosine], axis=1)


def clockwise(sweeps: NDArray[Any], order: CodebookOrder) -> NDArray[Any]:
    """[n, n_beams] sweeps whose beam 0 is the leftmost, as emulated ones have it."""
    return np.ascontiguousarray(sweeps[:, ::-1]) if order == "counterclockwise" else sweeps
