"""Reader of point clouds in PLY files, and the 2-D sweep that a cloud of a 3-D LiDAR comes down to.

Source: "The PLY Polygon File Format", Turk 1994: a header of lines, then the vertices, as text or binary.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import DataError
from ..emulator.regular_file import quoted, read_regular, reason, shown

#: A turn of a LiDAR of 128 lines has 262,144 points of up to 48 bytes.
MAX_BYTES, MAX_POINTS, MAX_HEADER_BYTES = 1 << 26, 1 << 20, 1 << 14
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
#: Rays of a sweep: one per degree, from -pi on.
N_RAYS = 360
#: Heights that count as obstacles: above the ground, which is where the lowest tenth of the points ends, and up to so
#: much above the LiDAR. Our choice: cars and people count, the road and the crowns of trees do not.
ABOVE_GROUND_M, ABOVE_SENSOR_M, GROUND_SHARE = 0.5, 1.0, 0.1
#: Farther than any LiDAR of the sets; nearer is the LiDAR's own housing.
FARTHEST_M, NEAREST_M = 500.0, 0.2


def read_ply(path: Path) -> NDArray[np.float64]:
    """[n, 3] points x, y and z of a PLY file, in m; those that are not finite, or too far to be seen, are left out.

    Raises:
        DataError: the file is missing, too large, damaged, or holds no vertices with x, y and z.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        with np.errstate(invalid="ignore"):  # damaged numbers, which are left out below
            points = _points(content)
    except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise DataError(
            f"{shown(path)} cannot be read as a PLY point cloud ({reason(error)}); fetch it again"
        ) from None
    return points[(np.abs(points) < FARTHEST_M).all(axis=1)]  # NaN is not below, either


def _points(content: bytes) -> NDArray[np.float64]:
    head, mark, body = content[:MAX_HEADER_BYTES].partition(b"end_header\n")
    if not mark:
        head, mark, body = content[:MAX_HEADER_BYTES].partition(b"end_header\r\n")
    if not mark or not head.startswith(b"ply"):
        raise ValueError("no PLY header")
    body = content[len(head) + len(mark) :]
    order, n_points, names, types = _header(head.decode("ascii", "replace").splitlines())
    if not {"x", "y", "z"} <= set(names):
        raise ValueError(f"vertices have {quoted(', '.join(names))}, not x, y and z")
    at = [names.index(axis) for axis in "xyz"]
    if not order:
        words = body.split()[: n_points * len(names)]
        if len(words) < n_points * len(names):
            raise ValueError(f"fewer values than its {n_points} vertices need")
        return np.stack([np.array(words[index :: len(names)]).astype(np.float64) for index in at], axis=1)
    row = np.dtype([(f"{index}", order + kind) for index, kind in enumerate(types)])
    vertices = np.frombuffer(body, dtype=row, count=n_points)
    return np.stack([vertices[f"{index}"].astype(np.float64) for index in at], axis=1)


def _header(lines: list[str]) -> tuple[str, int, list[str], list[str]]:
    """Byte order, number of vertices, and names and types of what each holds; vertices are the first element."""
    order, n_points, names, types, element = None, -1, list[str](), list[str](), ""
    for line in lines[1:]:
        words = line.split()
        if words[:1] == ["format"]:
            order = _ORDERS[words[1]]
        elif words[:1] == ["element"]:
            element = element or words[1]
            if words[1] == "vertex":
                n_points = int(words[2])
            elif n_points < 0:
                raise ValueError(f"its first element is {quoted(words[1])}, not vertex")
            element = words[1]
        elif words[:1] == ["property"] and element == "vertex":
            types.append(_TYPES[words[1]])
            names.append(words[2])
    if order is None or not 0 < n_points <= MAX_POINTS:
        raise ValueError(f"a header of {max(n_points, 0)} vertices, expected 1 to {MAX_POINTS} and a format")
    return order, n_points, names, types


def sweep_of_cloud(points_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """[360, 2] range in m along the ground to the nearest obstacle of every degree, 0 without one; angle in rad.

    Args:
        points_m: [n, 3] from the LiDAR, z upwards.
    """
    ground_m = float(np.quantile(points_m[:, 2], GROUND_SHARE)) if len(points_m) else 0.0
    range_m = np.hypot(points_m[:, 0], points_m[:, 1])
    stands = (points_m[:, 2] > ground_m + ABOVE_GROUND_M) & (points_m[:, 2] <= ABOVE_SENSOR_M)
    stands &= (range_m > NEAREST_M) & (range_m < FARTHEST_M)
    angle_rad = np.arctan2(points_m[stands, 1], points_m[stands, 0])
    ray = np.floor((angle_rad + math.pi) / math.tau * N_RAYS).astype(np.int64) % N_RAYS
    nearest_m = np.full(N_RAYS, np.inf)
    np.minimum.at(nearest_m, ray, range_m[stands])
    angles = -math.pi + (np.arange(N_RAYS) + 0.5) * math.tau / N_RAYS
    return np.stack([np.where(np.isinf(nearest_m), 0.0, nearest_m), angles], axis=1)
