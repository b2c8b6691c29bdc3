"""Scores per seed, as a page beside the one of results: who doubts a mean looks here."""

from __future__ import annotations

from collections.abc import Iterator

from ledger import ALL, Ledger, varied_text  # a script beside its modules
from regimes import REGIMES, comparison_of
from sheafedge.scenarios.compare.result_table import without_zero


def page_by_seed(ledger: Ledger, results: str) -> str:
    """A table per regime that has scores: arms in rows, seeds in columns, mean scores over all clients.

    Args:
        ledger: of all regimes.
        results: name of the page that it belongs to.
    """
    return "\n\n".join(["# Results, seed by seed", _said(results), *_sections(ledger)]) + "\n"


def _said(results: str) -> str:
    return (
        f"Scores behind [{results}]({results}), over all clients; groups of clients, costs, step sizes, code and"
        " processor of every run are in `scores.csv`. A dash: not run. Arms of one seed have the same world, samples,"
        " graph, losses on links and initial values, so that differences are taken within a column."
    )


def _sections(ledger: Ledger) -> Iterator[str]:
    for name in REGIMES:
        comparison = comparison_of(name)
        for value in map(varied_text, comparison.varied_values):
            scores = ledger.of(name, value)
            if not scores.arms:
                continue
            seeds = sorted({seed for arm in scores.arms for seed in scores.values(arm, ALL)})
            lines = ["| arm | " + " | ".join(map(str, seeds)) + " |", "|---" * (1 + len(seeds)) + "|"]
            for arm in (arm for arm in comparison.methods if arm in scores.arms):
                of_arm = scores.values(arm, ALL)
                cells = [without_zero(f"{of_arm[seed]:.3f}") if seed in of_arm else "-" for seed in seeds]
                lines.append(f"| {arm} | {' | '.join(cells)} |")
            title = f"## `{name}`" + (f", {comparison.varied_key} = {value}" if value else "")
            yield f"{title}\n\n" + "\n".join(lines)
