"""`progress=True` and `live=True` of the Python API: the same lines, bars and page as those of the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..running.progress import NoRunProgress, RunProgress
from ..schema.scenario import Scenario

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def shown_run(
    progress: RunProgress | bool | None,
    scenario: Scenario,
    live: bool | int,
    target: Path,
    resumed: Path | None = None,
) -> Iterator[RunProgress]:
    """Context with the callbacks of a run.

    Args:
        progress: True: shown as by `sheafedge run`; False or None: not shown; callbacks: these.
        scenario: scenario of the run.
        live: True: with a page at a free port of loopback; a number: at this port; False: without.
        target: run folder.
        resumed: folder of the run that goes on; None: it begins.

    Raises:
        ConfigError: the port cannot be used.
    """
    with ExitStack() as stack:
        shown: RunProgress
        if progress is True:
            from ..terminal.run_progress import LiveProgress

            shown = stack.enter_context(LiveProgress(lines_console(), scenario))
        else:
            shown = progress or NoRunProgress()
        if live is not False:
            from ..live_page.live_page import LivePage
            from ..live_page.page_server import open_port

            listening = open_port(0 if live is True else live)
            page = stack.enter_context(LivePage(listening, scenario, target, resumed=resumed))
            lines_console().print(page.announcement, soft_wrap=True, markup=False)
            shown = page.following(shown)
        yield shown


def lines_console() -> Console:
    """Console of all progress of the Python API: a bar on a terminal, plain lines in a notebook and elsewhere."""
    from rich.console import Console

    # the output of a notebook says that it is a terminal, and keeps every state of a bar as a line of its own
    is_replaced = sys.stdout is not sys.__stdout__
    return Console(emoji=False, highlight=False, force_jupyter=False, force_terminal=False if is_replaced else None)
