"""Runs of which something is kept before the next begins, so that an interrupted call loses one run per process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from sheafedge.scenarios.compare.execution import execute
from sheafedge.scenarios.compare.jobs import JobOutcome
from sheafedge.scenarios.compare.plan import PlannedRun
from sheafedge.scenarios.terminal.compare_console import ComparisonLines
from sheafedge.scenarios.wiring.data import load_data

CONSOLE = Console(emoji=False)


def run_and_keep(
    runs: Sequence[PlannedRun],
    is_kept: Callable[[PlannedRun], bool],
    keep: Callable[[PlannedRun], None],
    folder: Path,
    jobs: int,
    *,
    keep_stale: bool = False,
) -> list[PlannedRun]:
    """Make the runs that are not kept, and keep what each came to.

    Args:
        runs: planned.
        is_kept: whether one of them is.
        keep: called with every complete run.
        folder: of runs; it may not be there yet.
        jobs: runs at a time.
        keep_stale: runs of other code in the folder count as made.

    Returns:
        Runs that failed.

    Raises:
        SheafedgeError: the first that is missing, and not refused, can have no samples; nothing is made then.
    """
    missing = [run for run in runs if not is_kept(run)]
    if not missing:
        return []
    if (possible := next((run for run in missing if not run.refusal), None)) is not None:
        load_data(possible.scenario)
    folder.mkdir(parents=True, exist_ok=True)
    with _KeepingLines(keep, keep_stale) as lines:
        failed = execute(missing, folder, jobs, lines, keep_stale=keep_stale)
    # those that were stored before, and those that share a run with another arm
    for run in missing:
        if run.name not in failed and not is_kept(run):
            keep(run)
    return [run for run in missing if run.name in failed]


class _KeepingLines(ComparisonLines):
    """Prints a line per run, and keeps what it came to.

    Args:
        keep: of a complete run.
        keep_stale: see `ComparisonLines`.
    """

    def __init__(self, keep: Callable[[PlannedRun], None], keep_stale: bool) -> None:
        super().__init__(CONSOLE, keep_stale=keep_stale)
        self._keep = keep

    def ended(self, run: PlannedRun, folder: Path, outcome: JobOutcome) -> None:
        super().ended(run, folder, outcome)
        if not outcome.error:
            self._keep(run)
