"""`progress=True` of the Python API: the same lines and bars as those of the commands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ..running.progress import NoRunProgress, RunProgress
from ..schema.scenario import Scenario

if TYPE_CHECKING:
    from rich.console import Console


def shown_run(progress: RunProgress | bool | None, scenario: Scenario) -> AbstractContextManager[RunProgress]:
    """Context with the callbacks of a run.

    Args:
        progress: True: shown as by `sheafedge run`; False or None: not shown; callbacks: these.
        scenario: scenario of the run.
    """
    if progress is True:
        from ..terminal.run_progress import LiveProgress

        return LiveProgress(lines_console(), scenario)
    return nullcontext(progress or NoRunProgress())


def lines_console() -> Console:
    """Console of all progress of the Python API."""
    from rich.console import Console

    # in a notebook plain lines: bars there need ipywidgets
    return Console(emoji=False, highlight=False, force_jupyter=False)
