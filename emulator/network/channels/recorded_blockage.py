"""Recorded blockage of a line of sight, and what it does to links: more losses, or a weaker signal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, State
from ...saved_state import SavedState, optional_state, restore_optional
from ..loss import LossProcess, check_probability

Array = NDArray[np.float64]


class BlockedTimes:
    """Intervals in which a line of sight is blocked, as recorded; repeated along the simulated clock.

    Args:
        time_s: [n] instants of the frames, ascending.
        blocked: [n] whether it is blocked, from each of them until the next.
        loss_db: [n] loss of the line of sight in dB, at least 0; None where only `blocked` is known.

    Attributes:
        time_s, blocked, loss_db: as given.
        duration_s: duration of one replay.

    Raises:
        ConfigError: no frame.
    """

    def __init__(
        self,
        time_s: NDArray[np.float64],
        blocked: NDArray[np.bool_],
        loss_db: NDArray[np.float64] | None = None,
    ) -> None:
        if len(time_s) == 0:
            raise ConfigError(
                "links follow a recording without frames; record longer, or set link.blocked_loss_probability = 0"
            )
        self.time_s, self.blocked, self.loss_db = time_s, blocked, loss_db
        self._time_s = time_s - time_s[0]
        self._first_s = float(time_s[0])
        # The last frame holds as long as most others do.
        step_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 1.0
        self.duration_s = float(self._time_s[-1]) + step_s

    @property
    def share(self) -> float:
        """Share of the frames that are blocked."""
        return float(self.blocked.mean())

    def recorded_s(self, now_s: Any) -> NDArray[np.float64]:
        """[...] instants of the clock -> [...] instants of the recording that are played then."""
        return np.asarray((np.asarray(now_s) - self._first_s) % self.duration_s + self._first_s)

    def __call__(self, now_s: float) -> bool:
        """Whether it is blocked at this instant."""
        since_s = (now_s - self._first_s) % self.duration_s
        return bool(self.blocked[np.searchsorted(self._time_s, since_s, side="right") - 1])


class ShadowedLoss:
    """Loss process with more losses while the line of sight is blocked, by the blockers that the sensors see.

    What holds when a message is offered holds until its last retransmission.

    Args:
        clear: losses without blockage.
        blocked_loss: probability of losing a transmission that `clear` would let through.
        is_blocked: whether the line of sight is blocked at this moment.
        blocked_share: share of all time that is blocked, for figures.
        draws: the link's own stream for these losses.

    Raises:
        ConfigError: the probability lies outside [0, 1].
    """

    def __init__(
        self,
        clear: LossProcess,
        blocked_loss: float,
        is_blocked: Callable[[], bool],
        blocked_share: float,
        draws: np.random.Generator,
    ) -> None:
        check_probability("blocked_loss_probability", blocked_loss)
        self._clear, self._blocked_loss, self._is_blocked = clear, blocked_loss, is_blocked
        self._blocked_share, self._draws = blocked_share, draws

    @property
    def stationary_loss(self) -> float:
        """Long-run share of lost transmissions over clear and blocked times."""
        through = 1.0 - self._clear.stationary_loss
        return 1.0 - through * (1.0 - self._blocked_share * self._blocked_loss)

    @property
    def mean_burst(self) -> float:
        """Mean length of a burst in clear times, in transmissions."""
        return self._clear.mean_burst

    def state(self) -> State:
        return optional_state(self._clear)

    def restore(self, saved: SavedState) -> None:
        restore_optional(self._clear, saved)

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost; clear times draw nothing more than `clear` does."""
        # First and always, so that blockage does not shift the draws of clear times.
        lost = self._clear.lost(n_transmissions)
        if self._is_blocked():
            lost = lost | (self._draws.random(n_transmissions) < self._blocked_loss)
        return lost


class RecordedFade:
    """Loss of a line of sight over time, as recorded; repeated along the simulated clock.

    Between two frames it is interpolated in dB: a vehicle's edge takes 20 dB within a tenth of a second, about the
    time from one frame to the next. Reflections arrive all the while, so that no fade is deeper than `deepest_db`.

    Args:
        when: instants of the frames.
        loss_db: [n] loss of the line of sight in each frame, in dB, at least 0.
        deepest_db: loss in dB without any line of sight, above 0.
    """

    def __init__(self, when: BlockedTimes, loss_db: Array, deepest_db: float) -> None:
        fade_db = filled_shadow_db(loss_db, deepest_db)
        self._when = when
        self._frame_s = np.append(when.time_s, when.time_s[0] + when.duration_s)  # the first frame follows the last
        self._fade_db = np.append(fade_db, fade_db[0])

    def __call__(self, time_s: Array) -> Array:
        """[...] instants of the clock -> [...] dB, at least 0."""
        return np.asarray(np.interp(self._when.recorded_s(time_s), self._frame_s, self._fade_db))


def filled_shadow_db(loss_db: Array, deepest_db: float) -> Array:
    """Loss of total received power by a loss of the line of sight: [...] dB -> [...] dB in [0, deepest_db).

    The line of sight and a constant rest add their powers: 10 log10((1 + r) / (10^(-loss / 10) + r)).
    """
    # Chosen such that without any direct power the loss is exactly `deepest_db`.
    rest = 1.0 / (10.0 ** (deepest_db / 10.0) - 1.0)
    direct = 10.0 ** (-np.maximum(np.asarray(loss_db, dtype=np.float64), 0.0) / 10.0)
    return np.asarray(10.0 * np.log10((1.0 + rest) / (direct + rest)))
