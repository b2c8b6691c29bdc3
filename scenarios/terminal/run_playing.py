"""What `sheafedge run` does once its options are read: the run with its progress, trackers and page, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...emulator.contracts import ConfigError, ScenarioError
from .report_commands import report_ended_run

if TYPE_CHECKING:
    from rich.console import Console

    from ..running.progress import RunProgress
    from ..schema.scenario import Scenario
    from ..tracking.tracker_table import TrackerRequest
    from ..wiring.real_time_options import RealTime
    from ..workers.worker_options import Workers


def play(
    what: Scenario | Path,
    out: Path | None = None,
    workers: Workers | None = None,
    real_time: RealTime | None = None,
    edits: Mapping[str, Any] | None = None,
    trackers: Sequence[TrackerRequest] = (),
    live_port: int | None = None,
) -> None:
    """Run a scenario, or resume the run of a folder, and print the result.

    Args:
        what: scenario, or folder of the run to resume.
        out: run folder; None: a new one under runs/.
        workers: processes that run its clients.
        real_time: how its clock follows real time.
        edits: fields that change where a run is resumed.
        trackers: trackers that follow it.
        live_port: port of its page on loopback, 0 for any; None: it has none.
    """
    scenario = _resumable(what, edits or {}) if isinstance(what, Path) else what
    target = _target(what, out, scenario)
    _refuse_early(scenario, None if isinstance(what, Path) else target, workers, real_time)

    from .console_elements import standard_console

    console = standard_console()
    try:
        # before the imports that take seconds, so that a page is there meanwhile
        with _live_page(console, scenario, what, target, live_port) as follow:
            from ..running.run import resume_run, run_scenario
            from ..tracking.tracked_progress import TrackedProgress
            from ..tracking.tracker_table import opener
            from .run_console import print_result
            from .run_progress import LiveProgress

            openers = {request.name: opener(request, scenario, target.name) for request in trackers}
            _print_awaited(console, workers, real_time)
            with LiveProgress(console, scenario) as shown, TrackedProgress(shown, openers) as tracked:
                progress = follow(tracked)
                if isinstance(what, Path):
                    result = resume_run(what, progress, workers, real_time, edits)
                else:
                    # default names hold the time: with trackers or a page, which know the run by it, it is settled
                    settled = target if trackers or live_port is not None else out
                    result = run_scenario(scenario, settled, progress, workers=workers, real_time=real_time)
                tracked.complete(result.summary)
            print_result(console, result)
            if scenario.export.report:
                report_ended_run(console, result.folder)
    except KeyboardInterrupt as interrupt:
        typer.echo(one_line("interrupted", interrupt), err=True)
        # 130 = 128 + SIGINT, by convention of shells
        raise typer.Exit(130) from None


def _target(what: Scenario | Path, out: Path | None, scenario: Scenario) -> Path:
    """Run folder; a default name is new, but its folder may take nothing."""
    from ..running.interrupted_run import is_complete, real_folder, target_of
    from ..running.run_folder import default_targets
    from ..running.training_on import target_of_longer

    if isinstance(what, Path):
        folder = real_folder(what)
        return target_of_longer(folder, scenario.rounds) if is_complete(folder) else target_of(folder)
    return out or next(default_targets(scenario.name, scenario.algorithm, scenario.seed))


@contextmanager
def _live_page(
    console: Console, scenario: Scenario, what: Scenario | Path, target: Path, port: int | None
) -> Iterator[Callable[[RunProgress], RunProgress]]:
    """Context of the page of a run: what it gives lets the page follow callbacks; without a port nothing follows."""
    if port is None:
        yield lambda shown: shown
        return

    from ..live_page.live_page import LivePage
    from ..live_page.page_server import open_port
    from ..report.run_report import REPORT

    report = target / REPORT if scenario.export.report else None
    resumed = what if isinstance(what, Path) else None
    with LivePage(open_port(port), scenario, target, report, resumed) as page:
        console.print(page.announcement, soft_wrap=True, markup=False, highlight=False)
        yield page.following


def _print_awaited(console: Console, workers: Workers | None, real_time: RealTime | None) -> None:
    """Print which processes a run waits for, and how they are started."""
    if workers is not None and workers.hub is not None:
        line = f"waiting for {workers.n_workers} workers; start each with: sheafedge worker --hub {workers.hub}"
        console.print(line, soft_wrap=True, markup=False)
    if real_time is not None and real_time.outside:
        clients = ", ".join(map(str, real_time.outside))
        console.print(f"waiting at {real_time.hub} for outside clients: {clients}", soft_wrap=True, markup=False)


def _resumable(folder: Path, edits: Mapping[str, Any]) -> Scenario:
    """Scenario with which the run in a folder goes on, unless another process writes there."""
    from ...emulator.ownership import refuse_owned
    from ..running.interrupted_run import RESUME_ANOTHER, real_folder, resumable_scenario, target_of
    from ..running.training_on import check_resumed_edits

    check_resumed_edits(edits)
    found = real_folder(folder)
    scenario = resumable_scenario(found, edits).edited(edits)
    refuse_owned(target_of(found), RESUME_ANOTHER)
    return scenario


def _refuse_early(scenario: Scenario, target: Path | None, workers: Workers | None, real_time: RealTime | None) -> None:
    """Refuse what can be refused before the import of torch, which takes seconds; the run checks the same again."""
    from ..running.run_folder import refuse_taken
    from ..schema.compatibility import run_complaints

    n_workers = None if workers is None else workers.n_workers
    found = [*run_complaints(scenario, n_workers, () if real_time is None else real_time.outside)]
    if target is not None:
        try:
            refuse_taken(target)
        except ConfigError as error:
            found.append(str(error))
    if found:
        raise ScenarioError(found)


def one_line(sentence: str, error: BaseException) -> str:
    """The sentence and the notes of an error, such as the path of the run folder, in one line."""
    return " ".join("; ".join([sentence, *getattr(error, "__notes__", ())]).splitlines())
