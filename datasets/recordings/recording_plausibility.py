"""What in a recording can be read, and is probably not what was meant: clocks, units, labels, geometry.

Every threshold is our choice, far from what sensors of any world or measured set here give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from .array_orientation import orientation_complaints
from .lidar_blockage import lidar_complaint
from .recording_layout import frame_bytes
from .recording_reader import RecordedStation, RecordingReader
from .recording_survey import Finding, right_finding, structure_findings
from .recording_writer import station_group

#: Frames and bytes that are read of a large field, evenly spread over all of them.
MOST_FRAMES, MOST_BYTES = 2_000, 1 << 26
#: Relative difference of the measured rate from the stated one; a gap is a step so many times longer than the median.
RATE_MARGIN, GAP_STEPS = 0.1, 5.0
#: A label that is nearly never or nearly always true.
RARE, FREQUENT = 0.001, 0.9
#: Share of frames in which two labels of blockage differ, and in which `best_beam` is the strongest beam.
MOST_DIFFERING, LEAST_AGREEING = 0.3, 0.9
#: Least spread in dB between the strongest and the weakest beam of a sweep, and power in W that no receiver gets.
LEAST_SPREAD_DB, MOST_POWER_W = 1.0, 1e3
#: Share of rays at 0 m, or beyond the reach, that are no obstacle at the sensor.
MOST_ODD_RAYS = 0.01
#: Farthest range of a LiDAR on a street, speed of a user, share of frames that repeat the one before.
FARTHEST_M, FASTEST_M_S, MOST_REPEATED = 400.0, 120.0, 0.5
_BLOCKED = ("blocked_geometric", "blocked_labeled", "blocked_power")
_M_PER_DEGREE = 111_320.0


def check_recording(path: Path) -> list[Finding]:
    """All findings about a recording: what is wrong, or else what is right and what is implausible."""
    wrong = structure_findings(path)
    if wrong:
        return wrong
    found: list[Finding] = []
    try:
        with RecordingReader(path) as reader:
            for station in reader.base_stations:
                found.append(right_finding(station))
                where = station_group(station.index)
                found += [Finding("implausible", f"{where}: {sentence}") for sentence in _complaints(station)]
    except DataError as error:  # another program changed it meanwhile
        found.append(Finding("wrong", str(error)))
    return found


def _complaints(station: RecordedStation) -> Iterator[str]:
    names = set(station.field_names)
    checks: dict[str, Callable[[RecordedStation], Iterator[str]]] = {
        "time_s": _of_clock,
        "lidar": _of_lidar,
        "camera": _of_camera,
        "rf": _of_powers,
        "gps": _of_positions,
        "radar": _of_radar,
    }
    for name, check in checks.items():
        if name in names:
            yield from check(station)
    yield from orientation_complaints(station)
    yield from _of_labels(station)
    label = next((name for name in _BLOCKED if name in names), None)
    if "lidar" in names and label:
        yield from lidar_complaint(station, label)


def _spread(station: RecordedStation, name: str) -> NDArray[Any]:
    """Some frames of a field, evenly spread."""
    return station.read(name, slice(0, None, _stride(station, name)))


def _stride(station: RecordedStation, name: str) -> int:
    most = min(MOST_FRAMES, max(2, MOST_BYTES // frame_bytes(name, station.field(name).shape)))
    return -(-station.n_frames // most)


def _of_clock(station: RecordedStation) -> Iterator[str]:
    time_s, sequence = station.read("time_s"), station.read("sequence")
    steps_s = np.diff(time_s)[np.diff(sequence) == 0]
    if not len(steps_s):
        yield "no sequence has two frames, so that no window can be cut"
        return
    if still := int((steps_s == 0.0).sum()):
        yield f"time_s stands still in {still:,} of {len(steps_s):,} steps; are frames repeated, the clock coarse?"
    middle_s = float(np.median(steps_s))
    if middle_s > 0.0:
        rate_hz = 1.0 / middle_s
        if abs(rate_hz / station.rate_hz - 1.0) > RATE_MARGIN:
            yield (
                f"rate_hz is {station.rate_hz:g}, but frames follow one another at {rate_hz:.3g} Hz; is time_s in"
                " seconds?"
            )
        if gaps := int((steps_s > GAP_STEPS * middle_s).sum()):
            yield (
                f"time_s has {gaps:,} gaps of over {GAP_STEPS * middle_s:.3g} s inside of sequences, the longest of"
                f" {steps_s.max():.3g} s; windows would cross them, so begin a sequence after each"
            )


def _of_lidar(station: RecordedStation) -> Iterator[str]:
    sweeps = _spread(station, "lidar")
    range_m, angle_rad = sweeps[..., 0], sweeps[..., 1]
    reach_m = station.nothing_seen("lidar") or 0.0
    if range_m.max() > FARTHEST_M:
        yield f"lidar has a range of {range_m.max():,.0f} m; is it in millimeters?"
    if np.ptp(angle_rad) == 0.0 and range_m.shape[1] > 1:
        yield "lidar has the same angle in all rays; is the angle, in rad, in the second column?"
    if (range_m >= reach_m).all():
        yield f"lidar never sees anything nearer than its reach of {reach_m:g} m"
    for share, at in (((range_m == 0.0).mean(), "at 0 m"), ((range_m > reach_m).mean(), "beyond its reach")):
        if share > MOST_ODD_RAYS:
            yield (
                f"lidar has {share:.0%} of its rays {at}; a ray without an echo has the reach of {reach_m:g} m, and"
                " 0 m is an obstacle at the sensor; write_recording(no_echo_m=...) stores them so"
            )
    yield from _of_repetition("lidar", sweeps, station)


def _of_camera(station: RecordedStation) -> Iterator[str]:
    images = _spread(station, "camera")
    flat = images.reshape(len(images), -1)
    if dark := int((np.ptp(flat, axis=1) == 0).sum()):
        yield f"camera has {dark:,} images of one single value among {len(flat):,}; is the image there in every frame?"
    if images.max() <= 1 and images.any():
        yield "camera has no value above 1; are the levels from 0 to 255?"
    yield from _of_repetition("camera", images, station)


def _of_powers(station: RecordedStation) -> Iterator[str]:
    powers = _spread(station, "rf").astype(np.float64)
    measured = powers[~np.isnan(powers).any(axis=1)]
    if not len(measured):
        yield "rf has a beam that was not measured (NaN) in every sweep"
        return
    spread_db = 10.0 * np.log10(measured.max(axis=1) / measured.min(axis=1))
    if powers.shape[1] > 1 and np.median(spread_db) < LEAST_SPREAD_DB:
        yield (
            f"rf differs between the strongest and the weakest beam by {np.median(spread_db):.2f} dB in the median; is"
            " it linear power and not decibels?"
        )
    if np.median(measured) > MOST_POWER_W and station.field("rf").unit == "W":
        yield f"rf has a median of {np.median(measured):.3g} W; is its unit W? Powers on another scale say so in `unit`"
    if "best_beam" in station.field_names:
        best = station.read("best_beam", slice(0, None, _stride(station, "rf")))
        right = measured.argmax(axis=1) == best[~np.isnan(powers).any(axis=1)]
        if right.mean() < LEAST_AGREEING:
            yield (
                f"best_beam is the strongest beam of rf in {right.mean():.0%} of the sweeps; beams are counted from 0,"
                " in the order of rf"
            )


def _of_positions(station: RecordedStation) -> Iterator[str]:
    columns = station.field("gps").columns
    gps, time_s, sequence = station.read("gps"), station.read("time_s"), station.read("sequence")
    at = {name: index for index, name in enumerate(columns)}
    if {"latitude_deg", "longitude_deg"} <= at.keys():
        degrees = gps[:, [at["latitude_deg"], at["longitude_deg"]]]
        if lost := int((np.abs(degrees) < 1e-6).all(axis=1).sum()):
            yield f"gps is at latitude 0, longitude 0 in {lost:,} frames, as receivers say without a fix; drop them"
        plane_m = degrees * _M_PER_DEGREE * [1.0, math.cos(math.radians(float(np.median(degrees[:, 0]))))]
    elif {"east_m", "north_m"} <= at.keys():
        plane_m = gps[:, [at["east_m"], at["north_m"]]]
    else:
        return
    if len(gps) > 1 and not np.ptp(plane_m, axis=0).any():
        yield "gps is the same in all frames; a user that does not move tells nothing"
    step_s = np.diff(time_s)
    moves = (np.diff(sequence) == 0) & (step_s > 0.0)
    if moves.any():
        speed = np.linalg.norm(np.diff(plane_m, axis=0)[moves], axis=1) / step_s[moves]
        if (fast := float(np.quantile(speed, 0.99))) > FASTEST_M_S:
            yield f"gps moves at {fast:,.0f} m/s in one step of a hundred; are positions in meters, time_s in seconds?"


def _of_radar(station: RecordedStation) -> Iterator[str]:
    maps = _spread(station, "radar")
    if not maps.any():
        yield "radar is 0 everywhere: nothing above the noise in any frame"
    yield from _of_repetition("radar", maps, station)


def _of_repetition(name: str, frames: NDArray[Any], station: RecordedStation) -> Iterator[str]:
    if len(frames) == station.n_frames > 1:
        same = (np.diff(frames.reshape(len(frames), -1).astype(np.float32), axis=0) == 0).all(axis=1)
        if same.mean() > MOST_REPEATED:
            yield f"{name} repeats the frame before in {same.mean():.0%} of the frames; is it slower than rate_hz?"


def _of_labels(station: RecordedStation) -> Iterator[str]:
    labels = {name: station.read(name) for name in _BLOCKED if name in station.field_names}
    for name, blocked in labels.items():
        share = float(blocked.mean())
        if share < RARE or share > FREQUENT:
            yield f"{name} is true in {share:.2%} of the frames; is true what is blocked?"
    if "blocked_power" in labels and len(labels) > 1:
        other = next(name for name in labels if name != "blocked_power")
        differ = float((labels[other] != labels["blocked_power"]).mean())
        if differ > MOST_DIFFERING:
            yield f"{other} and blocked_power differ in {differ:.0%} of the frames; is one of them inverted or shifted?"
    if "best_beam" in station.field_names and station.n_frames > 1 and not np.ptp(station.read("best_beam")):
        yield "best_beam is the same in all frames: there is nothing to learn about beams"
