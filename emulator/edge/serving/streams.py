"""Streams that are served: a bounded number; the longest idle one gives way to a new one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ..frame_packets import FrameRefused
from ..manifest import InputSpec
from .stream_windows import StreamWindows


class Streams:
    """Windows by name of the stream, the longest idle first.

    Args:
        inputs: of the model.
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
