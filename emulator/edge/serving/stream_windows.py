"""Sliding windows of the streams that are served: last frames of every sensor, and the sample that ends at an instant.

Frames lie in rings by the number of their instant, so late ones find their place and nothing is ever moved. A sample is
exactly the window that the model was trained on: instants `now - lag - frames + 1` to `now - lag`. Training windows
have no holes. Here frames get lost, so the frame before stands in for at most `hold` instants, as the answer states;
a longer hole, or a sensor that has been silent for longer, makes the modality missing until a whole window is there.

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

#: Instants by which a frame may come later than the newest of its sensor and still be sure to find its place.
LATE_INSTANTS = 8
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
        taken = self._index[wanted % self._size]
        # The usual case, no hole, needs no search.
        n_held = int((taken != wanted).sum())
        if n_held:
            # An index decides whether a slot's frame is of that instant; others are left from rounds before.
            taken = self._held(wanted)
            if (taken == _NOTHING).any():
                return None
        frames: NDArray[np.float32] = self._frames[taken % self._size]  # [frames, *frame_shape]
        axis = self._spec.window.axis
        return frames[0] if axis is None else np.moveaxis(frames, 0, axis), n_held

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

    def put(self, index: int, time_s: float, frames: Mapping[Modality, NDArray[Any]]) -> None:
        """Take the frames of an instant: all of them or none.

        Raises:
            FrameRefused: a frame is not what the model was trained on, or has no place in its window.
        """
        # everything is checked before anything is kept
        made = {modality: self._frame(modality, values) for modality, values in frames.items()}
        for modality in made:
            if modality in self._rings:
                self._rings[modality].check(index)
        for modality, frame in made.items():
            if modality not in self._rings:  # a sensor that never sends costs no memory
                self._rings[modality] = SensorRing(self._specs[modality], self._hold)
            self._rings[modality].put(index, time_s, frame)

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
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            frame = values.astype(np.float32)
        if not np.isfinite(frame).all():
            raise FrameRefused("values", f"frame of {modality} must hold finite numbers, in {spec.unit}")
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
        """Windows of a stream that has just sent something.

        Raises:
            FrameRefused: it is new, and there is no room.
        """
        if name not in self._windows:
            self._make_room(now_s)
        windows = self._windows[name][0] if name in self._windows else StreamWindows(self._inputs, self._hold)
        self._windows[name] = (windows, now_s)
        # Kept in the order of the last packet, so that `_make_room` looks at one entry only.
        self._windows.move_to_end(name)
        return windows

    def forget(self, name: str) -> None:
        """Empty the windows of a stream, known or not."""
        self._windows.pop(name, None)

    def _make_room(self, now_s: float) -> None:
        if len(self._windows) < self._most:
            return
        # streams are in the order of their last packet, so the first one is the longest idle
        idlest, (_, last_s) = next(iter(self._windows.items()))
        if now_s - last_s < self._idle_s:
            raise FrameRefused(
                "streams",
                f"{self._most} streams are served already and none has been idle for {self._idle_s:g} s; forget one, or"
                " start the server with more --streams",
            )
        del self._windows[idlest]
        self.n_evicted += 1
