"""Commands that take in other people's files: hostile ones are taken whole, or refused with exit code 2 and a sentence.

The files are those of `test_file_attacks`; here they come through the command line, in a process of its own. A try is
lost by another exit code, by a traceback, by more than a sentence, and by anything that a refusal leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from attacks.commands import Source
from attacks.conftest import Tally
from attacks.path_attacks import PATHS
from attacks.path_attacks import WORLD as TRACED_WORLD
from attacks.test_file_attacks import TARGETS
from attacks.track_attacks import tracked_world
from sheafedge.scenarios.recording.world_file import WorldFile
from sheafedge.scenarios.schema.world_section import WorldSection

OUT = "out.h5"
N_SHORT, N_LONG = 2, 200


def _described(folder: Path, section: WorldSection) -> Path:
    path = folder / "world.toml"
    path.write_text(WorldFile(section, 0).text())
    return path


def _tracks(folder: Path) -> tuple[str | Path, ...]:
    (tracks,) = (one for one in folder.iterdir() if one.name in {"sumo.xml", "packed.xml.gz"})
    return ("record", _described(folder, tracked_world(tracks)), "--out", OUT)


@dataclass(frozen=True)
class Importer:
    """A command, the files that it is attacked with, and whether it leaves a file.

    Attributes:
        target: name in `TARGETS`.
        words: its words, for a folder with these files.
        writes: whether it leaves `OUT` behind when it ends well.
    """

    target: str
    words: Callable[[Path], tuple[str | Path, ...]]
    writes: bool = True


IMPORTERS = {
    "import deepsense": Importer(
        "DeepSense folders", lambda folder: ("import", "deepsense", folder / "data", "--scenario", "23", "--out", OUT)
    ),
    "import paths": Importer(
        "paths of ray tracers",
        lambda folder: ("import", "paths", PATHS, "--world", _described(folder, TRACED_WORLD), "--out", OUT),
    ),
    "record tracks of SUMO": Importer("tracks of SUMO", _tracks),
    "record a table of tracks": Importer(
        "tables of tracks",
        lambda folder: ("record", _described(folder, tracked_world(folder / "mine.csv")), "--out", OUT),
    ),
    "check": Importer("structure of recordings", lambda _: ("check", "road.h5"), writes=False),
}


def _wrong(source: Source, folder: Path, importer: Importer) -> tuple[int, str]:
    """Exit code, and what is wrong with how the command ended; empty if nothing is."""
    words = importer.words(folder)
    before = {one.name for one in folder.iterdir()}
    command = source.start(*words, cwd=folder)
    code = command.wait()
    left = {one.name for one in folder.iterdir()} - before
    expected = {OUT} if code == 0 and importer.writes else set()
    if code not in {0, 2}:
        return code, f"exit code {code}: {command.said[-200:]!r}"
    if left != expected:
        return code, f"exit code {code} leaves {sorted(left)}"
    lines = command.said.strip().splitlines()
    if "Traceback" in command.said or (code == 2 and not lines[-1].startswith("error: ")):
        return code, f"no sentence: {command.said[-200:]!r}"
    if code == 2 and sum(line.startswith("error: ") for line in lines) != 1:
        return code, f"several sentences: {command.said[-400:]!r}"
    return code, ""


def _attack(name: str, source: Source, root: Path, n_tries: int, tally: Tally) -> None:
    importer, refused = IMPORTERS[name], 0
    for number in range(n_tries):
        folder = root / str(number)
        folder.mkdir()
        TARGETS[importer.target].make(folder)
        TARGETS[importer.target].harm(folder, np.random.default_rng([3, number]))
        tally.tries += 1
        code, wrong = _wrong(source, folder, importer)
        refused += code == 2
        if wrong:
            tally.lose(f"try {number}: {wrong}")
    tally.figures["refused"] = refused


@pytest.mark.parametrize("name", IMPORTERS)
def test_sound_files_are_taken(name: str, source: Source, tmp_path: Path) -> None:
    """Negative control: what is attacked below is taken before it is harmed."""
    importer = IMPORTERS[name]
    TARGETS[importer.target].make(tmp_path)
    (tmp_path / "packed.xml.gz").unlink(missing_ok=True)
    assert _wrong(source, tmp_path, importer) == (0, "")


@pytest.mark.parametrize("name", IMPORTERS)
def test_some_hostile_files_end_a_command_with_a_sentence(
    name: str, source: Source, tmp_path: Path, tally: Tally
) -> None:
    _attack(name, source, tmp_path, N_SHORT, tally)


@pytest.mark.attack
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", IMPORTERS)
def test_hundreds_of_hostile_files_end_a_command_with_a_sentence(
    name: str, source: Source, tmp_path: Path, tally: Tally
) -> None:
    _attack(name, source, tmp_path, N_LONG, tally)
    assert tally.figures["refused"] > N_LONG / 10  # or the files were not hostile
