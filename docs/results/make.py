"""Makes `docs/results.md`: searches step sizes, runs what is missing, and judges from the scores that are kept.

    make results [ARGS="--jobs 2 --only tracking --seeds 0 1"]

Every regime is a comparison file in this folder. Step sizes are kept in `steps.csv` and scores in `scores.csv`, beside
the page; runs are not, so that a call on another machine continues where any earlier one stopped. A score stands
where a code that the page is of made it, or repeats the code that did (`--again`: where the code here made it).
Measured samples are read from the folder `deepsense` in $SHEAFEDGE_DATA; without them their regimes stay as they are.

Who has other measured sites names the scenarios, as in `--sites 1 5 8 9`: the regimes of measured samples are then
tuned, run and judged on these, and their page and files are in a folder of their own below `--out`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from by_seed import page_by_seed  # noqa: E402 - a script beside its modules
from citations import CitationError  # noqa: E402
from controls import OVERVIEWS, controls_of  # noqa: E402
from edition import Edition, edition_of  # noqa: E402
from judged_controls import overview  # noqa: E402
from keeping import CONSOLE, run_and_keep  # noqa: E402
from ledger import Row, processor_here, rows_of_run, run_key, sizes_of  # noqa: E402
from page_text import CURVES, judged_everywhere, page, varied_scores  # noqa: E402
from pictures import draw_curves, overview_figure  # noqa: E402
from regimes import (  # noqa: E402
    MEASURED,
    REGIMES,
    SEARCHES,
    arms_of_search,
    comparison_of,
    steps_of,
    with_data,
    with_steps,
)
from sheafedge.emulator.contracts import SheafedgeError  # noqa: E402
from sheafedge.emulator.whole_file import write_whole  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison  # noqa: E402
from sheafedge.scenarios.compare.plan import PlannedRun, planned_runs  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import run_code, stored_summary  # noqa: E402
from sheafedge.scenarios.report.figure_style import save_figure  # noqa: E402
from steps import search_steps  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/results"), help="folder of runs")
    parser.add_argument("--only", nargs="*", choices=REGIMES, metavar="NAME", help="run only these")
    parser.add_argument("--seeds", nargs="*", type=int, help="run only these of a regime's")
    parser.add_argument("--sites", nargs="+", type=int, default=(), metavar="N", help="measured sites of your own")
    parser.add_argument("--again", action="store_true", help="repeat what other code than that of this folder scored")
    parser.add_argument("--here", action="store_true", help="repeat what another kind of processor scored")
    parser.add_argument("--page-only", action="store_true", help="write the page from what is kept")
    options = parser.parse_args(arguments)
    edition = edition_of(options.sites, options.out)
    every = MEASURED if edition.sites else tuple(REGIMES)
    chosen = [name for name in every if options.only is None or name in options.only]
    if edition.sites and not chosen:
        parser.error(
            f"--only {' '.join(options.only)} names no regime of measured samples; these are {', '.join(every)}"
        )
    if edition.sites and "SHEAFEDGE_DATA" not in os.environ and not options.page_only:
        parser.error("--sites needs measured samples: set SHEAFEDGE_DATA to the folder that has deepsense")
    try:
        if not options.page_only:
            for name in chosen:
                _make(name, edition, options)
        _write(edition, (name for name in chosen if name in CURVES))
    except CitationError as error:
        _refuse(f"sentences of {edition.template} say what the scores do not; mend them:\n{error}")
    except SheafedgeError as error:
        _refuse(str(error))
    CONSOLE.print(f"wrote {edition.page} and {edition.by_seed}", soft_wrap=True)


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(f"{sentence}\n")
    raise SystemExit(2)


# --- the page --------------------------------------------------------------------------------------------------------


def _write(edition: Edition, curves: Iterable[str]) -> None:
    """Write page and pictures; errors as of `page`.

    Args:
        edition: to write.
        curves: regimes whose curves are drawn, where they have scores.
    """
    ledger, figures = edition.ledger, edition.page.parent / "figures"
    differences = judged_everywhere(ledger)
    template = edition.template.read_text(encoding="utf-8").replace("{{sites}}", " ".join(map(str, edition.sites)))
    text = page(template, edition, differences)
    figures.mkdir(parents=True, exist_ok=True)
    for name, things in OVERVIEWS.items():
        if columns := overview(name, differences):
            save_figure(overview_figure(things, columns), figures / f"results-{name}", ("png",))
    for regime in curves:
        comparison = comparison_of(regime)
        if found := varied_scores(regime, ledger):
            draw_curves(found, comparison.varied_key, list(comparison.methods), figures / f"results-{regime}")
    write_whole(edition.page, text)
    write_whole(edition.by_seed, page_by_seed(ledger, edition.page.name))


# --- runs ------------------------------------------------------------------------------------------------------------


def _make(name: str, edition: Edition, options: argparse.Namespace) -> None:
    """Search the step sizes of a regime's arms where they are not known, and run what is missing."""
    comparison = with_data(comparison_of(name), edition.sites)
    if comparison is None:
        CONSOLE.print(f"{name} needs measured samples; set SHEAFEDGE_DATA")
        return
    CONSOLE.rule(name)
    search, steps = REGIMES[name], edition.steps
    tuned = with_data(arms_of_search(search), edition.sites)
    assert tuned is not None, "it has the data of its regimes"
    folder = options.out / f"tune-{search}"
    search_steps(search, SEARCHES[search], tuned, steps, folder, options.jobs, controls_of(search))
    _run(with_steps(comparison, steps_of(search, steps)), edition, options)


def _run(comparison: Comparison, edition: Edition, options: argparse.Namespace) -> None:
    """Run what is missing of a regime, keeping the scores of each run before the next."""
    name = comparison.name
    edition.ledger.keep_only(name, comparison.methods)
    folder = options.out / "runs"
    seeds = comparison.seeds if options.seeds is None else options.seeds
    run_and_keep(
        planned_runs(comparison.edited({"seeds": list(seeds)})),
        lambda run: _is_kept(edition.ledger.made(run_key(name, run), sizes_of(run)), edition, options),
        lambda run: _keep(name, run, edition, folder),
        folder,
        options.jobs,
    )


def _is_kept(row: Row | None, edition: Edition, options: argparse.Namespace) -> bool:
    """Whether a run is not made again.

    A code of the page made its row or repeats it, or the code of this folder did. On sites of a user's own any code may
    have: a page of theirs is of no version.
    """
    if row is None or (options.here and row.processor != processor_here()):
        return False
    stands = bool(edition.sites) or edition.stands(row)
    return row.code == run_code() or (stands and not options.again)


def _keep(regime: str, run: PlannedRun, edition: Edition, folder: Path) -> None:
    rows = rows_of_run(regime, run, stored_summary(folder / run.name))
    for row in rows:
        if (old := edition.ledger.replaced(row)) is not None:
            edition.repeats.note(old, row)
    edition.ledger.put(rows)
    edition.ledger.write()
    edition.repeats.write()


if __name__ == "__main__":
    main()
