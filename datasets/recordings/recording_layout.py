"""Layout of a recording file: the fields of a base station, their shapes, units and frames of reference.

The layout, version 1, in one HDF5 file:

    /               format, version, scenario (TOML text), seed, created_by, n_base_stations; complete = 1, written last
    /bs00, /bs01    name, geometry (JSON), modalities (JSON), rate_hz, n_frames
    /bs00/time_s    [n] and the other fields below; unit, frame_of_reference, rate_hz, description, columns (JSON)

All fields of a base station have one row per frame. Everything is chunked along the frames and compressed with HDF5's
own deflate filter, so any HDF5 tool reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, DataError, Modality
from ...emulator.modalities import RecordedFrame
from ...emulator.regular_file import quoted

FORMAT = "sheafedge-recording"
VERSION = 1

#: Largest size along one axis of a frame, and largest frame; far above every sensor here, far below what hurts.
MAX_AXIS = 4096
MAX_FRAME_BYTES = 1 << 24
#: Lowest and highest number of frames per second: one in three hours, and far above every sensor here.
RATE_HZ = (1e-4, 1e5)
#: Most frames of a base station: five days at 40 a second.
MAX_FRAMES = 1 << 24
#: Longest name or short text, in characters, and longest text of a file, in bytes.
MAX_NAME, MAX_TEXT_BYTES = 500, 1 << 20
#: Chunks are the largest power of two of frames, between these, that stays below this size.
CHUNK_BYTES = 1 << 18
CHUNK_FRAMES = (16, 1024)


@dataclass(frozen=True, slots=True)
class Field:
    """One series of a base station, a row per frame.

    Attributes:
        name: one of `FIELDS`.
        shape: shape of one frame; in `FIELDS` itself 0 stands for any size from 1.
        dtype: numpy name of the stored type.
        unit: unit of the values; several, comma-separated, where the last axis mixes them.
        frame_of_reference: where zero is and where axes point.
        description: short description.
        columns: names along the last axis; empty where they are only numbered.
        shuffle: whether bytes are regrouped before compression.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: str
    frame_of_reference: str
    description: str
    columns: tuple[str, ...] = ()
    shuffle: bool = True


def _of_modality(name: Modality) -> Field:
    row = MODALITY_SPECS[name].recorded
    return Field(
        name, row.shape, row.dtype, row.unit, row.frame_of_reference, row.description, row.columns, row.shuffle
    )


_KNOWN = (
    Field("time_s", (), "float64", "s", "recording clock, 0 at its start", "instant of the frame"),
    Field("sequence", (), "int32", "1", "none", "drive-by, flight or unbroken stretch; its frames are contiguous"),
    Field("frame_index", (), "int32", "1", "none", "number that the recorder gave the frame; steps over 1 are holes"),
    *(_of_modality(modality) for modality in SENSED_MODALITIES),
    Field("blocked_geometric", (), "bool", "1", "none", "the line of sight loses 10 dB or more"),
    Field("blocked_power", (), "bool", "1", "none", "the best beam is 8 dB or more below its running clear median"),
    Field("blocked_labeled", (), "bool", "1", "none", "blockage label that came with a measured data set"),
    Field("los_loss_db", (), "float32", "dB", "none", "loss of the line of sight to what blocks it"),
    Field("best_beam", (), "int32", "1", "codebook of the base station, from 0", "beam of the highest received power"),
    Field(
        "link_power_dbw",
        (0,),
        "float32",
        "dBW",
        "codebook of the base station",
        "power of the strongest beam without noise, at even steps from the frame until the next",
    ),
    Field("doppler_shift_hz", (), "float32", "Hz", "above 0: nearing", "mean Doppler shift in the strongest beam"),
    Field("doppler_spread_hz", (), "float32", "Hz", "none", "standard deviation of these shifts, by power"),
)

#: Every field that a recording may hold, in the order of the file.
FIELDS: Mapping[str, Field] = {known.name: known for known in _KNOWN}
#: Those among them that a sensor gives.
_SENSED: Mapping[str, RecordedFrame] = {modality: row.recorded for modality, row in MODALITY_SPECS.items()}
#: What every base station has.
REQUIRED_FIELDS = ("time_s", "sequence")


def standard_field(name: str, shape: tuple[int, ...] = (), **changes: Any) -> Field:
    """A field as the layout describes it, for frames of this shape.

    Args:
        name: one of `FIELDS`.
        shape: shape of one frame, such as (216, 2); empty for labels and clocks.
        changes: `unit`, `frame_of_reference`, `description` or `columns`, where the source differs.

    Raises:
        DataError: an unknown name, or a shape that the field cannot have.
    """
    if name not in FIELDS:
        raise DataError(f"a recording has no field {name!r}; known: {', '.join(FIELDS)}")
    made = replace(FIELDS[name], shape=shape, **changes)
    if complaint := complaint_about_shape(name, shape):
        raise DataError(f"recording field {name}: {complaint}")
    if name in _SENSED and _SENSED[name].needs_columns and not made.columns:
        raise DataError(f"recording field {name} needs columns, such as ('east_m', 'north_m'), to be read")
    if made.columns and (not shape or len(made.columns) != shape[-1]):
        raise DataError(f"recording field {name} has {len(made.columns)} column names for frames of shape {shape}")
    return made


def complaint_about_shape(name: str, shape: tuple[int, ...]) -> str:
    """Why frames of the field cannot have this shape; empty if they can."""
    expected = FIELDS[name].shape
    fits = len(shape) == len(expected) and all(
        1 <= size <= MAX_AXIS and wanted in {0, size} for size, wanted in zip(shape, expected, strict=True)
    )
    channels = _SENSED[name].channels if name in _SENSED else ()
    if channels:
        fits = fits and shape[-1] in channels
    if fits and frame_bytes(name, shape) <= MAX_FRAME_BYTES:
        return ""
    wanted_text = ", ".join("any" if size == 0 else str(size) for size in expected)
    return f"frames have shape {shape}, expected ({wanted_text}) with sizes from 1 to {MAX_AXIS}" + (
        f" and {' or '.join(map(str, channels))} channels last" if channels else ""
    )


def frame_bytes(name: str, shape: tuple[int, ...]) -> int:
    """Bytes of one frame of this field, not compressed."""
    n_bytes = ITEM_BYTES[FIELDS[name].dtype]
    for size in shape:
        n_bytes *= size
    return n_bytes


def frames_per_chunk(name: str, shape: tuple[int, ...]) -> int:
    """Number of frames that are compressed together."""
    frames = CHUNK_FRAMES[1]
    while frames > CHUNK_FRAMES[0] and frames * frame_bytes(name, shape) > CHUNK_BYTES:
        frames //= 2
    return frames


ITEM_BYTES: Mapping[str, int] = {"bool": 1, "uint8": 1, "int32": 4, "float32": 4, "float64": 8}


@dataclass(frozen=True, slots=True)
class StationDescription:
    """One base station of a recording, before its frames.

    Attributes:
        name: for people, such as "site 3, six lanes".
        rate_hz: frames per second, nominal.
        fields: what is stored of every frame, made by `standard_field`; kept in the order of `FIELDS`, with `time_s`
            and `sequence` added if absent.
        geometry: what must be known to draw the site; anything that JSON can hold.
    """

    name: str
    rate_hz: float
    fields: tuple[Field, ...]
    geometry: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [known.name for known in self.fields]
        if len(set(names)) < len(names):
            raise DataError(f"base station {self.name!r} lists a field twice: {', '.join(names)}")
        lowest, highest = RATE_HZ
        if not lowest <= self.rate_hz <= highest:
            raise DataError(
                f"base station {quoted(self.name)}: rate_hz must be from {lowest:g} to {highest:g}, got"
                f" {self.rate_hz:g}"
            )
        missing = tuple(standard_field(name) for name in REQUIRED_FIELDS if name not in names)
        order = list(FIELDS)
        ordered = sorted((*missing, *self.fields), key=lambda known: order.index(known.name))
        # one order for all files, so that equal content gives equal bytes
        object.__setattr__(self, "fields", tuple(ordered))

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Sensors among the fields, in the one order of modalities."""
        names = {known.name for known in self.fields}
        return tuple(modality for modality in SENSED_MODALITIES if modality in names)

    @property
    def n_beams(self) -> int | None:
        """Size of the codebook whose sweeps are recorded; None without sweeps."""
        swept = {modality for modality, row in MODALITY_SPECS.items() if row.per_beam}
        return next((known.shape[-1] for known in self.fields if known.name in swept), None)


@dataclass(frozen=True, slots=True)
class RecordingDescription:
    """Origin of a recording.

    Attributes:
        scenario: TOML text, enough to make it again; for measured data, where it came from.
        seed: root seed of the world; None where nothing was drawn.
        created_by: program and version.
        base_stations: in the order of their numbers.
    """

    scenario: str
    seed: int | None
    created_by: str
    base_stations: tuple[StationDescription, ...]
