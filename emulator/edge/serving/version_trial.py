"""Time in which a version that has just come must not make streams drift, or it gives way to the one before."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..drift_watch import DriftVerdict


class VersionTrial:
    """Trial of one version after the other.

    Args:
        trial_s: length of a trial; 0: there are none.
    """

    def __init__(self, trial_s: float) -> None:
        self._trial_s = trial_s
        self._until_s = -math.inf
        self._known: frozenset[str] = frozenset()

    def begin(self, now_s: float, drifted: Collection[str] = ()) -> None:
        """Begin the trial of a version that has just come.

        Args:
            now_s: monotonic clock.
            drifted: streams that had drifted by the version before: these are no fault of the new one.
        """
        self._until_s, self._known = now_s + self._trial_s, frozenset(drifted)

    def end(self) -> None:
        """End it: the version stays."""
        self._until_s = -math.inf

    def fails(self, stream: str, verdict: DriftVerdict, now_s: float) -> bool:
        """Whether a stream drifts by the version on trial, and did not before."""
        return verdict.is_new and now_s < self._until_s and stream not in self._known
