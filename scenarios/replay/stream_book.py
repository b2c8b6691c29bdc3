"""Record of the answers about one base station: which came, how late, and how right they were."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import SheafedgeError
from ...emulator.decisions.warning_events import WarningEvents, WarningRecord, warning_events
from ...emulator.edge.frame_packets import Answer
from ...emulator.edge.manifest import Manifest
from .station_stream import StationStream


class ReplayError(SheafedgeError):
    """The server is silent, has left, or serves nothing that can be replayed to."""


class FrameOutcome(IntEnum):
    """Outcome of the frames of one instant, and of the request that they carry."""

    NOT_ASKED = 0
    AWAITED = 1
    ANSWERED = 2
    DROPPED = 3
    REFUSED = 4
    UNANSWERED = 5
    WITHHELD = 6  # all its frames were lost on purpose, so no request could be sent


class StreamBook:
    """Record of the requests and answers of one stream.

    Args:
        stream: stream of the base station.
        manifest: manifest of the model that answers.
        speed: seconds of the recording in a second of the wall clock; None: no clock is kept.

    Attributes:
        stream: as given.
        outcome: [n] `FrameOutcome` of every instant.
        latency_s: [n] wall clock from sending to receiving; NaN without an answer.
        n_instants: number of instants sent so far.
        n_awaited: number of requests without a reply so far.
        n_unasked: number of replies without a request, or to one that was settled already.
        n_missing: modality -> number of answers computed without it.
        n_held: number of answers with an earlier frame in place of a missing one.
        n_outside: modality -> number of answers whose frame the server found outside of training.
        n_drifted: modality, or "answers", -> number of answers while the stream was not like training.
        last: the newest answer.
    """

    def __init__(self, stream: StationStream, manifest: Manifest, speed: float | None = 1.0) -> None:
        self.stream, self._output, self._speed = stream, manifest.output, speed
        n = len(stream)
        self.outcome: NDArray[np.int8] = np.zeros(n, np.int8)
        self.latency_s: NDArray[np.float64] = np.full(n, np.nan)
        self.spent_s: NDArray[np.float64] = np.full(n, np.nan)
        self.chosen: NDArray[np.int64] = np.full(n, -1)
        self._logits = np.full((n, self._output.n_outputs), np.nan)
        self._sent_s = np.full(n, np.nan)
        self.n_instants = self.n_awaited = self.n_unasked = self.n_held = 0
        self.n_missing: Counter[str] = Counter()
        self.n_outside: Counter[str] = Counter()
        self.n_drifted: Counter[str] = Counter()
        self.last: tuple[int, Answer] | None = None

    def note_sent(self, instant: int, wall_s: float, *, asked: bool) -> None:
        """Note that the frames of an instant were sent at this wall clock time."""
        self.n_instants = instant + 1
        if asked:
            self.outcome[instant], self._sent_s[instant] = FrameOutcome.AWAITED, wall_s
            self.n_awaited += 1

    def note_withheld(self, instant: int) -> None:
        """Note that all frames of an instant were lost on purpose."""
        self.n_instants = instant + 1
        if self.stream.asks[instant]:
            self.outcome[instant] = FrameOutcome.WITHHELD

    def note_answer(self, answer: Answer, wall_s: float) -> None:
        """Note an answer that arrived at this wall clock time.

        Raises:
            ReplayError: it has another number of logits than the model that was served before.
        """
        # before the request is settled: an answered instant is scored, and this answer has no scores
        if len(answer.logits) != self._output.n_outputs:
            raise ReplayError(
                f"{answer.bundle} answers with {len(answer.logits)} logits, the model that was served before with"
                f" {self._output.n_outputs}; start the replay again"
            )
        instant = self._settled(answer.index, FrameOutcome.ANSWERED)
        if instant is None:
            return
        self.latency_s[instant] = wall_s - self._sent_s[instant]
        self.spent_s[instant] = answer.spent_s.get("total", np.nan)
        self.chosen[instant] = answer.label_index
        self._logits[instant] = answer.logits
        self.n_missing.update(answer.missing)
        self.n_held += bool(answer.held)
        self.n_outside.update(answer.outside.keys())
        self.n_drifted.update(answer.drifted.keys())
        # answers may overtake each other
        if self.last is None or instant >= self.last[0]:
            self.last = instant, answer

    def note_dropped(self, index: int) -> None:
        """Note that the server dropped a request."""
        self._settled(index, FrameOutcome.DROPPED)

    def note_refused(self, index: int) -> None:
        """Note that the server did not take the frames of an instant, with or without a request."""
        instant = self._instant(index)
        # frames without a request may be refused as well, which settles nothing
        if instant is not None and self.outcome[instant] == FrameOutcome.AWAITED:
            self._settled(index, FrameOutcome.REFUSED)

    def give_up(self) -> None:
        """Stop waiting for the rest of the replies; their requests count as unanswered."""
        self.outcome[self.outcome == FrameOutcome.AWAITED] = FrameOutcome.UNANSWERED
        self.n_awaited = 0

    def count(self, outcome: FrameOutcome) -> int:
        """Number of instants with this outcome."""
        return int((self.outcome == outcome).sum())

    @property
    def answered(self) -> NDArray[np.int64]:
        """[n_answered] indices of the answered instants."""
        instants: NDArray[np.int64] = np.flatnonzero(self.outcome == FrameOutcome.ANSWERED)
        return instants

    @property
    def logits(self) -> NDArray[np.float64]:
        """[n_answered, n_outputs] as scores take them."""
        logits, output = self._logits[self.answered], self._output
        # scores of forecasts are those of the probabilities that are served
        if output.kind == "forecast":
            return logits / output.temperature
        # others count logits from 0, a served model may have another threshold
        return logits - (output.threshold if output.kind == "binary" else 0.0)

    @property
    def answered_samples(self) -> Any:
        """[n_answered] samples of the answered instants, with labels; see `StationStream.samples`."""
        return self.stream.samples.take(self.stream.scored[self.answered])

    @property
    def known(self) -> NDArray[np.int64]:
        """[n_known] instants sent so far for which the right answer is known."""
        instants: NDArray[np.int64] = np.flatnonzero(self.stream.scored[: self.n_instants] >= 0)
        return instants

    def warning_events(self) -> WarningEvents | None:
        """Blockages predicted until now; None where answers are no warnings, and before anything was sent."""
        known = self.known
        blockages = self.stream.task.known_blockages(self.stream.samples.take(self.stream.scored[known]))
        if blockages is None or not len(known):
            return None
        # without a clock no delay is known: NaN, which is neither in time nor late
        speed = np.nan if self._speed is None else self._speed
        return warning_events(
            WarningRecord(
                time_s=self.stream.time_s[known],
                blocked=blockages.blocked,
                begins=self._begins(known),
                soon=blockages.soon,
                answered=self.outcome[known] == FrameOutcome.ANSWERED,
                warned=self.chosen[known] == 1,
                # in seconds of the recording: a replay at double speed has half the time to warn
                delay_s=self.latency_s[known] * speed,
                horizon_s=blockages.horizon / self.stream.rate_hz,
            )
        )

    def _begins(self, known: NDArray[np.int64]) -> NDArray[np.bool_]:
        """[n_known] whether a stretch begins at or since the instant before."""
        # a stretch may begin at an instant without a label, so that beginnings are counted before the selection
        stretch = np.cumsum(self.stream.begins)[known]
        begins: NDArray[np.bool_] = np.diff(stretch, prepend=0) > 0
        return begins

    def _settled(self, index: int, outcome: FrameOutcome) -> int | None:
        """The instant with this index, which is awaited no longer; None: there was no request."""
        instant = self._instant(index)
        if instant is None or self.outcome[instant] != FrameOutcome.AWAITED:
            self.n_unasked += 1
            return None
        self.outcome[instant] = outcome
        self.n_awaited -= 1
        return instant

    def _instant(self, index: int) -> int | None:
        instant = int(np.searchsorted(self.stream.index, index))
        found = instant < len(self.stream) and self.stream.index[instant] == index
        return instant if found else None
