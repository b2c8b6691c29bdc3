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

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "results")]
from keeping import CONSOLE, run_and_keep  # noqa: E402 - a script beside its modules
from ledger import Ledger, rows_of_run, run_key, sizes_of  # noqa: E402
from panel import EARLY, regimes  # noqa: E402
from pilot import pilots  # noqa: E402
from rule import RACE_SEEDS  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison  # noqa: E402
from sheafedge.scenarios.compare.plan import PlannedRun, planned_runs  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import stored_summary  # noqa: E402
from verdict import judged, table, totals  # noqa: E402

SCORES, PILOTS, RACES = HERE / "scores.csv", HERE / "pilots.csv", HERE / "races.csv"


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
