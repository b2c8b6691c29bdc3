"""Sliding windows of the streams that are served: last frames of every sensor, and the sample that ends at an instant.

Frames lie in rings by the number of their instant, so late ones find their place and nothing is ever moved. A sample is
exactly the window that the model was trained on: instants `now - lag - frames + 1` to `now - lag`. Training windows
have no holes. Here frames get lost, so the frame before stands in for at most `hold` instants, as the answer states;
a longer hole, or a sensor that has been silent for longer, makes the modality missing until a whole window is there.

An index far from the others may be a mistake, or the stream goes on elsewhere. It must not empty a window that is in
use, and must not make all frames after it too old: `StreamWindows` believes it only when others follow it, or when
nothing else came for as long as a window lasts. A sensor that says by its `boot` that it has started again is believed
at once: its window begins anew with its first frame.

The number of streams is bounded; the longest idle one gives way to a new one.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import Modality
from ..frame_packets import FrameRefused
from ..manifest import InputSpec
from .sensor_boots import SensorBoots

#: Instants by which a frame may come later than the newest of its sensor and still be sure to find its place.
LATE_INSTANTS = 8
#: Part of the time of a gap after which its length is believed: an outage took that long, a mistake did not.
_CREDIBLE = 0.5
_NOTHING = np.iinfo(np.int64).min  # no instant has this number


class SensorRing:
    """The last frames of one sensor.

    Args:
        spec: specification of the model's input.
        hold: instants at which the frame before may stand in.

    Attributes:
        newest: number of the last instant with a frame; None before the first.
        newest_s: time of that frame on the sensors' clock.
    """

    def __init__(self, spec: InputSpec, hold: int) -> None:
        self._spec, self._hold = spec, hold
        self._size = ring_frames(spec, hold)
        self._frames = np.zeros((self._size, *spec.frame_shape), dtype=np.float32)
        self._index = np.full(self._size, _NOTHING, dtype=np.int64)
        self._behind = spec.window.behind
        axis = spec.window.axis
        # the frames of a window [frames, *frame_shape] in the order of axes of a sample
        self._order = None if axis is None else (*range(1, axis + 1), 0, *range(axis + 1, len(spec.shape)))
        self.newest: int | None = None
        self.newest_s = 0.0

    def check(self, index: int) -> None:
        """Refuse a frame that has no place here.

        Raises:
            FrameRefused: there is one for its instant already, or the instant is too far back.
        """
        if self.newest is None or index > self.newest:
            return
        # Its slot of the ring belongs to a newer instant.
        if index <= self.newest - self._size:
            raise FrameRefused(
                "old",
                f"{self._spec.modality} frame {index} is {self.newest - index} instants older than the newest, windows"
                f" reach {self._size - 1} back; send frames in order, or forget the stream to begin again",
            )
        if self._index[index % self._size] == index:
            raise FrameRefused(
                "duplicate",
                f"{self._spec.modality} frame {index} was there already; every instant has one frame per sensor",
            )

    def put(self, index: int, time_s: float, frame: NDArray[np.float32]) -> None:
        """Take a frame that `check` let by."""
        slot = index % self._size
        self._frames[slot], self._index[slot] = frame, index
        if self.newest is None or index > self.newest:
            self.newest, self.newest_s = index, time_s

    def window(self, now: int) -> tuple[NDArray[np.float32], int] | None:
        """The sample of this sensor at an instant, of the spec's `shape`, and how many of its frames are stand-ins.

        None: a hole is longer than `hold`, or the beginning is not there yet.
        """
        wanted = now - self._behind
        slots = wanted % self._size
        # The usual case, no hole, needs no search.
        n_held = int(np.count_nonzero(self._index[slots] != wanted))
        if n_held:
            # An index decides whether a slot's frame is of that instant; others are left from rounds before.
            taken = self._held(wanted)
            if (taken == _NOTHING).any():
                return None
            slots = taken % self._size
        frames: NDArray[np.float32] = self._frames[slots]  # [frames, *frame_shape]
        return frames[0] if self._order is None else frames.transpose(self._order), n_held

    def _held(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The newest instant with a frame, at most `hold` before each of these; `_NOTHING` where there is none."""
        taken = np.full(len(wanted), _NOTHING, dtype=np.int64)
        for back in range(self._hold + 1):  # nearest first, and an instant that has its frame keeps it
            candidate = wanted - back
            there = (taken == _NOTHING) & (self._index[candidate % self._size] == candidate)
            taken[there] = candidate[there]
        return taken


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Inputs of a model at an instant; owns its arrays, so that later frames do not change it.

    Attributes:
        inputs: modality -> window, of those that have a whole one.
        missing: the others.
        stale_s: modality -> age of its newest frame, of those that gave none for the instant that they should.
        held: modality -> stand-ins in its window.
    """

    inputs: Mapping[Modality, NDArray[np.float32]]
    missing: tuple[Modality, ...]
    stale_s: Mapping[Modality, float]
    held: Mapping[Modality, int]


class StreamWindows:
    """All sensors of one stream.

    Args:
        inputs: inputs of the model.
        hold: see `SensorRing`.
    """

    def __init__(self, inputs: Sequence[InputSpec], hold: int) -> None:
        self._specs: dict[Modality, InputSpec] = {spec.modality: spec for spec in inputs}
        self._hold = hold
        self._rings: dict[Modality, SensorRing] = {}
        self._boots = SensorBoots()
        # Of the shortest ring: a wrong index within it leaves the right ones after it their places.
        self._reach = min(ring_frames(spec, hold) for spec in inputs)
        self._rate_hz = min(spec.rate_hz for spec in inputs)
        self._lasts_s = max(ring_frames(spec, hold) for spec in inputs) / self._rate_hz
        self._ahead: int | None = None  # an index far ahead that none has followed yet
        self._taken_s = 0.0

    def put(
        self,
        index: int,
        time_s: float,
        frames: Mapping[Modality, NDArray[Any]],
        now_s: float = 0.0,
        boot: str | int | None = None,
    ) -> None:
        """Take the frames of an instant: all of them or none.

        Args:
            index, time_s, frames: what the sensors gave, at which instant.
            now_s: time of arrival on the server's clock.
            boot: mark of the start of the sensors' program; None: not said.

        Raises:
            FrameRefused: a frame is not what the model was trained on, has no place in its window, or is of before a
                start of its sensor.
        """
        # everything is checked before anything is kept
        made = {modality: self._frame(modality, values) for modality, values in frames.items()}
        restarted = self._boots.restarted(made, boot)
        rings = {modality: ring for modality, ring in self._rings.items() if modality not in restarted}
        if self._goes_on_elsewhere(index, now_s, rings):
            rings = {}
        for modality in made:
            if modality in rings:
                rings[modality].check(index)
        self._boots.take(restarted, boot)
        for modality, frame in made.items():
            if modality not in rings:  # a sensor that never sends costs no memory
                rings[modality] = SensorRing(self._specs[modality], self._hold)
            rings[modality].put(index, time_s, frame)
        self._rings, self._ahead, self._taken_s = rings, None, now_s

    def _goes_on_elsewhere(self, index: int, now_s: float, rings: Mapping[Modality, SensorRing]) -> bool:
        """Whether the stream leaves these windows and begins again at an index; never at one within their reach.

        Raises:
            FrameRefused: the index is far ahead and the first there.
        """
        newest = max((ring.newest for ring in rings.values() if ring.newest is not None), default=None)
        if newest is None or abs(index - newest) < self._reach:
            return False
        silent_s = now_s - self._taken_s
        if index < newest:
            # A sensor with a slow connection may send old frames in a row; so may one after a single wrong index.
            # Before that `SensorRing.check` refuses it, unless its sensor is behind the others, restarted or new.
            return silent_s >= self._lasts_s
        if silent_s < _CREDIBLE * (index - newest) / self._rate_hz and not self._follows(index):
            self._ahead = index
            raise FrameRefused(
                "ahead",
                f"frame {index} is {index - newest} instants after the newest, windows reach {self._reach - 1};"
                " the next one is taken if it follows this one",
            )
        return True

    def _follows(self, index: int) -> bool:
        return self._ahead is not None and self._ahead < index <= self._ahead + self._reach

    def sample(self, index: int, time_s: float) -> Sample:
        """Inputs of the model at an instant."""
        inputs, missing, held, stale_s = {}, [], {}, {}
        for modality, spec in self._specs.items():
            ring = self._rings.get(modality)
            window = None if ring is None else ring.window(index)
            if window is None:
                missing.append(modality)
            else:
                inputs[modality] = window[0]
                if window[1]:
                    held[modality] = window[1]
            # A lagging input is on time with a frame of `lag` instants ago.
            if ring is not None and ring.newest is not None and ring.newest < index - spec.window.lag:
                stale_s[modality] = max(0.0, time_s - ring.newest_s)
        return Sample(inputs, tuple(missing), stale_s, held)

    def _frame(self, modality: Modality, values: NDArray[Any]) -> NDArray[np.float32]:
        if modality not in self._specs:
            raise FrameRefused("modality", f"the model has no input {modality}, it takes {', '.join(self._specs)}")
        spec = self._specs[modality]
        if values.shape != spec.frame_shape:
            raise FrameRefused(
                "shape", f"frame of {modality} has shape {list(values.shape)}, must be {list(spec.frame_shape)}"
            )
        frame = values
        if values.dtype != np.float32:
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                frame = values.astype(np.float32)
        if not np.isfinite(frame).all():
            instead = "" if spec.nothing is None else f"; {spec.nothing:g} stands for nothing seen"
            raise FrameRefused("values", f"frame of {modality} must hold finite numbers, in {spec.unit}{instead}")
        return frame


def ring_frames(spec: InputSpec, hold: int) -> int:
    """Frames that are kept of a sensor."""
    return spec.window.reach + 1 + hold + LATE_INSTANTS


def stream_bytes(inputs: Sequence[InputSpec], hold: int) -> int:
    """Memory of the frames of a stream whose sensors all send."""
    return sum(4 * math.prod(spec.frame_shape) * ring_frames(spec, hold) for spec in inputs)


class Streams:
    """Windows by name of the stream, the longest idle first.

    Args:
        inputs: inputs of the model.
        hold: see `SensorRing`.
        most: streams at once.
        idle_s: a stream that sent nothing for so long gives its place to a new one; before that the new one is refused,
            or clients with fresh names could push out those that are served.

    Attributes:
        n_evicted: streams that gave their place away.
    """

    def __init__(self, inputs: Sequence[InputSpec], hold: int, most: int, idle_s: float) -> None:
        self._inputs, self._hold, self._most, self._idle_s = inputs, hold, most, idle_s
        self._windows: OrderedDict[str, tuple[StreamWindows, float]] = OrderedDict()
        self.n_evicted = 0

    def __len__(self) -> int:
        return len(self._windows)

    def of(self, name: str, now_s: float) -> StreamWindows:
        """Windows of a stream; new ones have no place yet, see `keep`.

        Raises:
            FrameRefused: it is new, and there is no room.
        """
        if name in self._windows:
            return self._windows[name][0]
        if len(self._windows) >= self._most and now_s - self._idlest()[1] < self._idle_s:
            raise FrameRefused(
                "streams",
                f"{self._most} streams are served already and none has been idle for {self._idle_s:g} s; forget one, or"
                " start the server with more --streams",
            )
        return StreamWindows(self._inputs, self._hold)

    def keep(self, name: str, windows: StreamWindows, now_s: float) -> None:
        """Keep the windows of a stream of which a frame was taken; who sends only what is refused has no place."""
        if name not in self._windows and len(self._windows) >= self._most:
            del self._windows[self._idlest()[0]]
            self.n_evicted += 1
        self._windows[name] = (windows, now_s)
        # Kept in the order of the last packet, so that `_idlest` looks at one entry only.
        self._windows.move_to_end(name)

    def forget(self, name: str) -> None:
        """Empty the windows of a stream, known or not."""
        self._windows.pop(name, None)

    def _idlest(self) -> tuple[str, float]:
        """Name of the stream that has been idle the longest, and when it sent its last frame."""
        name, (_, last_s) = next(iter(self._windows.items()))
        return name, last_s
