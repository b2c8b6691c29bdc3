"""Recorded rates, packet opportunities, delays and losses, replayed along the simulated clock.

A trace that ends before the run does starts again; a stretched one changes more slowly at the same rates and delays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, State
from ...saved_state import SavedState

#: Instants of a trace and of the clock that lie closer than this are the same; far below a trace's grain.
SAME_INSTANT_S = 1e-9
#: Bytes that may leave at every instant of a mahimahi trace.
OPPORTUNITY_BYTES = 1500


@dataclass(frozen=True, slots=True)
class TraceClock:
    """Position on a trace at an instant of the run: the trace has an offset, may be stretched, and is repeated.

    A trace of 10 s that is stretched to 60 s changes six times as slowly; its rates and delays stay what they are.

    Attributes:
        duration_s: duration of one replay in simulated time.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: a duration that is not positive.

    >>> TraceClock(duration_s=10.0).locate(25.0)
    (2, 5.0)
    """

    duration_s: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.duration_s < math.inf:
            raise ConfigError(f"a trace must last a positive time, got {self.duration_s} s; give one with two instants")

    def locate(self, now_s: float) -> tuple[int, float]:
        """Number of replays that have ended before, and seconds since the last began, in [0, duration_s)."""
        at_s = now_s + self.offset * self.duration_s
        # The sum of several durations is rounded: a moment before a replay's end belongs to the next one.
        lap = math.floor((at_s + SAME_INSTANT_S) / self.duration_s)
        return lap, max(0.0, at_s - lap * self.duration_s)

    def instant_s(self, lap: int, since_s: float) -> float:
        """The simulated instant so many seconds after the beginning of a replay; the reverse of `locate`."""
        return (lap - self.offset) * self.duration_s + since_s


class RecordedRate:
    """Pace of a sender at a recorded rate, to the bit, as Pensieve records it.

    Args:
        time_s: [n] instants, strictly ascending.
        rate_bps: [n] measured over the time that ends at each instant, 0 where nothing passed; the first one measures
            what was before the trace, and is not used.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: fewer than two instants, or a trace that never lets anything pass.

    Source: Pensieve's simulator reads its traces this way, first row included.
    """

    def __init__(
        self,
        time_s: NDArray[np.float64],
        rate_bps: NDArray[np.float64],
        stretch_to_s: float | None = None,
        offset: float = 0.0,
    ) -> None:
        if len(time_s) < 2 or not (rate_bps[1:] > 0.0).any():
            raise ConfigError("a trace of rates needs two instants and a rate above 0; choose another file")
        recorded_s = float(time_s[-1] - time_s[0])
        scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * scale, offset)
        self._edge_s = (time_s - time_s[0]) * scale
        self._rate_bps = rate_bps[1:]
        # Cumulative, so that messages that span many instants or replays need one search and no loop.
        self._sent_bits = np.concatenate([[0.0], np.cumsum(self._rate_bps * np.diff(self._edge_s))])

    @property
    def mean_rate_bps(self) -> float:
        """Mean rate in bits per second of a sender that always has something to send."""
        return float(self._sent_bits[-1]) / self._clock.duration_s

    def __call__(self, start_s: float, n_bytes: int) -> float:
        """Seconds until the last of these bytes has left."""
        if n_bytes == 0:
            return 0.0
        lap, since_s = self._clock.locate(start_s)
        per_replay = float(self._sent_bits[-1])
        laps, bits = divmod(self._bits_by(since_s) + 8.0 * n_bytes, per_replay)
        if bits == 0.0:  # done within the replay before, perhaps long before its end
            laps, bits = laps - 1.0, per_replay
        return max(0.0, self._clock.instant_s(lap + int(laps), self._when(bits)) - start_s)

    def _bits_by(self, since_s: float) -> float:
        """Bits that could have left since the beginning of a replay."""
        at = min(int(self._edge_s.searchsorted(since_s, side="right")), len(self._rate_bps)) - 1
        return float(self._sent_bits[at] + self._rate_bps[at] * (since_s - self._edge_s[at]))

    def _when(self, bits: float) -> float:
        """Seconds from the beginning of a replay to the first instant by which so many bits have left."""
        at = int(self._sent_bits.searchsorted(bits, side="left"))
        if at == 0:
            return 0.0
        return float(self._edge_s[at] - (self._sent_bits[at] - bits) / self._rate_bps[at - 1])


class RecordedOpportunities:
    """Pace of a sender that may send up to 1500 bytes at each recorded instant, as mahimahi records a cell.

    An instant without anything to send is lost. Bytes of an instant that one message leaves, the next may use if it
    waits already. The trace repeats after its
    last instant, as in mahimahi. Stretched, there are more instants of the same density (or fewer), so that the
    capacity at corresponding instants stays the same.

    Args:
        opportunity_s: [n] instants, ascending; many may be equal.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: no instant after 0.
    """

    def __init__(
        self, opportunity_s: NDArray[np.float64], stretch_to_s: float | None = None, offset: float = 0.0
    ) -> None:
        if len(opportunity_s) == 0 or not opportunity_s[-1] > 0.0:
            raise ConfigError("a trace of packet opportunities needs an instant after 0 s; choose another file")
        recorded_s = float(opportunity_s[-1])
        self._scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * self._scale, offset)
        self._recorded_s = opportunity_s
        # A stretched trace has more opportunities instead of rarer ones.
        self._per_replay = max(1, round(self._scale * len(opportunity_s)))
        self._next = 0  # counted over all replays
        self._left_bytes = 0  # of the opportunity before

    @property
    def mean_rate_bps(self) -> float:
        """Mean rate in bits per second of a sender that always has something to send."""
        return 8.0 * OPPORTUNITY_BYTES * self._per_replay / self._clock.duration_s

    def state(self) -> State:
        return [self._next, self._left_bytes]

    def restore(self, saved: SavedState) -> None:
        self._next, self._left_bytes = (one.count() for one in saved.listed(2))

    def __call__(self, start_s: float, n_bytes: int) -> float:
        """Seconds until the last of these bytes has left."""
        first = max(self._next, self._first_from(start_s))
        # A message that follows without a pause was in the queue at that opportunity and may use what is left of it.
        waiting = self._next > 0 and self._instant_s(self._next - 1) >= start_s - SAME_INSTANT_S
        usable = self._left_bytes if waiting else 0
        if n_bytes <= usable:
            self._left_bytes -= n_bytes
            return 0.0
        n_opportunities = -(-(n_bytes - usable) // OPPORTUNITY_BYTES)
        self._left_bytes = n_opportunities * OPPORTUNITY_BYTES - (n_bytes - usable)
        self._next = first + n_opportunities
        return max(0.0, self._instant_s(self._next - 1) - start_s)

    def _first_from(self, start_s: float) -> int:
        """Number, over all replays, of the first opportunity that is not over at this instant."""
        lap, since_s = self._clock.locate(start_s)
        if lap > 0 and since_s <= SAME_INSTANT_S:  # the last ones of the replay before are those of this instant too
            lap, since_s = lap - 1, self._clock.duration_s
        at = int(self._recorded_s.searchsorted((since_s - SAME_INSTANT_S) / self._scale, side="left"))
        return lap * self._per_replay + at * self._per_replay // len(self._recorded_s)

    def _instant_s(self, number: int) -> float:
        """Instant of an opportunity: stretched, it lies where the one of the same share of the recording lay."""
        lap, index = divmod(number, self._per_replay)
        at = -(-(index + 1) * len(self._recorded_s) // self._per_replay) - 1
        return self._clock.instant_s(lap, self._scale * float(self._recorded_s[at]))


class RecordedDelay:
    """Latency of a link as recorded, message by message: at any instant, that of the latest measurement.

    Args:
        time_s: [n] when the measured messages were sent, strictly ascending.
        delay_s: [n] how long they took.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: fewer than two measurements.
    """

    def __init__(
        self,
        time_s: NDArray[np.float64],
        delay_s: NDArray[np.float64],
        stretch_to_s: float | None = None,
        offset: float = 0.0,
    ) -> None:
        if len(time_s) < 2:
            raise ConfigError("a trace of delays needs two measurements; choose another file")
        recorded_s = float(time_s[-1] - time_s[0] + np.median(np.diff(time_s)))  # the last one holds as long as most
        scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * scale, offset)
        self._sent_s, self._delay_s = (time_s - time_s[0]) * scale, delay_s

    def __call__(self, start_s: float) -> float:
        """Delay in seconds of a message that is sent at this instant."""
        _, since_s = self._clock.locate(start_s)
        return float(self._delay_s[self._sent_s.searchsorted(since_s + SAME_INSTANT_S, side="right") - 1])


class RecordedLoss:
    """Loss process that repeats recorded fates of packets, in their order.

    Its unit is the packet: a transmission gets the fate of the next recorded one, however much time lies between.

    Args:
        received: [n] True where the recorded packet arrived.
        first: index of the recorded packet that comes first.

    Raises:
        ConfigError: no packet.
    """

    def __init__(self, received: NDArray[np.bool_], first: int = 0) -> None:
        if len(received) == 0:
            raise ConfigError("a trace of receptions holds no packet; choose another file or row")
        self._lost = ~received
        self._next = first % len(received)

    @property
    def stationary_loss(self) -> float:
        """Share of the recorded packets that were lost."""
        return float(self._lost.mean())

    @property
    def mean_burst(self) -> float:
        """Mean run of losses, the trace taken as a ring."""
        n_ends = int((self._lost & ~np.roll(self._lost, -1)).sum())
        # Losses per run of losses; without an end they are none or all.
        return float(self._lost.sum()) / n_ends if n_ends else (math.inf if self._lost.all() else 1.0)

    def state(self) -> State:
        return self._next

    def restore(self, saved: SavedState) -> None:
        self._next = saved.count(len(self._lost) - 1)

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost."""
        end = self._next + n_transmissions
        if end <= len(self._lost):
            fates = self._lost[self._next : end]
        else:
            fates = self._lost[np.arange(self._next, end) % len(self._lost)]
        self._next = end % len(self._lost)
        return fates
