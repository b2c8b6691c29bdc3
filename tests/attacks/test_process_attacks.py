"""Processes that are killed, stopped, interrupted, or there twice: what is complete is right, and the rest goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from attacks.commands import Command, Source, children
from attacks.conftest import Tally
from attacks.run_story import brought_to_its_end, complaint, contents, leftovers, next_command, written_scenario

KILLED = -signal.SIGKILL
#: A long attack may take its time; a command that hangs is found by `commands.PATIENCE_S`.
HOURS_S = 4 * 3600


@dataclass
class Undisturbed:
    """A run that nobody attacked, from an empty cache.

    Attributes:
        scenario: its scenario file.
        contents: what it has left.
        seconds: how long it took; from then on, how long the last run took that ended before it was attacked.
    """

    scenario: Path
    contents: dict[str, Any]
    seconds: float


def undisturbed(source: Source, ground: Path, *options: str, **edits: Any) -> Undisturbed:
    scenario = written_scenario(ground, **edits)
    begun_s = time.monotonic()
    command = source.start("run", scenario, "--out", "run", *options, cwd=ground, cache=ground / "cache")
    assert complaint(command, 0) == ""
    return Undisturbed(scenario, contents(ground / "run"), time.monotonic() - begun_s)


@pytest.fixture(scope="module")
def plain(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(source, tmp_path_factory.mktemp("plain"), rounds=3)


@pytest.fixture(scope="module")
def exporting(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(source, tmp_path_factory.mktemp("exporting"), **{"export.onnx": True})


class Ground:
    """An empty place for runs, with a cache of its own."""

    def __init__(self, path: Path) -> None:
        self.cache, self.runs = path / "cache", path / "runs"
        self.cache.mkdir(parents=True)
        self.runs.mkdir()


# --- killed and interrupted -------------------------------------------------------------------------------------------


def hit(command: Command, moment_s: float, number: signal.Signals) -> bool:
    """Send a signal after so many seconds; whether the command was still there."""
    until_s = time.monotonic() + moment_s
    while time.monotonic() < until_s:
        if command.poll() is not None:
            return False
        time.sleep(0.001)
    command.send(number)
    return True


def attacked_run(
    source: Source, ground: Ground, known: Undisturbed, draws: random.Random, number: signal.Signals, *options: str
) -> Iterator[str]:
    """One run that gets a signal at a moment of its life, perhaps again in its next life; what each time was wrong."""
    # -SIGTERM: before the command line was there to take it
    codes = (KILLED, 0) if number == signal.SIGKILL else (0, 130, -number)
    for life in range(1 + (draws.random() < 0.5)):
        begun_s = time.monotonic()
        words = next_command(ground.runs, known.scenario, *options)
        command = source.start(*words, cwd=ground.runs, cache=ground.cache)
        # a life that goes on from a checkpoint is shorter
        if not hit(command, draws.uniform(0.0, known.seconds / (1 + life)), number):
            known.seconds = max(time.monotonic() - begun_s, 0.5 * known.seconds)
            break
        wrong = complaint(command, *codes)
        if "continue with: " in command.said and not leftovers(ground.runs):
            wrong = wrong or f"advice to continue with nothing: {command.said}"
        yield wrong
        if (ground.runs / "run").exists():
            break
    wrong = brought_to_its_end(source, ground.runs, known.scenario, ground.cache, *options)
    if not wrong and contents(ground.runs / "run") != known.contents:
        wrong = "another run than the undisturbed one"
    if wrong:
        yield wrong


def attack_runs(
    source: Source, known: Undisturbed, number: signal.Signals, n_tries: int, tally: Tally, path: Path, *options: str
) -> None:
    draws = random.Random(n_tries)
    while tally.tries < n_tries:
        ground = Ground(path / f"{number.name}-{len(list(path.iterdir()))}")
        for wrong in attacked_run(source, ground, known, draws, number, *options):
            tally.tries += 1
            if wrong:
                tally.lose(wrong)


def test_a_killed_run_goes_on(source: Source, plain: Undisturbed, tally: Tally, tmp_path: Path) -> None:
    attack_runs(source, plain, signal.SIGKILL, 1, tally, tmp_path)


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize(("number", "n_tries"), [(signal.SIGKILL, 50), (signal.SIGTERM, 20), (signal.SIGINT, 20)])
def test_signals_at_moments_from_recording_to_export_lose_nothing(
    number: signal.Signals, n_tries: int, source: Source, exporting: Undisturbed, tally: Tally, tmp_path: Path
) -> None:
    attack_runs(source, exporting, number, n_tries, tally, tmp_path)


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize(("number", "n_tries"), [(signal.SIGKILL, 12), (signal.SIGTERM, 6)])
@pytest.mark.parametrize("n_workers", [1, 2])
def test_signals_to_a_run_with_workers_lose_nothing(
    n_workers: int, number: signal.Signals, n_tries: int, source: Source, tally: Tally, tmp_path: Path
) -> None:
    (tmp_path / "known").mkdir()
    options = ("--workers", str(n_workers))
    known = undisturbed(source, tmp_path / "known", *options)
    attack_runs(source, known, number, n_tries, tally, tmp_path, *options)


# --- workers ----------------------------------------------------------------------------------------------------------


def orphans(workers: list[int]) -> list[int]:
    """Workers that are there some time after their engine has gone."""
    until_s = time.monotonic() + 30.0
    while (alive := [pid for pid in workers if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until_s:
        time.sleep(0.05)
    return alive


def attack_worker(source: Source, known: Undisturbed, ground: Ground, draws: random.Random, how: str) -> str:
    options = ("--workers", "2", "--worker-silence-s", "3")
    start = ("run", known.scenario, "--out", ground.runs / "run", *options)
    command = source.start(*start, cwd=ground.runs, cache=ground.cache)
    while not (workers := list(children(command.pid))) and command.poll() is None:
        time.sleep(0.01)
    while how != "killed" and command.poll() is None and not any(ground.runs.glob("run.partial/metrics.jsonl")):
        time.sleep(0.01)  # one that stands still before it has joined is waited for much longer
    until_s = time.monotonic() + draws.uniform(0.0, known.seconds)
    while command.poll() is None and time.monotonic() < until_s:
        time.sleep(0.01)
    workers = list(children(command.pid)) or workers
    victim, number = draws.choice(workers), signal.SIGSTOP if how == "stopped" else signal.SIGKILL
    if Path(f"/proc/{victim}").exists():
        os.kill(victim, number)
    if how == "stopped, then its engine is killed":
        command.send(signal.SIGKILL)
    # restarted from the last checkpoint, or refused with a sentence where there was none yet
    wrong = complaint(command, 0, 2, KILLED)
    if how == "stopped, then its engine is killed":
        for pid in workers:  # a stopped process cannot see that its engine has gone
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGCONT)
    if left := orphans(workers):
        wrong = wrong or f"workers {left} outlive their engine"
    wrong = wrong or brought_to_its_end(source, ground.runs, known.scenario, ground.cache)
    return wrong or ("" if contents(ground.runs / "run") == known.contents else "another run than the undisturbed one")


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize("how", ["killed", "stopped", "stopped, then its engine is killed"])
def test_workers_that_die_or_stand_still_cost_no_run(how: str, source: Source, tally: Tally, tmp_path: Path) -> None:
    (tmp_path / "known").mkdir()
    known = undisturbed(source, tmp_path / "known", "--workers", "2", **{"compute.lost_worker": "restart"})
    draws = random.Random(how)
    for index in range(10):
        tally.tries += 1
        if wrong := attack_worker(source, known, Ground(tmp_path / str(index)), draws, how):
            tally.lose(wrong)


# --- two of everything ------------------------------------------------------------------------------------------------


class Two(NamedTuple):
    """Two commands at once.

    Attributes:
        prepare: makes what both need; of the ground, before they start.
        commands: their command lines.
        loser_codes: how the one that comes second may end.
    """

    prepare: Callable[[Source, Ground, Undisturbed], object]
    commands: Callable[[Ground, Undisturbed], list[list[str]]]
    loser_codes: tuple[int, ...] = (2,)


def nothing_first(source: Source, ground: Ground, known: Undisturbed) -> None:
    """They begin on empty ground."""


def interrupted_first(source: Source, ground: Ground, known: Undisturbed) -> None:
    """A run that was killed after its first checkpoint."""
    command = source.start(*a_run(ground, known), cwd=ground.runs, cache=ground.cache)
    while command.poll() is None and not any(ground.runs.glob("run.partial/checkpoint/round-*")):
        time.sleep(0.002)
    command.send(signal.SIGKILL)
    command.wait()


def complete_first(source: Source, ground: Ground, known: Undisturbed) -> None:
    assert complaint(source.start(*a_run(ground, known), cwd=ground.runs, cache=ground.cache), 0) == ""


def a_run(ground: Ground, known: Undisturbed, name: str = "run") -> list[str]:
    return ["run", str(known.scenario), "--out", str(ground.runs / name)]


def resume(ground: Ground) -> list[str]:
    return ["run", "--resume", str(ground.runs / "run.partial")]


def compared(ground: Ground, known: Undisturbed, word: str, *more: str) -> list[str]:
    edits = ["--set", "rounds=1", "--algorithms", "local", "--seeds", "1", "--out", str(ground.runs / word)]
    return [word, str(known.scenario), *edits, *more]


GRID = ("--grid", "training.encoder_step_size=0.001,0.003")
TWO = {
    "runs with one --out": Two(nothing_first, lambda at, known: [a_run(at, known), a_run(at, known)]),
    "resumes of one folder": Two(interrupted_first, lambda at, known: [resume(at), resume(at)]),
    "runs of one world": Two(nothing_first, lambda at, known: [a_run(at, known), a_run(at, known, "other")], (0,)),
    "comparisons in one folder": Two(
        nothing_first, lambda at, known: [compared(at, known, "compare"), compared(at, known, "compare")]
    ),
    "searches in one folder": Two(
        nothing_first, lambda at, known: [compared(at, known, "tune", *GRID), compared(at, known, "tune", *GRID)]
    ),
    "exports of one run": Two(complete_first, lambda at, known: [["export", str(at.runs / "run")]] * 2),
}


def attack_twice(source: Source, known: Undisturbed, ground: Ground, two: Two, delay_s: float) -> str:
    two.prepare(source, ground, known)
    commands: list[Command] = []
    for words in two.commands(ground, known):
        commands.append(source.start(*words, cwd=ground.runs, cache=ground.cache))
        time.sleep(delay_s)
    wrong = next((found for one in commands if (found := complaint(one, 0, *two.loser_codes))), "")
    codes = sorted(command.wait() for command in commands)
    # a second comparison after the first is no mistake: it finds all its runs
    if codes != sorted((0, *two.loser_codes)) and codes != [0, 0]:
        wrong = wrong or f"exit codes {codes}"
    if (ground.runs / "run").exists() and contents(ground.runs / "run") != known.contents:
        wrong = wrong or "another run than the undisturbed one"
    hidden = [path for path in ground.runs.rglob("*") if ".partial" in path.name or path.suffix == ".lock"]
    odd = [path for path in ground.runs.iterdir() if path.name not in {"run", "other", "compare", "tune"}]
    return wrong or (f"left: {hidden} {odd}" if hidden or odd else "")


def test_the_second_of_two_resumes_is_refused_with_a_sentence(
    source: Source, plain: Undisturbed, tally: Tally, tmp_path: Path
) -> None:
    tally.tries += 1
    ground = Ground(tmp_path / "both")
    shutil.copytree(plain.scenario.parent / "cache", ground.cache, dirs_exist_ok=True)  # no need to record again
    if wrong := attack_twice(source, plain, ground, TWO["resumes of one folder"], 0.0):
        tally.lose(wrong)


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize("case", TWO)
def test_of_two_at_any_distance_one_is_right_and_the_other_told(
    case: str, source: Source, plain: Undisturbed, exporting: Undisturbed, tally: Tally, tmp_path: Path
) -> None:
    draws = random.Random(case)
    known = exporting if "exports" in case else plain
    for index in range(10):
        tally.tries += 1
        ground = Ground(tmp_path / str(index))
        if wrong := attack_twice(source, known, ground, TWO[case], draws.choice([0.0, 0.05, 0.3, 1.0])):
            tally.lose(wrong)
        shutil.rmtree(tmp_path / str(index))


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
def test_a_run_that_is_alive_is_left_alone_by_whoever_resumes_it(
    source: Source, plain: Undisturbed, tally: Tally, tmp_path: Path
) -> None:
    draws = random.Random(0)
    while tally.tries < 20:
        ground = Ground(tmp_path / str(tally.tries))
        alive = source.start(*a_run(ground, plain), cwd=ground.runs, cache=ground.cache)
        while alive.poll() is None and not any(ground.runs.glob("run.partial/checkpoint/round-*")):
            time.sleep(0.002)
        time.sleep(draws.uniform(0.0, 0.5))
        second = source.start(*resume(ground), cwd=ground.runs, cache=ground.cache)
        tally.tries += 1
        # 2 for either reason: the run is alive, or it is complete and under its own name by now
        wrong = complaint(second, 2) or complaint(alive, 0)
        if wrong or contents(ground.runs / "run") != plain.contents:
            tally.lose(wrong or "another run than the undisturbed one")
