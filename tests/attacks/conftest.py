"""What the attacks share: each keeps a tally, and `make attack` prints them all. Lost must be nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from attacks.commands import Source, command_source

#: JSON lines, one per attack: {"attack", "tries", "survived", "lost", figure: value, ...}.
_REPORT = "SHEAFEDGE_ATTACK_REPORT"


@dataclass
class Tally:
    """How often something was attacked, and what came of it.

    Attributes:
        tries: attacks carried out.
        lost: one sentence for every try that broke a promise of docs/security.md.
        figures: what was measured meanwhile, the unit at the end of the name ("resident_peak_mb", "honest_p99_ms").
    """

    tries: int = 0
    lost: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def lose(self, sentence: str) -> None:
        """Note a broken promise; the test goes on, so that its tally counts all of them."""
        self.lost.append(sentence)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts what this attack did; the test fails at its end if anything was lost or nothing was tried."""
    kept = Tally()
    yield kept
    if report := os.environ.get(_REPORT):
        lost = len(kept.lost)
        line = {"attack": request.node.name, "tries": kept.tries, "survived": kept.tries - lost, "lost": lost}
        with Path(report).open("a") as lines:
            lines.write(json.dumps(line | kept.figures) + "\n")
    assert kept.tries, "this attack attacked nothing"
    assert not kept.lost, "\n".join(kept.lost)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The process that commands are forked from."""
    with command_source(tmp_path_factory.mktemp("said")) as found:
        yield found
