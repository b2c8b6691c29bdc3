"""Makes the tables of `docs/theory.md`: scores of the arms, figures of short pilots, and what the rule says of them.

    SHEAFEDGE_DATA=DIR python docs/theory/make.py run --only tracking phones     # scores of all arms -> scores.csv
    SHEAFEDGE_DATA=DIR python docs/theory/make.py pilot --only tracking phones   # figures for the rule -> pilots.csv
    SHEAFEDGE_DATA=DIR python docs/theory/make.py race --only tracking phones    # ten rounds of all arms -> races.csv
    python docs/theory/make.py table                                             # predictions beside winners

What is in a file is not made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "results")]
from ledger import Ledger, rows_of_run  # noqa: E402 - a script beside its modules
from panel import EARLY, regimes  # noqa: E402
from pilot import pilots  # noqa: E402
from rule import RACE_SEEDS  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison  # noqa: E402
from sheafedge.scenarios.compare.execution import execute  # noqa: E402
from sheafedge.scenarios.compare.plan import planned_runs  # noqa: E402
from sheafedge.scenarios.compare.results import groups_with_all  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import stored_summary  # noqa: E402
from sheafedge.scenarios.tasks.task_table import TASKS  # noqa: E402
from sheafedge.scenarios.terminal.compare_console import ComparisonLines  # noqa: E402
from verdict import judged, table, totals  # noqa: E402

SCORES, PILOTS, RACES = HERE / "scores.csv", HERE / "pilots.csv", HERE / "races.csv"
CONSOLE = Console(emoji=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "pilot", "race", "table"))
    parser.add_argument("--only", nargs="*", metavar="NAME", help="regimes; all without")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4], help="of the scores")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/theory"), help="folder of runs")
    options = parser.parse_args(arguments)
    chosen = [one for name, one in regimes().items() if options.only is None or name in options.only]
    if options.what in ("run", "race"):
        is_race = options.what == "race"
        ledger = Ledger(RACES if is_race else SCORES)
        for regime in chosen:
            CONSOLE.rule(regime.name)
            for seed in RACE_SEEDS if is_race else options.seeds:
                _run(regime.name, regime.comparison([seed], EARLY if is_race else None), ledger, options)
    elif options.what == "pilot":
        for one in pilots(chosen, PILOTS):
            CONSOLE.print(one, markup=False)
    else:
        found = judged(chosen, Ledger(SCORES), Ledger(RACES), PILOTS)
        CONSOLE.print(f"{table(found)}\n\n{totals(found)}", markup=False, soft_wrap=True)


def _run(name: str, comparison: Comparison, ledger: Ledger, options: argparse.Namespace) -> None:
    """Run what is missing of one seed, then keep its scores."""
    folder = options.out / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [run for run in planned_runs(comparison) if not ledger.has(name, run.method, "", run.seed)]
    if not missing:
        return
    with ComparisonLines(CONSOLE, keep_stale=True) as lines:
        failed = execute(missing, folder, options.jobs, lines, keep_stale=True)
    for run in missing:
        if run.name in failed:
            CONSOLE.print(f"{run.method}, seed {run.seed}: {failed[run.name].sentence}", markup=False)
            continue
        summary = stored_summary(folder / run.name)
        key = TASKS[run.scenario.task].columns[0].key
        ledger.put(rows_of_run(name, run.method, None, summary, groups_with_all(summary), key))
    ledger.write()


if __name__ == "__main__":
    main()
