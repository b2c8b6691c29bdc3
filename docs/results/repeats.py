"""Runs that were made again by later code or on another processor: by how much their scores differ.

Rows of `scores.csv` name the code that made them, and the processor. Where another one makes one again, both scores are
kept here. Code that computes the same repeats a run to the last digit on one kind of processor; what only rounds
otherwise does not, because training amplifies rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import networkx as nx
from ledger import ALL, Row  # a script beside its modules
from tables import read_rows, write_rows
from verdicts import signed


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run, twice.

    Attributes:
        regime, arm, varied, seed: of the run.
        score, code, processor: over all clients, as it was.
        again, code_again, processor_again: as it is now.
    """

    regime: str
    arm: str
    varied: str
    seed: int
    score: float
    code: str
    processor: str
    again: float
    code_again: str
    processor_again: str

    @property
    def difference(self) -> float:
        return self.again - self.score

    @property
    def made(self) -> tuple[str, str, str, str]:
        """By which code, by which again, and on which processors."""
        return self.code, self.code_again, self.processor, self.processor_again


class Repeats:
    """Rows of a file `repeats.csv`.

    Args:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, read_rows(path, Repeat)

    def note(self, old: Row, new: Row) -> None:
        """A row that takes the place of that of others; with other step sizes it is another run."""
        same_settings = (old.encoder, old.head) == (new.encoder, new.head)
        by_others = (old.code, old.processor) != (new.code, new.processor)
        if old.group == ALL and by_others and same_settings:
            run = (new.regime, new.arm, new.varied, new.seed)
            before, after = ((one.score, one.code, one.processor) for one in (old, new))
            self.rows.append(Repeat(*run, *before, *after))

    def write(self) -> None:
        write_rows(self.path, Repeat, sorted(self.rows, key=lambda one: (one.regime, one.arm, one.varied, one.seed)))

    def markdown(self, regimes: Iterable[str]) -> Iterator[str]:
        """A row per regime, pair of versions and processors, in the order of the page."""
        yield (
            "| regime | code | made again by | processor | runs | equal | mean difference | largest"
            " | arms that differ |"
        )
        yield "|---" * 9 + "|"
        for regime in regimes:
            of_regime = [one for one in self.rows if one.regime == regime]
            for made in sorted({one.made for one in of_regime}):
                mine = [one for one in of_regime if one.made == made]
                off = [one for one in mine if one.difference != 0.0]
                largest = max((one.difference for one in mine), key=abs)
                spread = f" ± {stdev(one.difference for one in off):.4f}" if len(off) > 1 else ""
                mean = f"{fmean(one.difference for one in off):+.4f}{spread}" if off else "0"
                arms = ", ".join(sorted({one.arm for one in off})) or "none"
                codes, processors = made[:2], dict.fromkeys(made[2:])
                yield (
                    f"| `{regime}` | {' | '.join(code[:8] for code in codes)} | {', then '.join(processors)}"
                    f" | {len(mine)} | {len(mine) - len(off)} | {mean} | {signed(largest)} | {arms} |"
                )

    def repeated(self, regime: str, arm: str, code: str, version: str, without: Collection[int] = ()) -> bool:
        """Whether a version made runs of an arm again that other code had made, and each time got the same score.

        Versions in between count: one repeats another if it repeats a third that does. What was made again on another
        processor says nothing about the code.

        Args:
            regime, arm: of the runs.
            code, version: which had made them, and which made them again.
            without: seeds that are left out.
        """
        pairs: dict[tuple[str, str], bool] = {}
        for one in self.rows:
            same_run = (one.regime, one.arm) == (regime, arm) and one.seed not in without
            if same_run and one.processor == one.processor_again:
                pair = one.code, one.code_again
                pairs[pair] = pairs.get(pair, True) and one.difference == 0.0
        equal = nx.DiGraph([pair for pair, holds in pairs.items() if holds])
        equal.add_nodes_from((code, version))
        return code != version and pairs.get((code, version), True) and nx.has_path(equal, code, version)
