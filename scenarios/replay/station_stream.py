"""Stream of a recorded base station to a served model: frames as the model was trained on, instant by instant.

Frames and labels are cut by the very code that cuts training samples, as windows of one frame: whatever training does
to a value was done to what is streamed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BlockageLabel
from ...datasets.windows.track_windows import renumbered
from ...emulator.contracts import MODALITY_SPECS, ConfigError, DataError, Modality
from ...emulator.edge.manifest import InputSpec, Manifest
from ..schema.data_section import CodebookSize, DataSection
from ..tasks.beam_tasks import WHOLE_CODEBOOK
from ..tasks.outage_task import STRENGTHS
from ..tasks.task_spec import SensorTask
from ..tasks.task_table import TASKS
from ..wiring.members import kept_frames

#: Rates that differ by less are one rate.
_RATE_TOLERANCE = 0.01
#: Streets are empty for minutes and others' drive-bys are left out; a replay skips such rests.
LONGEST_REST_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class StationStream:
    """One base station, ready to be streamed; instant i is the i-th at which its sensors give something.

    Attributes:
        name: name of the stream, such as "bs03".
        station: title of the base station.
        task: task of the model.
        rate_hz: frames per second.
        starts_s: first frame of the recording, on its clock.
        inputs: modality -> what the model expects of it, of the sensors that the recording has.
        index: [n] row of the recording; one more each time inside an unbroken stretch.
        time_s: [n] on the recording's clock.
        sequence: [n] drive-by, flight or unbroken stretch.
        begins: [n] bool, whether an unbroken stretch begins: nothing before it shares a window with what follows.
        asks: [n] bool, whether a whole window lies behind it, so that an answer is wanted.
        sample_of: modality -> [n] which sample holds this sensor's frame, -1: it gives none.
        samples: windows of one frame, with labels and, for beams, powers.
        scored: [n] sample that says what is right at an instant, -1: nothing is known of it.
        notes: what a reader of the scores must know.
    """

    name: str
    station: str
    task: SensorTask
    rate_hz: float
    starts_s: float
    inputs: Mapping[Modality, InputSpec]
    index: NDArray[np.int64]
    time_s: NDArray[np.float64]
    sequence: NDArray[np.int64]
    begins: NDArray[np.bool_]
    asks: NDArray[np.bool_]
    sample_of: Mapping[Modality, NDArray[np.int64]]
    samples: Samples
    scored: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.index)

    def readings(self, instant: int) -> dict[Modality, NDArray[Any]]:
        """Modality -> frame [*frame_shape] at an instant, as the manifest describes it."""
        # a lagging sensor gives at this instant the frame of another sample than the others
        numbers = {modality: int(samples[instant]) for modality, samples in self.sample_of.items()}
        cut = {number: self.samples.inputs(np.array([number])) for number in {*numbers.values()} if number >= 0}
        return {
            modality: _frame(cut[number][modality][0], self.inputs[modality])
            for modality, number in numbers.items()
            if number >= 0
        }

    @property
    def due_s(self) -> NDArray[np.float64]:
        """[n] when each instant's turn is, after the first: as recorded, but with no long rest between stretches."""
        step_s = np.diff(self.time_s, prepend=self.time_s[:1])
        due_s: NDArray[np.float64] = np.cumsum(np.where(self.begins, np.clip(step_s, 0.0, LONGEST_REST_S), step_s))
        return due_s

    def since(self, from_s: float) -> Self:
        """Part of the stream that begins `from_s` after the first frame of the recording.

        Raises:
            ConfigError: nothing in it can be asked.
        """
        last_s = float(self.time_s[-1]) - self.starts_s
        return self._asking(
            self.time_s - self.starts_s >= from_s,
            f"has nothing to ask from {from_s:g} s after the beginning of its recording on, which has {last_s:.1f} s,"
            f" and a window spans {_reach(self.inputs) + 1} frames; change --from",
        )

    def lasting(self, seconds: float) -> Self:
        """First part of the stream, of this length in seconds.

        Raises:
            ConfigError: nothing in it can be asked.
        """
        return self._asking(
            self.due_s < seconds,
            f"has nothing to ask within {seconds:g} s, since a window spans {_reach(self.inputs) + 1} frames; change"
            " --seconds",
        )

    def within(self, sequences: Collection[int]) -> Self:
        """Part of the stream that lies in these drive-bys or flights.

        Raises:
            ConfigError: nothing in it can be asked.
        """
        kept = np.isin(self.sequence, list(sequences))
        return self._asking(kept, "has none of the drive-bys that were held out; add --part all")

    def _asking(self, kept: NDArray[np.bool_], complaint: str) -> Self:
        part = self._part(kept)
        if not part.asks.any():
            raise ConfigError(f"base station {self.name} {complaint}")
        return part

    def _part(self, kept: NDArray[np.bool_]) -> Self:
        rows = np.flatnonzero(kept)
        # rows that were left out tear the stretch: windows must not reach over the hole
        begins = self.begins[rows] | (np.diff(rows, prepend=-1) > 1)
        begins[:1] = True
        return replace(
            self,
            index=self.index[rows],
            time_s=self.time_s[rows],
            sequence=self.sequence[rows],
            begins=begins,
            asks=_asks(begins, self.inputs) & (self.scored[rows] >= 0),
            sample_of={modality: samples[rows] for modality, samples in self.sample_of.items()},
            scored=self.scored[rows],
        )


def station_stream(station: RecordedStation, manifest: Manifest, label: str = "") -> StationStream:
    """Stream of all that a base station can send to a model, with the right answers.

    Args:
        station: recorded base station.
        manifest: manifest of the served model.
        label: name of the blockage label; empty: the first label in the recording, as in training.

    Raises:
        ConfigError: the task of the model cannot be scored here, or the model does not fit the recording.
        DataError: the recording lacks what scores need, or is too short.
    """
    task = _task(manifest)
    # in the order of the manifest, which is the order of the model's inputs
    owned = tuple(one for one in manifest.modalities if one in station.modalities)
    if not owned:
        raise ConfigError(
            f"base station {station.name!r} has {', '.join(station.modalities)}, but the served model"
            f" {manifest.name!r} takes {', '.join(manifest.modalities)}; replay another recording"
        )
    data = _data(manifest, station.rate_hz, label)
    sensed = SensedFrames.of(station, **kept_frames(task, [owned]))
    samples = _numbered(task.samples(sensed, owned, data), manifest)
    inputs = {one.modality: one for one in manifest.inputs if one.modality in owned}
    _check_shapes(station, samples, inputs)
    kept = samples.frame_rows
    return _aligned(
        f"bs{station.index:02d}",
        station,
        task,
        inputs,
        samples,
        sensed.column("time_s")[kept],
        sensed.column("sequence")[kept],
        float(sensed.column("time_s")[0]),
        tuple(_notes(station, manifest, owned)),
    )


def _aligned(
    name: str,
    station: RecordedStation,
    task: SensorTask,
    inputs: Mapping[Modality, InputSpec],
    samples: Samples,
    time_s: NDArray[np.float64],
    sequence: NDArray[np.int64],
    starts_s: float,
    notes: tuple[str, ...],
) -> StationStream:
    """Lines up the instants at which any sensor gives a frame; a lagging one gives it for the answers after."""
    # a lagging input of the answer at row r is the frame of row r - lag
    given = {modality: samples.end - one.window.lag for modality, one in inputs.items()}
    # also instants without an answer: their frames fill the windows of later ones
    index = np.unique(np.concatenate([*given.values(), samples.end]))
    begins = (np.diff(index, prepend=index[0]) > 1) | (np.diff(sequence[index], prepend=sequence[index[0]]) != 0)
    begins[0] = True  # nothing comes before the first instant
    scored = _positions(samples.end, index)
    return StationStream(
        name=name,
        station=station.name,
        task=task,
        rate_hz=station.rate_hz,
        starts_s=starts_s,
        inputs=inputs,
        index=index,
        time_s=time_s[index],
        sequence=sequence[index],
        begins=begins,
        asks=_asks(begins, inputs) & (scored >= 0),
        sample_of={modality: _positions(rows, index) for modality, rows in given.items()},
        samples=samples,
        scored=scored,
        notes=notes,
    )


def _positions(rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n] where each of the instants is among the rows, -1: nowhere; both ascend."""
    at = np.searchsorted(rows, index)
    there = rows[np.minimum(at, len(rows) - 1)] == index
    return np.where(there, at, -1).astype(np.int64)


def _reach(inputs: Mapping[Modality, InputSpec]) -> int:
    """Largest number of instants before now that a window uses."""
    return max(one.window.reach for one in inputs.values())


def _asks(begins: NDArray[np.bool_], inputs: Mapping[Modality, InputSpec]) -> NDArray[np.bool_]:
    instant = np.arange(len(begins))
    # instants since the last beginning of a stretch: the running maximum keeps its index
    behind = instant - np.maximum.accumulate(np.where(begins, instant, 0))
    asks: NDArray[np.bool_] = behind >= _reach(inputs)
    return asks


def _frame(values: NDArray[np.float32], spec: InputSpec) -> NDArray[Any]:
    """The frame [*frame_shape] of a sample that holds one, in the type in which its modality is kept.

    Whole levels of an image lose nothing as bytes, and take a quarter of the room on the wire.
    """
    return spec.window.frame(values).astype(MODALITY_SPECS[spec.modality].dtype)


def _task(manifest: Manifest) -> SensorTask:
    known = {name: task for name, task in TASKS.items() if isinstance(task, SensorTask)}
    if manifest.task not in known:
        raise ConfigError(
            f"the served model {manifest.name!r} is asked {manifest.task!r}, which replay cannot score; it can score"
            f" {', '.join(known)}"
        )
    return known[manifest.task]


def _data(manifest: Manifest, rate_hz: float, label: str) -> DataSection:
    """Settings by which training cuts samples from this recording, but as windows of one frame."""
    output = manifest.output
    # a model that warns chooses no beam; its inputs are still swept with the whole codebook
    n_beams = len(output.labels) if output.kind == "classes" else WHOLE_CODEBOOK
    if n_beams not in get_args(CodebookSize):
        raise ConfigError(
            f"the served model {manifest.name!r} chooses among {n_beams} beams; replay knows codebooks of"
            f" {', '.join(map(str, get_args(CodebookSize)))}"
        )
    horizon = max(1, round(output.horizon_s * rate_hz))
    _check_forecast(manifest, horizon)
    return DataSection(
        window=1,
        n_beams=cast("CodebookSize", n_beams),
        # at least 1, as a data section demands; tasks without a horizon do not read it
        horizon=horizon,
        label=cast("BlockageLabel", label),
        **({} if output.forecast is None else {"fades_db": output.forecast.fades_db}),
    )


def _check_forecast(manifest: Manifest, horizon: int) -> None:
    """Refuse forecasts that the task of this release does not ask for.

    Raises:
        ConfigError: other series, or other times ahead than the frames of this recording.
    """
    if (forecast := manifest.output.forecast) is None:
        return
    if forecast.series != STRENGTHS or len(forecast.ahead_s) != horizon:
        raise ConfigError(
            f"the served model {manifest.name!r} forecasts {', '.join(forecast.series)[:80]} at"
            f" {len(forecast.ahead_s)} times; replay knows {' and '.join(STRENGTHS)} at each of the next {horizon}"
            " frames of this recording"
        )


def _numbered(samples: Samples, manifest: Manifest) -> Samples:
    """The samples in the numbers that the model's base station gave its beams."""
    beams = np.array(manifest.output.codebook, dtype=np.int64)
    if not len(beams):
        return samples
    numbering = beams // (WHOLE_CODEBOOK // len(beams))
    if not np.array_equal(np.sort(numbering), np.arange(len(beams))):
        raise ConfigError(
            f"the served model {manifest.name!r} names beams {', '.join(map(str, beams[:8]))}, ..., which are not"
            f" {len(beams)} beams of a codebook of {WHOLE_CODEBOOK}; export it again"
        )
    return renumbered(samples, numbering)


def _check_shapes(station: RecordedStation, samples: Samples, inputs: Mapping[Modality, InputSpec]) -> None:
    for modality, spec in inputs.items():
        shape = samples.windows[modality].frame_shape(samples.input_shapes[modality])
        if shape != spec.frame_shape:
            raise DataError(
                f"base station {station.name!r} has frames of {modality} of shape {list(shape)}, the served model takes"
                f" {list(spec.frame_shape)}; replay a recording of the sensors that it was trained on"
            )


def _notes(station: RecordedStation, manifest: Manifest, owned: tuple[Modality, ...]) -> Iterator[str]:
    name = f"bs{station.index:02d}"
    for spec in manifest.inputs:
        if spec.modality not in owned:
            yield f"{name} has no {spec.modality}; the model does without"
        # a window of a single frame does not depend on the rate
        elif spec.window.frames > 1 and abs(spec.rate_hz - station.rate_hz) > _RATE_TOLERANCE * spec.rate_hz:
            yield (
                f"{name} has {station.rate_hz:g} frames a second, {spec.modality} of the model was trained at"
                f" {spec.rate_hz:g}: its windows span another time"
            )
