"""Settings of a server of one bundle: how many streams and requests it takes, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...contracts import ConfigError


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Bounds of a server; a description of the server holds them under these names.

    Attributes:
        batch: most answers of one run of the model.
        waiting: most requests of one stream that wait; the oldest gives way.
        waiting_in_all: most requests of all streams that wait.
        streams: most streams at once.
        idle_s: a stream that was silent for so long gives its place to a new one.
        hold: instants at which a lost frame's predecessor may stand in for it.
        finish_s: longest time for what waits when the server stops.
        trial_s: of a folder of versions, time in which a new one gives way to another if streams drift; 0: never.

    Raises:
        ConfigError: a value that nothing can be served with.
    """

    batch: int = 8
    waiting: int = 2
    waiting_in_all: int = 256
    streams: int = 256
    idle_s: float = 10.0
    hold: int = 2
    finish_s: float = 5.0
    trial_s: float = 0.0

    def __post_init__(self) -> None:
        for name, low in (("batch", 1), ("waiting", 1), ("waiting_in_all", 1), ("streams", 1), ("hold", 0)):
            if getattr(self, name) < low:
                raise ConfigError(f"{name} must be at least {low}, got {getattr(self, name)}")
        for name in ("idle_s", "finish_s", "trial_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a time of at least 0 s, got {getattr(self, name)}")
