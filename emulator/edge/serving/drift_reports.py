"""What a server says of drift: in every answer, in its metrics, and in a few sentences to its operator."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..drift_watch import DriftVerdict, DriftWatch
from ..manifest import Manifest
from .answering import InferenceRequest, ModelAnswer
from .metrics import Counts

#: Shortest time between two sentences, so that many streams, or one that comes and goes, do not fill a log.
LEAST_PAUSE_S = 10.0


class DriftReports:
    """Looks at the answers of one model.

    Args:
        manifest: manifest of the model.
        most_streams: streams that are remembered.
        counts: counts of the server.
        warn: called with sentences for the operator.
    """

    def __init__(self, manifest: Manifest, most_streams: int, counts: Counts, warn: Callable[[str], None]) -> None:
        self._manifest, self._counts, self._warn = manifest, counts, warn
        self.watch = DriftWatch(manifest.drift, manifest.inputs, most_streams)
        self._warned_s, self._n_unsaid = -math.inf, 0

    def take(self, request: InferenceRequest, answer: ModelAnswer, now_s: float) -> DriftVerdict:
        """Look at an answer, count what was found, and say so where something has begun to drift."""
        sample = request.sample
        # a frame that stands in for a lost one does not change, and says nothing new of its sensor
        skipped = {*sample.missing, *sample.held, *sample.stale_s}
        verdict = self.watch.judge(request.stream, request.index, answer.figures, answer.label_index, skipped)
        for modality in verdict.outside:
            self._counts.add("answers_outside", modality)
        for name in verdict.judged:
            self._counts.add("drift_windows", "drifted" if name in verdict.drifted else "like_training")
        if verdict.is_new:
            self._say(request.stream, verdict, now_s)
        return verdict

    def show_gauge(self) -> None:
        """Set the number of streams that have drifted."""
        self._counts.set_gauge(
            "drifted_streams", "Streams whose last full window is not like training.", len(self.watch.drifted)
        )

    def _say(self, stream: str, verdict: DriftVerdict, now_s: float) -> None:
        if now_s - self._warned_s < LEAST_PAUSE_S:
            self._n_unsaid += 1
            return
        others = f" (and {self._n_unsaid} more since the last warning)" if self._n_unsaid else ""
        found = ", ".join(f"{name} ({', '.join(figures)})" for name, figures in verdict.drifted.items())
        self._warn(f"stream {stream} is not like the training of {self._manifest.name}: {found}{others}")
        self._warned_s, self._n_unsaid = now_s, 0
