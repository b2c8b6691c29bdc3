"""Callbacks that follow a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..wiring.emulation import Emulation


class RunProgress(Protocol):
    """Callbacks of a run; `terminal.run_progress.LiveProgress` shows them on a terminal."""

    def recording(self, done: int, total: int) -> None:
        """Called while a world is recorded: number of recorded frames, and of all frames."""
        ...

    def noted(self, sentence: str) -> None:
        """Called with what the user should know about the recording of the world."""
        ...

    def started(self, emulation: Emulation) -> None:
        """Called when everything is built, before the first event."""
        ...

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Called with the rows of all nodes in a round, as they are in `metrics.jsonl`, before `round_ended`."""
        ...

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """Called when all clients have finished a round; `score` is the mean first score; None: not scored."""
        ...

    def stopping(self) -> None:
        """Called when a stop was requested: the run stops after this round, and can be resumed."""
        ...

    def worker_lost(self, sentence: str) -> None:
        """Called when a worker died, before the run continues from its last checkpoint with new ones."""
        ...

    def exporting(self, done: int, total: int) -> None:
        """Called after training, while models are exported: number of exported models, first 0, and of all."""
        ...


class NoRunProgress:
    """Callbacks that do nothing."""

    def recording(self, done: int, total: int) -> None:
        """Ignored."""

    def noted(self, sentence: str) -> None:
        """Ignored."""

    def started(self, emulation: Emulation) -> None:
        """Ignored."""

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Ignored."""

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """Ignored."""

    def stopping(self) -> None:
        """Ignored."""

    def worker_lost(self, sentence: str) -> None:
        """Ignored."""

    def exporting(self, done: int, total: int) -> None:
        """Ignored."""
