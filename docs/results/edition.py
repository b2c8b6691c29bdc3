"""Pages of results that can be made: the published one, and those on measured sites of a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ledger import Ledger  # a script beside its modules
from repeats import Repeats
from sheafedge.scenarios.compare.stored_runs import run_code
from steps import StepTable

HERE = Path(__file__).parent
#: The code that the page is of: rows that it neither made nor repeats are named at the end of the page.
VERSION = "ada93c08bfb1107b"


@dataclass(frozen=True)
class Edition:
    """A page of results, and what it is made from.

    Attributes:
        template: of the page.
        page: where it is written; pictures are beside it, in `figures`.
        folder: of what is kept; it may not be there yet.
        version: code that the page is of.
        sites: scenarios of measured samples; none: those of the regimes' files.
    """

    template: Path
    page: Path
    folder: Path
    version: str
    sites: tuple[int, ...] = ()

    @cached_property
    def ledger(self) -> Ledger:
        """Scores."""
        return Ledger(self.folder / "scores.csv")

    @cached_property
    def steps(self) -> StepTable:
        """What the searches for step sizes tried."""
        return StepTable(self.folder / "steps.csv")

    @cached_property
    def repeats(self) -> Repeats:
        """Runs that were made again."""
        return Repeats(self.folder / "repeats.csv")

    @property
    def by_seed(self) -> Path:
        """Page of the scores of single seeds."""
        return self.page.with_name(f"{self.page.stem}_by_seed.md")


def edition_of(sites: Sequence[int], out: Path) -> Edition:
    """The published page, or, with sites of a user's own, theirs in a folder below `out`."""
    if not sites:
        return Edition(HERE / "page.md", HERE.parent / "results.md", HERE, VERSION)
    chosen = tuple(sorted({*sites}))
    folder = out / f"sites-{'-'.join(map(str, chosen))}"
    return Edition(HERE / "sites.md", folder / "results.md", folder, run_code(), chosen)
