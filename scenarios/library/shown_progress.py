"""`progress=True` of the Python API: the same lines and bars as those of the commands."""

from __future__ import annotations

import sys
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
    """Console of all progress of the Python API: a bar on a terminal, plain lines in a notebook and elsewhere."""
    from rich.console import Console

    # the output of a notebook says that it is a terminal, and keeps every state of a bar as a line of its own
    is_replaced = sys.stdout is not sys.__stdout__
    return Console(emoji=False, highlight=False, force_jupyter=False, force_terminal=False if is_replaced else None)
