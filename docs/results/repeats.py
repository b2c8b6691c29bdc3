"""Runs that were made again by later code: by how much their scores differ.

Rows of `scores.csv` name the code that made them. Where a later version makes one again, both scores are kept here.
Code that computes the same repeats a run to the last digit; code that only rounds otherwise does not, because training
amplifies rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import networkx as nx
from ledger import ALL, Ledger, Row  # a script beside its modules
from tables import read_rows, write_rows
from verdicts import signed


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run, twice.

    Attributes:
        regime, arm, varied, seed: of the run.
        score, code: over all clients, as it was.
        again, code_again: as it is now.
    """

    regime: str
    arm: str
    varied: str
    seed: int
    score: float
    code: str
    again: float
    code_again: str

    @property
    def difference(self) -> float:
        return self.again - self.score


class Repeats:
    """Rows of a file `repeats.csv`.

    Args:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, read_rows(path, Repeat)

    def note(self, old: Row, new: Row) -> None:
        """A row that takes the place of that of other code; with other step sizes it is another run."""
        same_settings = (old.encoder, old.head) == (new.encoder, new.head)
        if old.group == ALL and old.code != new.code and same_settings:
            run = (new.regime, new.arm, new.varied, new.seed)
            self.rows.append(Repeat(*run, old.score, old.code, new.score, new.code))

    def write(self) -> None:
        write_rows(self.path, Repeat, sorted(self.rows, key=lambda one: (one.regime, one.arm, one.varied, one.seed)))

    def markdown(self, regimes: Iterable[str]) -> Iterator[str]:
        """A row per regime and pair of versions, in the order of the page."""
        heads = ("regime", "code", "made again by", "runs", "equal", "mean difference", "largest", "arms that differ")
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        for regime in regimes:
            of_regime = [one for one in self.rows if one.regime == regime]
            for pair in sorted({(one.code, one.code_again) for one in of_regime}):
                mine = [one for one in of_regime if (one.code, one.code_again) == pair]
                off = [one for one in mine if one.difference != 0.0]
                largest = max((one.difference for one in mine), key=abs)
                spread = f" ± {stdev(one.difference for one in off):.4f}" if len(off) > 1 else ""
                mean = f"{fmean(one.difference for one in off):+.4f}{spread}" if off else "0"
                arms = ", ".join(sorted({one.arm for one in off})) or "none"
                codes = " | ".join(code[:8] for code in pair)
                yield (
                    f"| `{regime}` | {codes} | {len(mine)} | {len(mine) - len(off)} | {mean} | {signed(largest)} |"
                    f" {arms} |"
                )

    def repeated(self, regime: str, arm: str, code: str, version: str) -> bool:
        """Whether a version made runs of an arm again that other code had made, and each time got the same score.

        Versions in between count: one repeats another if it repeats a third that does.
        """
        pairs: dict[tuple[str, str], bool] = {}
        for one in self.rows:
            if (one.regime, one.arm) == (regime, arm):
                pair = one.code, one.code_again
                pairs[pair] = pairs.get(pair, True) and one.difference == 0.0
        equal = nx.DiGraph([pair for pair, holds in pairs.items() if holds])
        equal.add_nodes_from((code, version))
        return code != version and pairs.get((code, version), True) and nx.has_path(equal, code, version)

    def standing(self, ledger: Ledger, regimes: Iterable[str], version: str) -> Iterator[str]:
        """A row per regime: how many of its runs a version made, how many are of arms that it repeats, and the rest."""
        yield "| regime | runs | made by it | older, of arms that it repeats | older, of others | which |"
        yield "|---" * 6 + "|"
        for regime in regimes:
            runs = ledger.runs(regime)
            if not runs:
                continue
            older = [run for run in runs if run.code != version]
            others = [run for run in older if not self.repeated(regime, run.arm, run.code, version)]
            arms = list(dict.fromkeys(run.arm for run in others))
            which = "all arms" if {*arms} == {run.arm for run in runs} else ", ".join(arms) or "none"
            counts = (len(runs), len(runs) - len(older), len(older) - len(others), len(others))
            yield f"| `{regime}` | {' | '.join(map(str, counts))} | {which} |"
