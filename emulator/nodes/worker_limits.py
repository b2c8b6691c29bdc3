"""How long engine and workers wait for each other. No wait is without a limit."""

from __future__ import annotations

from dataclasses import dataclass

from ..ranges import check_ranges


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Longest waits, in real seconds.

    Attributes:
        join_s: for all workers to come.
        silence_s: without a sign of life, both ways; signs come every `beat_s`, whatever else goes on.
        answer_s: for the next answer of a worker that lives but has work to do, such as a turn or loading its data.
        beat_s: from one sign of life to the next.

    Raises:
        ConfigError: a limit is out of range, or shorter than two signs of life.
    """

    join_s: float = 120.0
    silence_s: float = 6.0
    answer_s: float = 1800.0
    beat_s: float = 1.0

    def __post_init__(self) -> None:
        day_s = 86_400.0
        check_ranges("workers", self, {"beat_s": (0.01, 60.0), "join_s": (0.1, day_s), "answer_s": (0.1, 30 * day_s)})
        check_ranges("workers", self, {"silence_s": (2.0 * self.beat_s, day_s)})
