"""Frames that one base station has sensed so far: every frame once, in its smallest exact type.

Replay appends a recording out of its file, a live station what its sensors hand over; the buffer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, ConfigError, DataError, Modality
from ..recordings.recording_reader import RecordedStation
from ..recordings.site_geometry import clockwise, stated_heading_deg, stated_n_beams, stated_order, states_best_beams
from .swept_powers import filled_powers, measured_powers

#: Rows of a recording that are read at once.
FRAMES_AT_ONCE = 256
#: Fewer rows than that where frames are large.
PIECE_BYTES = 1 << 27
#: Luma of ITU-R BT.601 in 1/256; the sum is 256.
_LUMA = np.array([77, 150, 29], dtype=np.uint16)
_REQUIRED_COLUMNS: Mapping[str, type[Any]] = {"time_s": np.float64, "sequence": np.int64}
#: Kept where the base station has them.
_OPTIONAL_COLUMNS: Mapping[str, type[Any]] = {
    "frame_index": np.int64,
    "blocked_geometric": np.bool_,
    "blocked_labeled": np.bool_,
    "blocked_power": np.bool_,
    "link_power_dbw": np.float32,
}
_BEST_BEAM = "best_beam"
_COLUMNS = {**_REQUIRED_COLUMNS, **_OPTIONAL_COLUMNS, _BEST_BEAM: np.int64}
_POWERS, _POWERS_FIELD = "powers", "rf"

#: Images [F, h, w, c] and their rows [F] in the recording -> images [F, h2, w2, c], each from its own frame alone.
ImageChange = Callable[[NDArray[np.uint8], NDArray[np.int64]], NDArray[np.uint8]]


class SensedFrames:
    """Frames of one base station from the start of its recording until now.

    Args:
        name: name of the base station, for messages.
        modalities: modalities that are kept.
        color: keep the camera as RGB, not as luma.
        keep_powers: keep received powers as they were measured, where the best beams come from; rf need not be among
            the modalities for that.
        has_powers: whether the base station records them; without, `labeled_beams` are all that is known.
        gps_columns: what the columns of gps are called; those in degrees are kept relative to `gps_origin`.
        geometry: geometry of the base station; its place is looked up here by the names of the columns, and the order
            of its beams, which are kept clockwise.
        image_change: change of the images, before luma is taken, such as an occlusion.
        capacity: rows for which there is room before anything must grow.

    Attributes:
        name, modalities, color, has_powers, gps_columns, geometry: as given.
        n_frames: rows so far.
        is_labeled: whether the best beam is a label where a frame has no powers.

    Raises:
        ConfigError: gps without names of its columns.
    """

    def __init__(
        self,
        name: str,
        modalities: Iterable[Modality],
        *,
        color: bool = False,
        keep_powers: bool = False,
        has_powers: bool = True,
        gps_columns: tuple[str, ...] = (),
        geometry: Mapping[str, Any] | None = None,
        image_change: ImageChange | None = None,
        capacity: int = FRAMES_AT_ONCE,
    ) -> None:
        self.name, self.modalities, self.color, self.has_powers = name, tuple(modalities), color, has_powers
        self.gps_columns, self.geometry = gps_columns, geometry or {}
        if "gps" in self.modalities and not gps_columns:
            raise ConfigError(f"base station {name!r} keeps gps, whose columns need names, such as ('latitude_deg',)")
        self._codebook_order = stated_order(f"base station {name!r}", self.geometry)
        self.n_frames = 0
        self.is_labeled = keep_powers and (not has_powers or states_best_beams(self.geometry))
        self._keep_powers, self._keeps_powers = keep_powers, keep_powers and has_powers
        self._image_change, self._capacity = image_change, capacity
        self._gps_origin: NDArray[np.float64] | None = None
        self._kept: dict[str, _GrowingRows] = {}

    @classmethod
    def of(
        cls,
        station: RecordedStation,
        modalities: Iterable[Modality],
        *,
        color: bool = False,
        keep_powers: bool = False,
        image_change: ImageChange | None = None,
    ) -> Self:
        """All frames of a recorded base station; memory holds them and no more than one piece beside them.

        Raises:
            DataError: the base station lacks a modality, or its file is damaged.
        """
        sensed = cls.like(station, modalities, color=color, keep_powers=keep_powers, image_change=image_change)
        names = sensed.fields_needed + tuple(name for name in _OPTIONAL_COLUMNS if name in station.field_names)
        n_at_once = max(1, min(FRAMES_AT_ONCE, PIECE_BYTES * station.n_frames // station.n_bytes))
        for first in range(0, station.n_frames, n_at_once):
            rows = slice(first, first + n_at_once)
            sensed.append({name: station.read(name, rows) for name in names})
        return sensed

    @classmethod
    def like(
        cls,
        station: RecordedStation,
        modalities: Iterable[Modality],
        *,
        color: bool = False,
        keep_powers: bool = False,
        image_change: ImageChange | None = None,
    ) -> Self:
        """No frame yet, and room for as many as this base station has recorded.

        Raises:
            DataError: the base station lacks a modality.
        """
        kept = tuple(modalities)
        return cls(
            station.name,
            kept,
            color=color,
            keep_powers=keep_powers,
            has_powers=_POWERS_FIELD in station.field_names or _BEST_BEAM not in station.field_names,
            gps_columns=station.field("gps").columns if "gps" in kept else (),
            geometry=station.geometry,
            image_change=image_change,
            capacity=station.n_frames,
        )

    @property
    def fields_needed(self) -> tuple[str, ...]:
        """Fields that every piece must have; labels and numbers of frames are taken where a station has them."""
        powers = (_POWERS_FIELD,) if self._keeps_powers and _POWERS_FIELD not in self.modalities else ()
        return (*_REQUIRED_COLUMNS, *self.modalities, *powers, *((_BEST_BEAM,) if self.is_labeled else ()))

    @property
    def columns(self) -> tuple[str, ...]:
        """What `column` can give; it is known from the first piece on."""
        return tuple(name for name in _COLUMNS if name in self._kept)

    @property
    def gps_origin(self) -> NDArray[np.float64]:
        """[k] taken off the columns of gps: those in degrees, which float32 would round to a meter.

        It is the base station's place, or the first frame where that is unknown; empty before the first frame.
        """
        return np.zeros(0) if self._gps_origin is None else self._gps_origin

    @property
    def knows_its_place(self) -> bool:
        """Whether positions in degrees are kept relative to the base station itself."""
        return all(isinstance(self.geometry.get(name), float) for name in self.gps_columns if name.endswith("_deg"))

    @property
    def heading_deg(self) -> float | None:
        """Bearing of the array's broadside, clockwise from north; None: the geometry does not state it."""
        return stated_heading_deg(f"base station {self.name!r}", self.geometry)

    @property
    def powers(self) -> NDArray[np.float32]:
        """[n_frames, n_beams] received power, linear, as measured: NaN where a beam was not. Beam 0 is the leftmost.

        Raises:
            DataError: they are not kept, or there are none.
        """
        if not self.has_powers:
            raise DataError(
                f"base station {self.name!r} has best beams without powers (no rf); task 'beam_prediction' takes them"
            )
        if not self._keep_powers:
            raise DataError(f"base station {self.name!r} keeps no powers of its beams; make it with keep_powers = True")
        return self._rows(_POWERS, (0, 0), np.float32)

    def labeled_beams(self, n_beams: int) -> NDArray[np.int64]:
        """[n_frames] best beams as they were recorded, of a codebook of this size. Beam 0 is the leftmost.

        Raises:
            DataError: the base station has none, states another codebook, or one of them is beyond it.
        """
        beam = self.column(_BEST_BEAM)
        stated = stated_n_beams(self.geometry)
        odd = np.flatnonzero(beam >= n_beams)
        if stated not in {None, n_beams} or len(odd):
            found = f"a codebook of {stated} beams" if stated else f"beam {beam[odd[0]]} in frame {odd[0]}"
            raise DataError(
                f"base station {self.name!r} has best beams without powers, of {found}, which cannot become those of"
                f" data.n_beams = {n_beams}: the best of fewer beams is known from powers alone; set data.n_beams to"
                " the size of the codebook"
            )
        return beam if self._codebook_order == "clockwise" else n_beams - 1 - beam

    def frames(self, modality: Modality) -> NDArray[Any]:
        """Frames so far, read-only; they stay as they are when more is appended.

        Returns:
            lidar [n_frames, 2, n_rays] float32, range in m and angle in rad; camera [n_frames, h, w] uint8 luma, or
            [n_frames, 3, h, w] RGB in color; rf [n_frames, n_beams] float32 in dB, beams that were not measured as the
            weakest of their sweep, all NaN where the best beam is known without powers; gps [n_frames, k] float32
            relative to `gps_origin`; others as their row of `MODALITY_SPECS` says. Sizes are 0 before the first.

        Raises:
            DataError: the modality is not kept.
        """
        if modality not in self.modalities:
            raise DataError(f"base station {self.name!r} keeps no {modality}; it keeps {', '.join(self.modalities)}")
        spec = MODALITY_SPECS[modality]
        shape = (3, *spec.shape) if modality == "camera" and self.color else spec.shape
        return self._rows(modality, (0, *shape), spec.dtype)

    def column(self, name: str) -> NDArray[Any]:
        """[n_frames] time_s float64, sequence or frame_index int64, or a label of blockage bool, as `frames`.

        `link_power_dbw` is [n_frames, k] float32.

        Raises:
            DataError: the base station has no such field.
        """
        if name not in _COLUMNS or (self.n_frames and name not in self._kept):
            raise DataError(f"base station {self.name!r} has no field {name!r}; it has {', '.join(self.columns)}")
        return self._rows(name, (0,), _COLUMNS[name])

    def append(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Add the frames that follow those before; in pieces of any size the content is the same.

        Args:
            fields: field -> [F, ...] in the layout of recordings; others than those kept are left alone. Nothing at
                all where there is no frame.

        Raises:
            DataError: a field is missing, or does not fit the others or those before; nothing is added then.
        """
        if not fields:
            return
        self._check_fields(fields)
        n_new = len(fields["time_s"])
        if n_new == 0:
            return
        piece = self._as_kept(fields, n_new)
        for name, rows in piece.items():
            if name in self._kept and rows.shape[1:] != self._kept[name].shape:
                raise DataError(
                    f"base station {self.name!r}: {name} changed its shape from {self._kept[name].shape} to "
                    f"{rows.shape[1:]} in frame {self.n_frames}; frames of one base station are alike"
                )
        for name, rows in piece.items():
            if name not in self._kept:
                self._kept[name] = _GrowingRows(rows, self._capacity)
            self._kept[name].append(rows)
        self.n_frames += n_new

    def showing(self, modality: Modality, rows: NDArray[np.integer[Any]]) -> Self:
        """The same base station, one sensor of which shows in every row what it saw in another.

        Args:
            modality: modality of the sensor; powers that are kept for labels stay as they are.
            rows: [n_frames] the row that it shows.
        """
        other = copy(self)
        frames = self.frames(modality)[rows]
        other._kept = {**self._kept, modality: _GrowingRows(frames, len(frames))}
        other._kept[modality].append(frames)
        return other

    def _check_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        columns = (name for name in self.columns if name not in _REQUIRED_COLUMNS)
        if missing := [name for name in (*self.fields_needed, *columns) if name not in fields]:
            raise DataError(f"base station {self.name!r} has no field {missing[0]!r} in frame {self.n_frames}")
        late = [name for name in self._columns_of(fields) if name not in self._kept] if self.n_frames else []
        if late:
            raise DataError(f"base station {self.name!r} has field {late[0]!r} only from frame {self.n_frames} on")
        n_new = len(fields["time_s"])
        if odd := [name for name, rows in fields.items() if len(rows) != n_new]:
            raise DataError(
                f"base station {self.name!r}: field {odd[0]!r} has {len(fields[odd[0]])} rows beside {n_new} instants"
            )

    def _columns_of(self, fields: Mapping[str, NDArray[Any]]) -> list[str]:
        return [name for name in _COLUMNS if name in fields and (self.is_labeled or name != _BEST_BEAM)]

    def _as_kept(self, fields: Mapping[str, NDArray[Any]], n_new: int) -> dict[str, NDArray[Any]]:
        piece: dict[str, NDArray[Any]] = {
            name: fields[name].astype(_COLUMNS[name]) for name in self._columns_of(fields)
        }
        # A modality without a way of its own is kept as it is recorded: a new one needs nothing here.
        for modality in self.modalities:
            keep = self._keepers.get(modality)
            rows = fields[modality] if keep is None else keep(fields[modality])
            piece[modality] = rows.astype(MODALITY_SPECS[modality].dtype, copy=False)
        if self._keeps_powers:
            piece[_POWERS] = clockwise(fields["rf"], self._codebook_order).astype(np.float32, copy=False)
        return piece

    @property
    def _keepers(self) -> Mapping[Modality, Callable[[NDArray[Any]], NDArray[Any]]]:
        """From recorded frames to those that are kept, of the modalities that are not kept as recorded."""
        return {"lidar": _columns_first, "camera": self._images, "rf": self._decibels, "gps": self._relative}

    def _images(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self._image_change is not None:
            images = self._image_change(images, np.arange(self.n_frames, self.n_frames + len(images)))
        return _rgb(images) if self.color else _luma(images)

    def _decibels(self, powers: NDArray[np.float32]) -> NDArray[np.float64]:
        linear = powers.astype(np.float64)
        filled = filled_powers(linear) if self.is_labeled else measured_powers(linear, self.n_frames)
        decibels: NDArray[np.float64] = 10 * np.log10(filled)
        return clockwise(decibels, self._codebook_order)

    def _relative(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if values.shape[1:] != (len(self.gps_columns),):
            raise DataError(
                f"base station {self.name!r}: gps has frames of shape {values.shape[1:]} for the columns "
                f"{', '.join(self.gps_columns)}"
            )
        if self._gps_origin is None:
            self._gps_origin = np.zeros(len(self.gps_columns))
            for index, column in enumerate(self.gps_columns):
                if column.endswith("_deg"):
                    of_station = self.geometry.get(column)
                    self._gps_origin[index] = of_station if isinstance(of_station, float) else values[0, index]
            self._gps_origin.flags.writeable = False
        return np.asarray(values - self._gps_origin)

    def _rows(self, name: str, before_the_first: tuple[int, ...], dtype: type[Any] | str) -> NDArray[Any]:
        return self._kept[name].snapshot() if name in self._kept else np.zeros(before_the_first, dtype)


class _GrowingRows:
    """Rows that become more; those handed out lie where nothing is written again."""

    def __init__(self, like: NDArray[Any], capacity: int) -> None:
        self.shape = like.shape[1:]
        self._room = np.empty((capacity, *self.shape), dtype=like.dtype)
        self._n_rows = 0

    def append(self, rows: NDArray[Any]) -> None:
        stop = self._n_rows + len(rows)
        if stop > len(self._room):
            larger = np.empty((max(stop, 2 * len(self._room)), *self.shape), dtype=self._room.dtype)
            larger[: self._n_rows] = self._room[: self._n_rows]
            self._room = larger
        self._room[self._n_rows : stop] = rows
        self._n_rows = stop

    def snapshot(self) -> NDArray[Any]:
        rows = self._room[: self._n_rows]
        rows.flags.writeable = False
        return rows


def _columns_first(scans: NDArray[np.float32]) -> NDArray[np.float32]:
    """[F, 2, n_rays] of scans [F, n_rays, 2]."""
    return scans.swapaxes(1, 2)


def _luma(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[F, h, w] luma, or the one channel of a grey camera."""
    if images.shape[-1] == 1:
        return images[..., 0]
    return ((images @ _LUMA + np.uint16(128)) >> 8).astype(np.uint8)  # 255 * 256 + 128 fits 16 bits


def _rgb(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[F, 3, h, w]; a grey camera three times."""
    return np.moveaxis(np.broadcast_to(images, (*images.shape[:-1], 3)), -1, 1)
