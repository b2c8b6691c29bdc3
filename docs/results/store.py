"""What is kept of runs, in three files beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger import Ledger  # a script beside its modules
from repeats import Repeats
from steps import StepTable


@dataclass(frozen=True)
class Store:
    """Files of one page.

    Attributes:
        ledger: scores.
        steps: of the searches for step sizes.
        repeats: runs that were made again.
    """

    ledger: Ledger
    steps: StepTable
    repeats: Repeats

    @classmethod
    def of(cls, folder: Path) -> Store:
        """What is kept in a folder; nothing yet where its files are not there."""
        return cls(Ledger(folder / "scores.csv"), StepTable(folder / "steps.csv"), Repeats(folder / "repeats.csv"))
