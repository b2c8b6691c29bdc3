"""Disks that are full or take nothing, and descriptors that run out: one sentence, and what was there can go on.

A full disk is a small `tmpfs` where this process may mount one, which fails every write of every library as a disk
does. Elsewhere it is `RLIMIT_FSIZE`, by which the system refuses to let any file grow beyond a size.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attacks.commands import Command, Source
from attacks.conftest import Tally
from attacks.run_story import brought_to_its_end, can_go_on, complaint, contents, written_scenario

HOURS_S = 4 * 3600
#: From less than a recording to more than the whole run needs, in kB.
LARGEST_KB = 1400


@contextmanager
def small_disk(at: Path, options: str) -> Iterator[Path]:
    """A disk of its own at this place; skips where this process may not mount one."""
    at.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "sheafedge-attack", str(at)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk takes rights that this process does not have")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def remounted(at: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(at)], check=True)


def started(source: Source, scenario: Path, runs: Path, cache: Path, **limits: int) -> Command:
    return source.start("run", scenario, "--out", runs / "run", cwd=runs.parent, cache=cache, **limits)


def wrong_end(command: Command, runs: Path) -> str:
    """What is wrong with a run that may have met a limit."""
    if wrong := complaint(command, 0, 2):
        return wrong
    errors = [line for line in command.said.splitlines() if line.startswith("error: ")]
    if command.wait() == 2 and len(errors) != 1:
        return f"not one sentence: {command.said[-1000:]}"
    if "continue with" in command.said and not any(map(can_go_on, runs.glob("run.*"))):
        return f"advice to go on from nothing: {command.said[-500:]}"
    return ""


def limited(source: Source, scenario: Path, ground: Path, recorded: Path | None = None, **limits: int) -> str:
    """A run under limits, with a cache that is empty or a copy, and again without them; what was wrong."""
    runs, cache = ground / "runs", ground / "cache"
    runs.mkdir(parents=True)
    if recorded is None:
        cache.mkdir()
    else:
        shutil.copytree(recorded, cache)
    wrong = wrong_end(started(source, scenario, runs, cache, **limits), runs)
    return wrong or brought_to_its_end(source, runs, scenario, cache)


@pytest.mark.slow
def test_no_room_for_a_recording_is_a_sentence(source: Source, tally: Tally, tmp_path: Path) -> None:
    tally.tries += 1
    if wrong := limited(source, written_scenario(tmp_path, rounds=2), tmp_path / "ground", FSIZE=20_000):
        tally.lose(wrong)


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize("name", ["FSIZE", "NOFILE"])
def test_limits_of_any_size_are_met_with_a_sentence(name: str, source: Source, tally: Tally, tmp_path: Path) -> None:
    draws = random.Random(name)
    scenario, recorded = written_scenario(tmp_path, **{"export.onnx": True}), tmp_path / "recorded"
    assert complaint(started(source, scenario, tmp_path / "known", recorded), 0) == ""
    for index in range(20):
        # checkpoints, models and rows are smaller than a recording, which need not be made each time
        limit = draws.randrange(LARGEST_KB * 1000 // (2 if index % 2 else 20)) if name == "FSIZE" else 5 + 2 * index
        tally.tries += 1
        cache = None if index % 2 else recorded
        if wrong := limited(source, scenario, tmp_path / str(index), cache, **{name: limit}):
            tally.lose(f"{name} {limit}: {wrong}")


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
def test_a_disk_that_fills_at_any_moment_costs_no_round(source: Source, tally: Tally, tmp_path: Path) -> None:
    draws = random.Random(1)
    scenario = written_scenario(tmp_path, **{"export.onnx": True})
    known = tmp_path / "known"
    known.mkdir()
    assert complaint(started(source, scenario, known, tmp_path / "cache"), 0) == ""
    for index in range(20):
        with small_disk(tmp_path / "disk", f"size={draws.randrange(8, LARGEST_KB)}k") as disk:
            runs, cache = disk / "runs", disk / "cache"
            runs.mkdir()
            cache.mkdir()
            tally.tries += 1
            wrong = wrong_end(started(source, scenario, runs, cache), runs)
            remounted(disk, "size=64m")  # somebody makes room
            wrong = wrong or brought_to_its_end(source, runs, scenario, cache)
            if wrong or contents(runs / "run") != contents(known / "run"):
                tally.lose(f"{index}: {wrong or 'another run than the undisturbed one'}")


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize("where", ["runs", "cache", "cache with its recording", "runs in another's folder"])
def test_a_disk_that_takes_nothing_is_refused_before_anything_is_loaded(
    where: str, source: Source, tally: Tally, tmp_path: Path
) -> None:
    scenario = written_scenario(tmp_path)
    for index in range(5):
        with small_disk(tmp_path / f"disk-{index}", "size=64m") as disk:
            free = tmp_path / f"free-{index}"
            runs, cache = (disk, free) if where.startswith("runs") else (free, disk)
            free.mkdir()
            if where == "cache with its recording":
                first = source.start("run", scenario, "--out", free / "first", cwd=tmp_path, cache=cache)
                assert complaint(first, 0) == ""
            target = runs / "deep" / "run" if "another" in where else runs / "run"
            remounted(disk, "ro")
            tally.tries += 1
            command = source.start("run", scenario, "--out", target, cwd=tmp_path, cache=cache)
            wrong = complaint(command, 0 if where == "cache with its recording" else 2)
            if where.startswith("runs") and list(cache.iterdir()):
                wrong = wrong or "recorded before it was refused"
            if wrong:
                tally.lose(wrong)


@pytest.mark.attack
@pytest.mark.timeout(HOURS_S)
def test_cached_recordings_with_a_flipped_bit_are_made_again(source: Source, tally: Tally, tmp_path: Path) -> None:
    scenario, draws, cache = written_scenario(tmp_path, rounds=1), random.Random(2), tmp_path / "cache"
    assert complaint(started(source, scenario, tmp_path / "known", cache), 0) == ""
    (path,) = cache.glob("*.h5")
    whole = path.read_bytes()
    for index in range(20):
        damaged = bytearray(whole)
        damaged[draws.randrange(len(whole))] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged)
        tally.tries += 1
        command = started(source, scenario, tmp_path / str(index), cache)
        wrong = complaint(command, 0)
        if f"cached recording {path} is damaged, and made again" not in " ".join(command.said.split()):
            wrong = wrong or f"nothing said: {command.said[-500:]}"
        if wrong or path.read_bytes() != whole or list(cache.iterdir()) != [path]:
            tally.lose(wrong or "not the same recording")
