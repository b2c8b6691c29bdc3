"""Which transmissions a link loses: independent losses, Gilbert-Elliott bursts, shadows; drawn as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError, State
from ..memory import restore_to, state_of


class LossProcess(Protocol):
    """Fate of consecutive transmissions on one link; remembers its state from one call to the next."""

    @property
    def stationary_loss(self) -> float:
        """Long-run share of transmissions that are lost; exactly 1 when none can ever arrive."""
        ...

    @property
    def mean_burst(self) -> float:
        """Mean length of a burst, in transmissions."""
        ...

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where the transmission is lost, in order of sending."""
        ...


#: Indices of the packets that an intact message has lost.
NO_PACKETS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
NO_PACKETS.flags.writeable = False


class Lossless:
    """Every transmission arrives."""

    stationary_loss = 0.0
    mean_burst = 1.0

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] False."""
        return np.zeros(n_transmissions, dtype=np.bool_)


class IidLoss:
    """Every transmission is lost on its own with one probability.

    Args:
        probability: in [0, 1]; 0 loses nothing and 1 everything, exactly.
        draws: the link's own random stream.

    Raises:
        ConfigError: the probability lies outside [0, 1].
    """

    def __init__(self, probability: float, draws: np.random.Generator) -> None:
        _check_probability("loss_probability", probability)
        self._probability = probability
        self._draws = draws

    @property
    def stationary_loss(self) -> float:
        """The probability itself."""
        return self._probability

    @property
    def mean_burst(self) -> float:
        """Mean run of consecutive losses, 1 / (1 - probability)."""
        return 1.0 / (1.0 - self._probability) if self._probability < 1.0 else math.inf

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost. `random()` lies in [0, 1), so 0 and 1 are exact."""
        return self._draws.random(n_transmissions) < self._probability


class GilbertElliottLoss:
    """Losses in bursts: a hidden state is good or bad, moves after every transmission, and has its own loss in each.

    Args:
        p: probability of going from good to bad, per transmission.
        r: probability of going from bad to good, per transmission.
        loss_good, loss_bad: probability of losing a transmission in each state (1-k and 1-h in the literature).
        draws: the link's own random stream.

    Raises:
        ConfigError: a probability lies outside [0, 1], or p and r are both 0 so that no stationary start exists.

    Source: Gilbert 1960 and Elliott 1963; stationary bad share p / (p + r), mean burst 1 / r.
    """

    def __init__(self, p: float, r: float, loss_good: float, loss_bad: float, draws: np.random.Generator) -> None:
        for name, value in (("p", p), ("r", r), ("loss_good", loss_good), ("loss_bad", loss_bad)):
            _check_probability(name, value)
        if p == 0.0 and r == 0.0:
            raise ConfigError("gilbert_elliott p and r are both 0, so it never moves; set r above 0 or use iid loss")
        self._leave = {False: p, True: r}  # keyed by "is bad"
        self._loss = np.array([loss_good, loss_bad])
        self._draws = draws
        self._is_bad = bool(draws.random() < self.bad_share)  # state of the next transmission

    @property
    def bad_share(self) -> float:
        """Long-run share of transmissions that meet the bad state, p / (p + r)."""
        return self._leave[False] / (self._leave[False] + self._leave[True])

    @property
    def stationary_loss(self) -> float:
        """Long-run share of lost transmissions over both states."""
        return float((1.0 - self.bad_share) * self._loss[0] + self.bad_share * self._loss[1])

    @property
    def mean_burst(self) -> float:
        """Mean stay in the bad state, 1 / r transmissions."""
        return 1.0 / self._leave[True] if self._leave[True] > 0.0 else math.inf

    def state(self) -> State:
        return self._is_bad

    def restore(self, state: State) -> None:
        self._is_bad = state

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost."""
        is_bad = self._states(n_transmissions)
        return self._draws.random(n_transmissions) < self._loss[is_bad.view(np.uint8)]

    def _states(self, n: int) -> NDArray[np.bool_]:
        """[n] True where bad; leaves `_is_bad` at the state that follows.

        One draw per stay, not per transmission: stays have geometric lengths. The last one is cut where the message
        ends; what would be left of it is geometric again (memoryless), so the state is all that has to be kept.
        """
        states = np.empty(n, dtype=np.bool_)
        start = 0
        while start < n:
            leave = self._leave[self._is_bad]
            stay = int(self._draws.geometric(leave)) if leave > 0.0 else n + 1
            end = start + stay
            states[start:end] = self._is_bad  # a slice stops at n by itself
            if end <= n:
                self._is_bad = not self._is_bad
            start = end
        return states


class BlockedTimes:
    """When a line of sight is blocked, as somebody recorded it; played again and again along the clock.

    Args:
        time_s: [n] instants of the frames, ascending.
        blocked: [n] what holds from each of them until the next.
        loss_db: [n] of the line of sight, at least 0; None where nobody knows more than `blocked`.

    Attributes:
        time_s, blocked, loss_db: as given.
        duration_s: of one turn.

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
        step_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 1.0
        self.duration_s = float(self._time_s[-1]) + step_s

    @property
    def share(self) -> float:
        """Of the frames that are blocked."""
        return float(self.blocked.mean())

    def recorded_s(self, now_s: Any) -> NDArray[np.float64]:
        """[...] instants of the clock -> [...] instants of the recording that are played then."""
        return np.asarray((np.asarray(now_s) - self._first_s) % self.duration_s + self._first_s)

    def __call__(self, now_s: float) -> bool:
        """Whether it is blocked at this instant."""
        since_s = (now_s - self._first_s) % self.duration_s
        return bool(self.blocked[np.searchsorted(self._time_s, since_s, side="right") - 1])


class ShadowedLoss:
    """More losses while something stands in the way: the blockers that the sensors see.

    A message meets what holds when it is offered, until its last retransmission.

    Args:
        clear: losses otherwise.
        blocked_loss: probability of losing a transmission that `clear` would let through.
        is_blocked: at this moment.
        blocked_share: of all time, for figures.
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
        _check_probability("blocked_loss_probability", blocked_loss)
        self._clear, self._blocked_loss, self._is_blocked = clear, blocked_loss, is_blocked
        self._blocked_share, self._draws = blocked_share, draws

    @property
    def stationary_loss(self) -> float:
        """Over clear and blocked times."""
        through = 1.0 - self._clear.stationary_loss
        return 1.0 - through * (1.0 - self._blocked_share * self._blocked_loss)

    @property
    def mean_burst(self) -> float:
        """Of clear times."""
        return self._clear.mean_burst

    def state(self) -> State:
        return state_of(self._clear)

    def restore(self, state: State) -> None:
        restore_to(self._clear, state)

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost; clear times draw nothing more than `clear` does."""
        lost = self._clear.lost(n_transmissions)
        if self._is_blocked():
            lost = lost | (self._draws.random(n_transmissions) < self._blocked_loss)
        return lost


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:  # NaN fails too
        raise ConfigError(f"{name} must be a probability in [0, 1], got {value}; 0.01 means one in a hundred")
