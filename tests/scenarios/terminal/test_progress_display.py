"""The progress bar: labels at every width, rates, and the time that is left."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from rich.console import Console
from sheafedge.scenarios.running.progress import RunProgress
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.terminal.progress_display import ProgressDisplay
from sheafedge.scenarios.terminal.run_progress import LiveProgress

SCENARIO = load_scenario("blockage").edited({"rounds": 12, "evaluate_every": 1})


class Clock:
    """A clock that a test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def shown(display: ProgressDisplay, width: int) -> list[str]:
    """Lines that a terminal of this width shows now."""
    screen = StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    display._bar.live.console = console  # the width is read when the bar is drawn
    console.print(display._bar.get_renderable())
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def training(clock: Clock, width: int) -> ProgressDisplay:
    display = ProgressDisplay(Console(file=StringIO(), width=width, force_terminal=True, color_system=None))
    display.phase("training", "rounds", 60)
    clock.now_s += 10.0
    display.advanced(20, "balanced accuracy 0.871  1.4 s simulated")
    return display


def test_a_wide_terminal_shows_count_rate_and_times(clock: Clock) -> None:
    line, status = shown(training(clock, 100), 100)
    assert line.startswith("training ")
    assert line.endswith("20/60 rounds  2.0 rounds/s  0:20 left  0:10 so far")
    assert "━" in line
    assert status == "  balanced accuracy 0.871  1.4 s simulated"


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80])
def test_a_narrow_terminal_keeps_what_matters_most(width: int, clock: Clock) -> None:
    lines = shown(training(clock, width), width)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    assert "20/60" in lines[0]
    assert ("0:20 left" in lines[0]) == (width >= 40)


def test_a_log_has_plain_lines_with_pace(clock: Clock) -> None:
    log = StringIO()
    progress: RunProgress = LiveProgress(Console(file=log, width=40), SCENARIO)
    for index in range(12):
        clock.now_s += 2.0
        progress.round_ended(index, 0.5 * (index + 1), 0.5 + index / 100)
    progress.exporting(0, 2)
    lines = log.getvalue().splitlines()
    assert lines[0] == "round 2/12  balanced accuracy 0.510  1.0 s simulated  2.0 s/round, 0:20 left"
    assert lines[-1] == "round 12/12  balanced accuracy 0.610  6.0 s simulated"


def test_what_follows_the_export_is_no_export(clock: Clock) -> None:
    progress = LiveProgress(Console(file=StringIO(), width=80, force_terminal=True, color_system=None), SCENARIO)
    progress.exporting(0, 2)
    assert shown(progress, 80)[0].startswith("exporting ")
    progress.exporting(2, 2)
    clock.now_s += 3.0
    (line,) = shown(progress, 80)
    assert line.startswith("writing results ")
    assert line.endswith(" 0:03 so far")


def test_a_resumed_run_counts_only_its_own_rounds(clock: Clock) -> None:
    log = StringIO()
    progress = LiveProgress(Console(file=log, width=40), SCENARIO)
    for index in range(8, 12):
        clock.now_s += 2.0
        progress.round_ended(index, 1.0, None)
    assert "2.0 s/round, 0:04 left" in log.getvalue().splitlines()[0]
