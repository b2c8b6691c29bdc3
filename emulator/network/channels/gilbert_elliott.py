"""Settings of losses in bursts, with the parameters of netem's `gemodel p r 1-h 1-k`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...contracts import ConfigError
from ..loss import GilbertElliottLoss


@dataclass(frozen=True, slots=True)
class BurstSettings:
    """Parameters of the Gilbert-Elliott model of one link.

    Attributes:
        p: probability of going from good to bad, per transmission of a packet.
        r: probability of going from bad to good; bursts last 1 / r transmissions on average.
        loss_bad: share lost in the bad state, netem's "1-h".
        loss_good: share lost in the good state, netem's "1-k".

    Source: Gilbert 1960, Elliott 1963; order and names of the arguments as in tc-netem(8).
    """

    p: float
    r: float
    loss_bad: float = 1.0
    loss_good: float = 0.0

    def process(self, draws: np.random.Generator) -> GilbertElliottLoss:
        """The losses of one link.

        Raises:
            ConfigError: a probability lies outside [0, 1], or p and r are both 0.
        """
        return GilbertElliottLoss(self.p, self.r, self.loss_good, self.loss_bad, draws)


#: light loses 1.9 % in the long run, mobile 7.4 %; bursts of 4 packets on average.
BURST_PRESETS = {
    "light": BurstSettings(p=0.01, r=0.25, loss_bad=0.5),
    "mobile": BurstSettings(p=0.02, r=0.25, loss_bad=1.0),
}


def bursts_of(share: float, mean_burst: float) -> BurstSettings:
    """Bursts of this mean length that lose everything, and lose this share in the long run.

    Args:
        share: long-run share of lost transmissions, in (0, 1).
        mean_burst: packets, at least 1.

    Raises:
        ConfigError: bursts would have to follow each other without a packet between them.

    >>> bursts_of(share=0.2, mean_burst=4.0)
    BurstSettings(p=0.0625, r=0.25, loss_bad=1.0, loss_good=0.0)
    """
    r = 1.0 / mean_burst
    # From the stationary share p / (p + r).
    p = share * r / (1.0 - share)
    if p > 1.0:
        raise ConfigError(
            f"link.mean_burst_packets = {mean_burst:g} is too short for link.loss_probability = {share:g};"
            f" bursts must last at least {share / (1.0 - share):.3g} packets"
        )
    return BurstSettings(p, r)
