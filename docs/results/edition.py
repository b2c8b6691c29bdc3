"""Pages of results that can be made: the published one, and those on measured sites of a user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from ledger import Ledger, Row  # a script beside its modules
from regimes import comparison_of
from repeats import Repeats
from sheafedge.scenarios.compare.stored_runs import run_code
from steps import StepTable

HERE = Path(__file__).parent
#: Codes that the page is of, the latest first: rows that they neither made nor repeat are named at the end of the page.
VERSIONS = ("fe85d10662c681aa", "3e1d863ee26fb15e", "ada93c08bfb1107b")
#: Of these, what cuts lines of beams otherwise than the later ones, and computes the same in all else: runs that learn
#: orders the later ones alone may have made, or have to repeat.
CUT_OTHERWISE = frozenset({"ada93c08bfb1107b"})
#: Regime -> seeds of which they find another order for some base station, or trust another one, than that code did.
#: Runs that learn orders are other runs there. In `drones_permuted_fresh` and `drones_permuted_long` they find the
#: same; of other regimes they have to make all such runs.
RECUT = {
    "drones_sizes": (2, 7),
    "drones_sizes_long": (152, 155),
    "drones_sizes_scarce": (12, 14, 15, 18, 21),
    "drones_sizes_fresh": (23, 26, 28, 30, 31, 32, 33, 34, 36, 37),
    "drones_sizes_trust": (43, 48, 49, 50, 53, 54, 55, 57, 59, 61),
    "drones_sizes_same": (66, 70, 71, 73, 74, 75, 78),
    "drones_permuted": (7, 12),
}


@dataclass(frozen=True)
class Edition:
    """A page of results, and what it is made from.

    Attributes:
        template: of the page.
        page: where it is written; pictures are beside it, in `figures`.
        folder: of what is kept; it may not be there yet.
        versions: codes that the page is of, the latest first.
        cut_otherwise: those of them that no run that learns orders may be of.
        sites: scenarios of measured samples; none: those of the regimes' files.
    """

    template: Path
    page: Path
    folder: Path
    versions: tuple[str, ...]
    cut_otherwise: frozenset[str] = frozenset()
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

    def stands(self, row: Row) -> bool:
        """Whether a code of the page made a row, or repeats the code that did."""
        recut = RECUT.get(row.regime, ()) if _learns_order(row) else ()
        return self._made(row) or (
            row.seed not in recut
            and any(
                self.repeats.repeated(row.regime, row.arm, row.code, version, recut)
                for version in self._versions_of(row)
            )
        )

    def standing(self, regimes: Iterable[str]) -> Iterator[str]:
        """A row per regime: how many of its runs codes of the page made, how many they repeat, and the rest."""
        yield "| regime | runs | made by them | by code that they repeat | by other code | which | processors |"
        yield "|---" * 7 + "|"
        for regime in regimes:
            runs = self.ledger.runs(regime)
            if not runs:
                continue
            others = [run for run in runs if not self.stands(run)]
            n_own = sum(map(self._made, runs))
            arms = list(dict.fromkeys(run.arm for run in others))
            which = "all arms" if {*arms} == {run.arm for run in runs} else ", ".join(arms) or "none"
            counts = (len(runs), n_own, len(runs) - n_own - len(others), len(others))
            processors = Counter(run.processor for run in runs)
            on = "; ".join(f"{name}: {n}" for name, n in processors.most_common())
            yield f"| `{regime}` | {' | '.join(map(str, counts))} | {which} | {on} |"

    def _made(self, row: Row) -> bool:
        """Whether a code of the page made a row."""
        return row.code in self._versions_of(row)

    def _versions_of(self, row: Row) -> tuple[str, ...]:
        """Codes of the page that may make a row."""
        barred = self.cut_otherwise if _learns_order(row) else frozenset()
        return tuple(version for version in self.versions if version not in barred)

    @property
    def by_seed(self) -> Path:
        """Page of the scores of single seeds."""
        return self.page.with_name(f"{self.page.stem}_by_seed.md")


def edition_of(sites: Sequence[int], out: Path) -> Edition:
    """The published page, or, with sites of a user's own, theirs in a folder below `out`."""
    if not sites:
        return Edition(HERE / "page.md", HERE.parent / "results.md", HERE, VERSIONS, CUT_OTHERWISE)
    chosen = tuple(sorted({*sites}))
    folder = out / f"sites-{'-'.join(map(str, chosen))}"
    return Edition(HERE / "sites.md", folder / "results.md", folder, (run_code(),), sites=chosen)


def _learns_order(row: Row) -> bool:
    """Whether the arm of a row learns the order of its beams."""
    return row.arm in _arms_that_learn_orders(row.regime)


@cache
def _arms_that_learn_orders(regime: str) -> frozenset[str]:
    methods = comparison_of(regime).methods
    return frozenset(arm for arm, edits in methods.items() if edits.get("sheaf.map_start") == "learned")
