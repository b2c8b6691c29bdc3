"""Paths that a ray tracer found, in the place of those that the emulator finds itself.

The world stays the emulator's: sensors, labels by geometry and noise are the same; only the channel of the sweeps is
the file's. So a file is refused unless it was traced in this world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.ray_paths.path_reader import PathReader, TracedStation
from ...emulator.contracts import DataError
from ...emulator.radio.channel import in_array_frame
from ...emulator.radio.doppler import direct_doppler_hz
from ...emulator.radio.waves import SPEED_OF_LIGHT_M_PER_S, wavelength_m
from ...emulator.world.scene import Scene
from ...emulator.world.street import BETWEEN_SEQUENCES
from .recorded_site import RecordedSite

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: A file's clock and places may have been through a few decimals; its delays through float32.
CLOCK_TOLERANCE_S, PLACE_TOLERANCE_M, LENGTH_TOLERANCE_M = 1e-6, 1e-3, 0.01
#: No path of a street or a sky is longer than the direct one by this much: 10 us. Delays in ms or us are.
LONGEST_DETOUR_M = 3000.0
#: No path is stronger than free space over its own length by this much: diffraction adds 1.4 dB at most, antenna gains
#: that were left in the amplitudes more.
MOST_GAIN_DB = 6.0
#: The phase of a direct path is that of its delay, within this; a sign may come from how antennas are polarized.
PHASE_TOLERANCE_RAD = 0.3
#: The shift of a direct path is that of the user's velocity, within this share of it, or so many Hz.
DOPPLER_TOLERANCE, DOPPLER_TOLERANCE_HZ = 0.02, 2.0
#: Frames that are checked, and instants that are counted, at once.
FRAMES_AT_ONCE, TICKS_AT_ONCE = 4096, 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class TracedChannel:
    """F channels of P paths out of a file, in the order of the file; see `ArrivingPaths`.

    Attributes:
        valid: [F, P] bool, there is a path, and it arrives in front of the array.
        gain: [F, P] complex amplitude, 0 where not valid.
        delay_s: [F, P] time of flight.
        direction_sine: [F, P] sine of the angle off the array's broadside.
        doppler_hz: [F, P] Doppler shift; 0 where the file states none.
    """

    valid: NDArray[np.bool_]
    gain: NDArray[np.complex128]
    delay_s: Array
    direction_sine: Array
    doppler_hz: Array


@dataclass(frozen=True, slots=True)
class PathFigures:
    """What the paths of one base station look like.

    Attributes:
        n_frames: frames with an instant in the file.
        n_missing: frames of the world that the file leaves out.
        n_paths: paths of all frames.
        n_empty: frames without any path.
        n_behind: paths that arrive from behind the array, which does not receive them.
        wrong_phase_share: share of the direct paths whose phase is not that of their delay; None: none is marked.
        wrong_doppler_share: share of the direct paths whose Doppler shift is not that of the world's user; None: none
            is marked, or there are no shifts.
    """

    n_frames: int
    n_missing: int
    n_paths: int
    n_empty: int
    n_behind: int
    wrong_phase_share: float | None
    wrong_doppler_share: float | None


class TracedPaths:
    """Paths of one base station in a file, matched to the instants of a site.

    Args:
        site: base station of the world.
        station: the same one in the file.

    Attributes:
        ticks: [n] frames of the world's clock that the file has.
        figures: what the paths look like.

    Raises:
        DataError: an instant that the world does not record, a user who is elsewhere, or a path that cannot be.
    """

    def __init__(self, site: RecordedSite, station: TracedStation) -> None:
        self._site, self._station = site, station
        self._check_doppler_is_there()
        self.ticks = self._matching_ticks()
        self.figures = self._checked()

    def channel(self, first: int, stop: int) -> TracedChannel:
        """Channels of the file's frames `first` up to `stop`."""
        offset = self._station.offset[first : stop + 1]
        flat = self._station.paths(first, stop)
        frame = np.repeat(np.arange(stop - first), np.diff(offset))
        column = np.arange(len(frame)) - (offset[:-1] - offset[0])[frame]
        shape = stop - first, max(int(np.diff(offset).max(initial=0)), 1)
        sine, ahead = self._directions(flat)
        in_front = ahead > 0.0

        def spread(values: NDArray[Any], kind: Any) -> NDArray[Any]:
            room = np.zeros(shape, dtype=kind)
            room[frame, column] = np.where(in_front, values, 0)
            return room

        return TracedChannel(
            spread(in_front, np.bool_),
            spread(flat["gain"], np.complex128),
            spread(flat["delay_s"], np.float64),
            spread(sine, np.float64),
            spread(flat.get("doppler_hz", np.zeros(len(frame))), np.float64),
        )

    def _matching_ticks(self) -> Index:
        section, time_s = self._site.file.section, self._station.time_s
        ticks = np.rint(time_s * section.rate_hz).astype(np.int64)
        off = (np.abs(ticks / section.rate_hz - time_s) > CLOCK_TOLERANCE_S) | (ticks >= section.n_ticks)
        if off.any():
            frame = int(off.argmax())
            raise DataError(
                f"{self._station.where}: time_s is {time_s[frame]:.9g} in frame {frame}, which is no instant of this"
                f" world: it records every {1.0 / section.rate_hz:g} s from 0 to below {section.duration_s:g} s"
            )
        between = self._site.world.sequence_index(ticks / section.rate_hz) == BETWEEN_SEQUENCES
        if between.any():
            frame = int(between.argmax())
            raise DataError(
                f"{self._station.where}: time_s is {time_s[frame]:.9g} in frame {frame}, when this world has no user:"
                " it lies between two passes or flights; leave such frames out"
            )
        return ticks

    def _check_doppler_is_there(self) -> None:
        section = self._site.file.section
        if section.needs_doppler and "doppler_hz" not in self._station.series:
            needs = "world.doppler = true" if section.doppler else "world.sweep.duration_s above 0"
            raise DataError(
                f"{self._station.where}: there is no series doppler_hz, which {needs} needs; trace with Doppler shifts,"
                " or leave the field of the world out"
            )

    def _checked(self) -> PathFigures:
        station, n_behind, n_direct, n_off, n_shifted = self._station, 0, 0, 0, 0
        for first in range(0, len(station), FRAMES_AT_ONCE):
            stop = min(first + FRAMES_AT_ONCE, len(station))
            flat = station.paths(first, stop)
            frame = np.repeat(np.arange(first, stop), np.diff(station.offset[first : stop + 1]))
            scene = self._site.scene(self.ticks[first:stop] / self._site.file.section.rate_hz)
            self._check_places(first, stop, scene.user_m)
            distance_m = np.linalg.norm(scene.user_m - scene.base_station_m, axis=1)[frame - first]
            length_m = flat["delay_s"].astype(np.float64) * SPEED_OF_LIGHT_M_PER_S
            self._check_lengths(frame, length_m, distance_m)
            self._check_gains(frame, np.abs(flat["gain"]).astype(np.float64), length_m)
            n_behind += int((self._directions(flat)[1] <= 0.0).sum())
            if "interactions" in flat:
                direct = flat["interactions"] == 0
                n_direct += int(direct.sum())
                n_off += int(self._off_phase(flat["gain"][direct], flat["delay_s"][direct]).sum())
                if "doppler_hz" in flat:
                    n_shifted += int(self._off_doppler(scene, frame[direct] - first, flat["doppler_hz"][direct]).sum())
        counts = np.diff(station.offset)
        return PathFigures(
            n_frames=len(station),
            n_missing=self._n_recorded() - len(station),
            n_paths=int(station.offset[-1]),
            n_empty=int((counts == 0).sum()),
            n_behind=n_behind,
            wrong_phase_share=n_off / n_direct if n_direct else None,
            wrong_doppler_share=n_shifted / n_direct if n_direct and "doppler_hz" in station.series else None,
        )

    def _n_recorded(self) -> int:
        n_ticks = self._site.file.section.n_ticks
        borders = range(0, n_ticks, TICKS_AT_ONCE)
        pieces = (np.arange(first, min(first + TICKS_AT_ONCE, n_ticks)) for first in borders)
        return sum(len(self._site.instants(piece)[0]) for piece in pieces)

    def _check_places(self, first: int, stop: int, user_m: Array) -> None:
        off_m = np.linalg.norm(self._station.user_m[first:stop] - user_m, axis=1)
        if (off_m > PLACE_TOLERANCE_M).any():
            row = int((off_m > PLACE_TOLERANCE_M).argmax())
            theirs, ours = (_place(one) for one in (self._station.user_m[first + row], user_m[row]))
            raise DataError(
                f"{self._station.where}: user_m is {theirs} in frame {first + row}, where the user of this world stands"
                f" at {ours}; trace the world of --world, with its seed"
            )

    def _check_lengths(self, frame: Index, length_m: Array, distance_m: Array) -> None:
        short = length_m < distance_m - np.maximum(LENGTH_TOLERANCE_M, 1e-6 * distance_m)
        wrong = short | (length_m > distance_m + LONGEST_DETOUR_M)
        if wrong.any():
            path = int(wrong.argmax())
            how = "shorter than the straight line" if short[path] else f"over {LONGEST_DETOUR_M:g} m of detour"
            raise DataError(
                f"{self._station.where}: delay_s of a path of frame {frame[path]} makes it {length_m[path]:.5g} m long,"
                f" {how} of {distance_m[path]:.5g} m; give delays in seconds, from the user to the base station"
            )

    def _check_gains(self, frame: Index, magnitude: Array, length_m: Array) -> None:
        free_space = wavelength_m(self._site.channel.carrier_hz) / (4.0 * np.pi * length_m)
        wrong = magnitude > free_space * 10.0 ** (MOST_GAIN_DB / 20.0)
        if wrong.any():
            path = int(wrong.argmax())
            raise DataError(
                f"{self._station.where}: gain of a path of frame {frame[path]} has magnitude {magnitude[path]:.3g},"
                f" free space over its {length_m[path]:.4g} m leaves {free_space[path]:.3g}; give amplitudes between"
                " isotropic antennas, not powers, decibels or beams"
            )

    def _off_phase(self, gain: NDArray[Any], delay_s: NDArray[Any]) -> NDArray[np.bool_]:
        cycles = np.mod(self._site.channel.carrier_hz * delay_s.astype(np.float64), 1.0)
        off_rad = np.angle((gain * np.exp(2j * np.pi * cycles)) ** 2) / 2.0  # squared: of either sign
        return np.asarray(np.abs(off_rad) > PHASE_TOLERANCE_RAD)

    def _off_doppler(self, scene: Scene, frame: Index, shift_hz: NDArray[Any]) -> NDArray[np.bool_]:
        """[n] whether shifts of direct paths in these frames of the scene are not those of its user."""
        expected_hz = direct_doppler_hz(scene, self._site.channel.carrier_hz)[frame]
        tolerance_hz = np.maximum(DOPPLER_TOLERANCE_HZ, DOPPLER_TOLERANCE * np.abs(expected_hz))
        return np.asarray(np.abs(shift_hz - expected_hz) > tolerance_hz)

    def _directions(self, flat: Any) -> tuple[Array, Array]:
        """[P] components of where the paths come from, along the array and along its broadside."""
        zenith, azimuth = (flat[f"arrival_{angle}_rad"].astype(np.float64) for angle in ("zenith", "azimuth"))
        level = np.sin(zenith)
        towards = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.cos(zenith)], axis=-1)
        return in_array_frame(towards, self._site.channel.orientation_deg)


def matched_paths(reader: PathReader, sites: Sequence[RecordedSite]) -> list[TracedPaths]:
    """The paths of every base station of a world.

    Raises:
        DataError: another number of base stations, another carrier, or as `TracedPaths`.
    """
    n_traced = len(reader.base_stations)
    if n_traced != len(sites):
        raise DataError(
            f"{reader.path} has {n_traced} base stations, the world {len(sites)}; set world.n_sites={n_traced}"
        )
    carrier_hz = sites[0].channel.carrier_hz
    if not abs(reader.carrier_hz - carrier_hz) <= 1e-6 * carrier_hz:  # NaN is another carrier as well
        raise DataError(
            f"{reader.path} was traced at carrier_hz = {reader.carrier_hz:g}, the world is at {carrier_hz:g}; set"
            " world.carrier_hz, or trace again"
        )
    return [TracedPaths(site, station) for site, station in zip(sites, reader.base_stations, strict=True)]


def _place(point_m: Array) -> str:
    return f"({', '.join(f'{one:.3f}' for one in point_m.tolist())})"
