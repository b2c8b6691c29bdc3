"""`TrackedProgress`: the callbacks of a run, passed on to what shows them, and to trackers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..running.progress import RunProgress
from .round_figures import final_figures, round_figures
from .tracker import Tracker

if TYPE_CHECKING:
    from ..wiring.emulation import Emulation


class TrackedProgress:
    """Callbacks of a run, see `RunProgress`; a tracker that fails is left out, and costs the run nothing.

    A context manager: trackers are told how the run ended when it is left.

    Args:
        shown: gets every call.
        openers: name of a tracker -> what opens it when the run begins.
    """

    def __init__(self, shown: RunProgress, openers: Mapping[str, Callable[[], Tracker]]) -> None:
        self._shown, self._openers = shown, dict(openers)
        self._open: dict[str, Tracker] = {}
        self._final: Mapping[str, float] | None = None

    def complete(self, summary: Mapping[str, Any]) -> None:
        """The run is complete; `summary` is the content of its `summary.json`."""
        self._final = final_figures(summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._each("close", self._final)
        self._open.clear()

    def started(self, emulation: Emulation) -> None:
        """Open the trackers; a run that goes on with new workers keeps them."""
        self._shown.started(emulation)
        for name, opener in self._openers.items():
            self._guarded(name, partial(self._begin, name, opener))
        self._openers.clear()

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log the figures of the round."""
        self._shown.round_recorded(rows)
        if self._open:
            self._each("log", rows[0]["round"] + 1, round_figures(rows))

    def recording(self, done: int, total: int) -> None:
        """Passed on, as all that follow."""
        self._shown.recording(done, total)

    def noted(self, sentence: str) -> None:
        self._shown.noted(sentence)

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        self._shown.round_ended(round_index, now_s, score)

    def stopping(self) -> None:
        self._shown.stopping()

    def worker_lost(self, sentence: str) -> None:
        self._shown.worker_lost(sentence)

    def exporting(self, done: int, total: int) -> None:
        self._shown.exporting(done, total)

    def _begin(self, name: str, opener: Callable[[], Tracker]) -> None:
        self._open[name] = opener()

    def _each(self, method: str, *arguments: Any) -> None:
        for name, tracker in list(self._open.items()):
            self._guarded(name, partial(getattr(tracker, method), *arguments))

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        """Does something with a tracker; without it, after a note, where that fails."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - tools of others raise what they like
            self._open.pop(name, None)
            reason = " ".join(str(error).split())
            self._shown.noted(
                f"tracker {name} failed and gets no more figures of this run ({type(error).__name__}: {reason})"
            )
