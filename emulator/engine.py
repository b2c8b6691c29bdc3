"""The simulated clock with its named random streams, and the barrier that rounds are built on.

Nothing here is global: two environments live side by side in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from .contracts import State
from .random_streams import (
    PACKED_BYTES,
    named_stream,
    packed_stream,
    restore_stream,
    stream_state,
    unpack_stream,
)
from .saved_state import SavedState

#: Behind SimPy's own priorities, urgent (0) and normal (1).
_LAST = EventPriority(2)


class _Moment(simpy.Event):
    """Event that waits in the queue for its instant, as a timeout does: it cannot fail."""

    _ok, _value = True, None

    def __init__(self, env: simpy.Environment, callbacks: list[Callable[[simpy.Event], None]]) -> None:
        self.env, self.callbacks = env, callbacks


class EmulatorEnvironment(simpy.Environment):
    """SimPy environment with the seed and the named random streams of a run.

    Args:
        seed: root seed of the run.
        start_s: simulated instant at which the clock starts, in seconds.

    >>> env = EmulatorEnvironment(seed=1)
    >>> env.run(until=env.at(2.5))
    >>> env.now
    2.5
    """

    def __init__(self, seed: int, start_s: float = 0.0) -> None:
        super().__init__(initial_time=start_s)
        self.seed = seed
        self._streams: dict[str, np.random.Generator] = {}
        self._resting: dict[str, bytes] = {}

    def stream(self, *name: object) -> np.random.Generator:
        """`named_stream` of this run's seed; it is given out once, and the caller keeps it."""
        label = "/".join(map(str, name))
        # Two components with one stream would change each other's draws.
        assert label not in self._streams, f"two components use the stream {label!r}"
        self._streams[label] = draws = named_stream(self.seed, *name)
        return draws

    def rest(self, *name: object) -> None:
        """Take a stream back from its component, and remember where it is."""
        label = "/".join(map(str, name))
        self._resting[label] = packed_stream(self._streams.pop(label))

    def resume(self, *name: object) -> None:
        """Let a stream that was given out again go on from where it was, if it rested.

        Its component is made first, as at the start of the run: some draw from the stream while they are made.
        """
        label = "/".join(map(str, name))
        if (packed := self._resting.pop(label, None)) is not None:
            unpack_stream(self._streams[label], packed)

    def state(self) -> State:
        """Simulated instant and states of all streams."""
        resting = {
            "names": "\n".join(self._resting),
            "states": np.frombuffer(b"".join(self._resting.values()), np.uint8),
        }
        return {
            "now_s": self.now,
            "streams": {name: stream_state(draws) for name, draws in self._streams.items()},
            **({"resting": resting} if self._resting else {}),
        }

    def restore(self, saved: SavedState) -> None:
        """Let the streams go on from there; the clock was started at that instant."""
        streams = saved.part("streams")
        for name, draws in self._streams.items():
            restore_stream(draws, streams.part(name))
        if "resting" in saved.named():
            resting = saved.part("resting").parts("names", "states")
            names = resting["names"].text().split("\n")
            states = resting["states"].array(np.dtype(np.uint8), len(names) * PACKED_BYTES).reshape(-1, PACKED_BYTES)
            self._resting = {name: one.tobytes() for name, one in zip(names, states, strict=True)}
        for name, one in streams.named().items():
            if name not in self._streams:  # its component is not there yet
                draws = np.random.default_rng(0)
                restore_stream(draws, one)
                self._resting[name] = packed_stream(draws)

    def at(self, instant_s: float) -> simpy.Event:
        """Event that fires at exactly this instant, or now if that is past; a timeout would round it."""
        event = _Moment(self, [])
        # SimPy schedules by delay, and now + (instant - now) is not always the instant: the queue is filled directly.
        heappush(self._queue, (max(instant_s, self._now), NORMAL, next(self._eid), event))
        return event

    def call_at(self, instant_s: float, what: Callable[[simpy.Event], None]) -> None:
        """Call a function at exactly this instant, or later in this one if that is past."""
        heappush(self._queue, (max(instant_s, self._now), NORMAL, next(self._eid), _Moment(self, [what])))

    def end_of_instant(self) -> simpy.Event:
        """Event that fires at this instant, after everything else that happens in it without taking time."""
        event = _Moment(self, [])
        heappush(self._queue, (self._now, _LAST, next(self._eid), event))
        return event


class Barrier:
    """Barrier at which processes wait for each other: base stations with a common time reference end phases together.

    Args:
        env: the simulated clock.
        n_parties: number of parties; each may leave, and join again while no party waits.
    """

    def __init__(self, env: simpy.Environment, n_parties: int) -> None:
        self._env, self._n_parties = env, n_parties
        self._n_waiting = 0
        self._gate = env.event()

    def wait(self) -> simpy.Event:
        """Event that fires when all parties wait; the barrier can then be used again."""
        gate = self._gate
        self._n_waiting += 1
        self._open_if_complete()
        return gate

    def leave(self) -> None:
        """Remove a party that is not waiting; the others go on if they waited only for it."""
        self._n_parties -= 1
        self._open_if_complete()

    def join(self) -> None:
        """Add a party that had left."""
        self._n_parties += 1

    def _open_if_complete(self) -> None:
        # When the last party has left, 0 == 0 is nothing to wait for.
        if 0 < self._n_waiting == self._n_parties:
            gate = self._gate
            self._n_waiting, self._gate = 0, self._env.event()
            gate.succeed()
