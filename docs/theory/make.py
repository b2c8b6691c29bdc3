"""Makes the tables of `docs/theory.md`: scores of the arms, figures of short pilots, and what the rules say of them.

    SHEAFEDGE_DATA=DIR make theory [ARGS="--only tracking phones"]

Its parts, in order (`--parts table`: that one alone): `run`, scores of all arms (`scores.csv`); `pilot`, figures for
the rule of pilots (`pilots.csv`); `race`, ten rounds of all arms (`races.csv`); `table`, predictions beside winners,
into the page. What is in a file is not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "results")]
from keeping import CONSOLE, run_and_keep  # noqa: E402 - a script beside its modules
from ledger import Ledger, rows_of_run, run_key, sizes_of  # noqa: E402
from panel import EARLY, Regime, regimes  # noqa: E402
from pilot import pilots  # noqa: E402
from rule import RACE_SEEDS  # noqa: E402
from sheafedge.emulator.contracts import SheafedgeError  # noqa: E402
from sheafedge.emulator.whole_file import write_whole  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison  # noqa: E402
from sheafedge.scenarios.compare.plan import PlannedRun, planned_runs  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import stored_summary  # noqa: E402
from verdict import judged, likeness, table, totals  # noqa: E402

PAGE = HERE.parent / "theory.md"
SCORES, PILOTS, RACES = HERE / "scores.csv", HERE / "pilots.csv", HERE / "races.csv"
PARTS = ("run", "pilot", "race", "table")
#: Marks of the page around its tables.
BEGIN, END = "<!-- table -->\n", "\n<!-- end -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    every = regimes()
    parser.add_argument("--only", nargs="+", choices=every, metavar="NAME", help="run these regimes; all without")
    parser.add_argument("--seeds", nargs="+", type=int, help="of the scores; without: as many as regimes.toml says")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/theory"), help="folder of runs")
    options = parser.parse_args(arguments)
    chosen = [one for name, one in every.items() if (name in options.only if options.only else one.n_seeds)]
    if "run" in options.parts:
        ledger = Ledger(SCORES)
        for regime in chosen:
            _run_all(regime, ledger, options.seeds or range(regime.n_seeds), None, options)
    if "pilot" in options.parts:
        for one in pilots(chosen, PILOTS):
            CONSOLE.print(one, markup=False, soft_wrap=True)
    if "race" in options.parts:
        ledger = Ledger(RACES)
        for regime in chosen:
            _run_all(regime, ledger, RACE_SEEDS, EARLY, options)
    if "table" in options.parts:
        found = judged([*every.values()], Ledger(SCORES), Ledger(RACES), PILOTS)
        tables = (table(found), totals(found), likeness(found, PILOTS))
        write_whole(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), "\n\n".join(tables)))
        CONSOLE.print(f"wrote {PAGE}", soft_wrap=True)


def with_tables(page: str, tables: str) -> str:
    """The page with other tables between its marks."""
    begin = page.index(BEGIN) + len(BEGIN)
    return page[:begin] + tables + page[page.index(END, begin) :]


def _run_all(
    regime: Regime,
    ledger: Ledger,
    seeds: Iterable[int],
    edits: Mapping[str, Any] | None,
    options: argparse.Namespace,
) -> None:
    """Run what is missing of a regime, seed by seed."""
    CONSOLE.rule(regime.name)
    for seed in seeds:
        try:
            _run(regime.name, regime.comparison([seed], edits), ledger, options)
        except SheafedgeError as error:
            CONSOLE.print(f"{regime.name}, seed {seed}: not run: {error}", markup=False, soft_wrap=True)


def _run(name: str, comparison: Comparison, ledger: Ledger, options: argparse.Namespace) -> None:
    """Run what is missing of one seed, keeping the scores of each run before the next."""
    folder = options.out / "runs"

    def keep(run: PlannedRun) -> None:
        ledger.put(rows_of_run(name, run, stored_summary(folder / run.name)))
        ledger.write()

    run_and_keep(
        planned_runs(comparison),
        lambda run: ledger.made(run_key(name, run), sizes_of(run)) is not None,
        keep,
        folder,
        options.jobs,
        keep_stale=True,
    )


if __name__ == "__main__":
    main()
