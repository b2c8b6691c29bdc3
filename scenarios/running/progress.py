"""What observes a run while it lasts: how far it is, and what happens to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..wiring.emulation import Emulation


class RunProgress(Protocol):
    """An observer of a run; `terminal.run_console.LiveProgress` draws it."""

    def recording(self, done: int, total: int) -> None:
        """A world is being recorded, which happens once: so many of its frames are done."""
        ...

    def started(self, emulation: Emulation) -> None:
        """Everything is built, and the clock stands at its start."""
        ...

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """All clients have finished a round; `score` is the mean of the task's first figure, where it was scored."""
        ...

    def stopping(self) -> None:
        """The run will stop after this round, and can be resumed."""
        ...

    def worker_lost(self, sentence: str) -> None:
        """A worker died, and the run goes on from its last checkpoint with new ones."""
        ...

    def exporting(self, n_clients: int) -> None:
        """Training is over."""
        ...


class NoRunProgress:
    """Observes nothing."""

    def recording(self, done: int, total: int) -> None:
        """Ignored."""

    def started(self, emulation: Emulation) -> None:
        """Ignored."""

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """Ignored."""

    def stopping(self) -> None:
        """Ignored."""

    def worker_lost(self, sentence: str) -> None:
        """Ignored."""

    def exporting(self, n_clients: int) -> None:
        """Ignored."""
