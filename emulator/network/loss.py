"""Loss processes of links: independent losses and Gilbert-Elliott bursts, drawn as vectors."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError, State
from ..saved_state import SavedState


class LossProcess(Protocol):
    """Losses of consecutive transmissions on one link, with state from one call to the next."""

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


#: The fate of a single transmission.
_LOST: NDArray[np.bool_] = np.ones(1, dtype=np.bool_)
_ARRIVED: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
_LOST.flags.writeable = _ARRIVED.flags.writeable = False


class Lossless:
    """Loss process that loses nothing."""

    stationary_loss = 0.0
    mean_burst = 1.0

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] False."""
        return np.zeros(n_transmissions, dtype=np.bool_)


class IidLoss:
    """Independent losses: every transmission is lost with the same probability.

    Args:
        probability: probability of losing a transmission, in [0, 1]; 0 loses nothing and 1 everything, exactly.
        draws: the link's own random stream.

    Raises:
        ConfigError: the probability lies outside [0, 1].
    """

    def __init__(self, probability: float, draws: np.random.Generator) -> None:
        check_probability("loss_probability", probability)
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
        if n_transmissions == 1:  # the same number as an array of one, in a third of the time
            return _LOST if self._draws.random() < self._probability else _ARRIVED
        return self._draws.random(n_transmissions) < self._probability


class GilbertElliottLoss:
    """Losses in bursts: a hidden state is good or bad, may change after every transmission, and sets the loss.

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
            check_probability(name, value)
        if p == 0.0 and r == 0.0:
            raise ConfigError("gilbert_elliott p and r are both 0, so it never moves; set r above 0 or use iid loss")
        self._leave = {False: p, True: r}  # keyed by "is bad"
        self._loss = np.array([loss_good, loss_bad])
        self._draws = draws
        # A stationary start: also a run that is shorter than a few bursts has the long-run loss on average.
        self._is_bad = bool(draws.random() < self.bad_share)  # state of the next transmission

    @property
    def bad_share(self) -> float:
        """Long-run share of transmissions in the bad state, p / (p + r)."""
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

    def restore(self, saved: SavedState) -> None:
        self._is_bad = saved.flag()

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
            # A state that is never left outlasts the message; numpy has no geometric draw of probability 0.
            stay = int(self._draws.geometric(leave)) if leave > 0.0 else n + 1
            end = start + stay
            states[start:end] = self._is_bad  # a slice stops at n by itself
            if end <= n:
                self._is_bad = not self._is_bad
            start = end
        return states


def check_probability(name: str, value: float) -> None:
    """Refuse a value outside [0, 1].

    Raises:
        ConfigError: names the field and its value.
    """
    if not 0.0 <= value <= 1.0:  # NaN fails too
        raise ConfigError(f"{name} must be a probability in [0, 1], got {value}; 0.01 means one in a hundred")
