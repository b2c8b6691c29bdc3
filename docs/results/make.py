"""Makes `docs/results.md`: searches step sizes, runs what is missing, and judges from the scores that are kept.

    make results [ARGS="--jobs 2 --only tracking --seeds 0 1"]

Every regime is a comparison file in this folder. Step sizes are kept in `steps.csv` and scores in `scores.csv`, beside
the page; runs are not, so that a call on another machine continues where any earlier one stopped. A score stands
where the code that the page is of made it, or repeats the code that did (`--again`: where the code here made it).
Measured samples are read from the folder `deepsense` in $SHEAFEDGE_DATA; without them their regimes stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from citations import NOT_RUN, CitationError, cited  # noqa: E402
from claims import CLAIMS, judged  # noqa: E402 - a script beside its modules
from controls import (  # noqa: E402
    OVERVIEWS,
    Judged,
    control_rows,
    judged_controls,
    overview,
    overview_rows,
)
from keeping import CONSOLE, run_and_keep  # noqa: E402
from ledger import ALL, Ledger, RegimeScores, Row, processor_here, rows_of_run, run_key, sizes_of, varied_text  # noqa: E402
from pictures import draw_curves, overview_figure  # noqa: E402
from regimes import (  # noqa: E402
    REGIMES,
    SEARCHES,
    arms_of_search,
    comparison_of,
    steps_of,
    with_data,
    with_steps,
)
from repeats import Repeats  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison  # noqa: E402
from sheafedge.scenarios.compare.difference_tables import p_value_text  # noqa: E402
from sheafedge.scenarios.compare.plan import PlannedRun, planned_runs  # noqa: E402
from sheafedge.scenarios.compare.result_table import without_zero  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import run_code, stored_summary  # noqa: E402
from sheafedge.scenarios.report.figure_style import save_figure  # noqa: E402
from steps import GAIN, StepTable, at_the_edge, lack_part, search_steps  # noqa: E402
from verdicts import Difference, against  # noqa: E402

PAGE, FIGURES = HERE.parent / "results.md", HERE.parent / "figures"
SCORES, STEPS, REPEATS = HERE / "scores.csv", HERE / "steps.csv", HERE / "repeats.csv"
#: The code that the page is of: rows that it neither made nor repeats are named at the end of the page.
VERSION = "ada93c08bfb1107b"
#: Regime in which a setting varies -> heading of its curves.
CURVES: Mapping[str, str] = {
    "tracking_rounds": "Whether 60 rounds are enough (validation samples)",
    "tracking_loss": "Lost packets",
    "tracking_graphs": "Who is whose neighbor",
    "tracking_clients": "Few base stations and many",
    "tracking_samples": "Few samples and many",
    "digits_clients": "From 5 clients to 200",
    "drones_rounds": "What more rounds than 20 are worth in the sky (validation samples)",
}
CONTROLS_HEADING = """\
## What decides

For every gain that could be claimed, the arm that lacks only the thing praised. Differences with 95 % intervals.
Words are adjusted for all rows of the regime: those over all clients together, and those of groups of clients together.
An interval is of one difference, so that it may exclude 0 where the word is "not shown".
Two p values follow: of the difference alone, and adjusted (Holm).
The last column counts seeds of which the two arms ran on different kinds of processors.

| Regime | What is praised | Arm | Control | Difference | Seeds of two processors |
|---|---|---|---|---|---|"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/results"), help="folder of runs")
    parser.add_argument("--only", nargs="*", default=tuple(REGIMES), metavar="NAME", help="run only these")
    parser.add_argument("--seeds", nargs="*", type=int, help="run only these of a regime's")
    parser.add_argument("--again", action="store_true", help="repeat what other code than that of this folder scored")
    parser.add_argument("--here", action="store_true", help="repeat what another kind of processor scored")
    parser.add_argument("--page-only", action="store_true", help="write the page from what is kept")
    options = parser.parse_args(arguments)
    ledger, steps, repeats = Ledger(SCORES), StepTable(STEPS), Repeats(REPEATS)
    for name in () if options.page_only else options.only:
        comparison = with_data(comparison_of(name))
        if comparison is None:
            CONSOLE.print(f"{name} needs measured samples; set SHEAFEDGE_DATA")
            continue
        CONSOLE.rule(name)
        search = REGIMES[name]
        tuned = with_data(arms_of_search(search))
        assert tuned is not None, "it has the data of its regimes"
        search_steps(search, SEARCHES[search], tuned, steps, options.out / f"tune-{search}", options.jobs)
        _run(with_steps(comparison, steps_of(search, steps)), ledger, repeats, options)
    for name in (name for name in options.only if name in CURVES):
        comparison, found = comparison_of(name), _varied(name, ledger)
        if found:
            draw_curves(found, comparison.varied_key, list(comparison.methods), FIGURES / f"results-{name}")
    differences = judged_everywhere(ledger)
    for name, things in OVERVIEWS.items():
        if columns := overview(name, differences):
            save_figure(overview_figure(things, columns), FIGURES / f"results-{name}", ("png",))
    try:
        PAGE.write_text(page(ledger, steps, repeats, differences), encoding="utf-8")
    except CitationError as error:
        raise SystemExit(f"sentences of docs/results/page.md say what the scores do not; mend them:\n{error}") from None
    CONSOLE.print(f"wrote {PAGE}")


# --- runs ------------------------------------------------------------------------------------------------------------


def _run(comparison: Comparison, ledger: Ledger, repeats: Repeats, options: argparse.Namespace) -> None:
    """Run what is missing of a regime, keeping the scores of each run before the next."""
    name = comparison.name
    ledger.keep_only(name, comparison.methods)
    folder = options.out / "runs"
    seeds = comparison.seeds if options.seeds is None else options.seeds
    run_and_keep(
        planned_runs(comparison.edited({"seeds": list(seeds)})),
        lambda run: _is_kept(ledger.made(run_key(name, run), sizes_of(run)), repeats, options),
        lambda run: _keep(name, run, ledger, repeats, folder),
        folder,
        options.jobs,
    )


def _is_kept(row: Row | None, repeats: Repeats, options: argparse.Namespace) -> bool:
    """Whether a run is not made again: the page's code made its row or repeats it, or the code of this folder did."""
    if row is None or (options.here and row.processor != processor_here()):
        return False
    return row.code == run_code() or (not options.again and repeats.stands(row, VERSION))


def _keep(regime: str, run: PlannedRun, ledger: Ledger, repeats: Repeats, folder: Path) -> None:
    rows = rows_of_run(regime, run, stored_summary(folder / run.name))
    for row in rows:
        if (old := ledger.replaced(row)) is not None:
            repeats.note(old, row)
    ledger.put(rows)
    ledger.write()
    repeats.write()


# --- the page --------------------------------------------------------------------------------------------------------


def page(ledger: Ledger, steps: StepTable, repeats: Repeats, differences: Mapping[str, Judged]) -> str:
    """The template with what is kept; errors as of `cited`."""
    comparisons = {name: comparison_of(name) for name in REGIMES}
    ratios = {name: test_per_train(name, ledger) for name in REGIMES}
    text = cited((HERE / "page.md").read_text(encoding="utf-8"), ledger, comparisons, ratios, differences)
    parts: Mapping[str, Callable[[str], str]] = {
        "arms": lambda _: "\n".join(_arms_text()),
        "claims": lambda _: "\n".join(judged(claim, ledger, ratios[claim.regime]) for claim in CLAIMS),
        "overview": lambda name: _overview_text(name, differences),
        "repeats": lambda _: "\n".join(repeats.markdown(REGIMES)),
        "standing": lambda _: "\n".join(repeats.standing(ledger, REGIMES, VERSION)),
        "version": lambda _: VERSION[:8],
        "controls": lambda _: _controls_text(differences),
        "curves": lambda name: _curves_text(name, ledger, steps),
        "steps": lambda name: "\n\n".join(_steps_text(steps, name)),
        "verdicts": lambda name: "\n".join(_verdicts_of(name)),
        "table": lambda name: "\n\n".join(_tables(name, ledger, steps)),
    }
    return re.sub(r"\{\{(\w+) ?([\w/.-]*)\}\}", lambda match: parts[match[1]](match[2]), text)


def judged_everywhere(ledger: Ledger) -> dict[str, Judged]:
    """Regime -> differences of what decides there."""
    return {name: judged_controls(ledger.of(name), test_per_train(name, ledger)) for name in REGIMES}


def _overview_text(name: str, differences: Mapping[str, Judged]) -> str:
    """Picture and table of what decides everywhere; empty where nothing was run."""
    rows = [*overview_rows(name, differences)]
    if not rows:
        return ""
    picture = f"![Differences of what decides, with their intervals: the table below](figures/results-{name}.png)"
    return "\n".join([picture, "", *rows])


def _arms_text() -> Iterator[str]:
    """A row per arm and its settings, without those of its whole regime, and the regimes that have it so."""
    regimes: dict[tuple[str, str], list[str]] = {}
    for name in REGIMES:
        for arm, edits in comparison_of(name).methods.items():
            settings = ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in edits.items())
            regimes.setdefault((arm, settings), []).append(f"`{name}`")
    yield "| arm | settings | regimes |"
    yield "|---" * 3 + "|"
    for (arm, settings), names in sorted(regimes.items(), key=lambda one: one[0][0].lower()):
        yield f"| {arm} | {settings} | {', '.join(names)} |"


def _verdicts_of(name: str) -> Iterator[str]:
    """Rows of the table of verdicts of another page of this folder's parent, each with a link to it."""
    text = (PAGE.parent / name).read_text(encoding="utf-8")
    table = text[text.index("## Verdicts") :].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]  # behind the heads
    for row in rows:
        yield f"| [{name}]({name}) {row}"


def _controls_text(differences: Mapping[str, Judged]) -> str:
    """The section of the controls; empty until a regime was run."""
    rows = [*control_rows(differences)]
    if not rows:
        return ""
    return "\n".join([CONTROLS_HEADING, *rows]) + "\n\n"


def test_per_train(regime: str, ledger: Ledger) -> float:
    """Held-out samples per training sample where seeds deal the same samples anew, else 0."""
    measured = comparison_of(regime).edits.get("data.source") == "deepsense"
    return ledger.of(regime, *_varied_values(regime)[:1]).test_per_train if measured else 0.0


def _varied_values(regime: str) -> list[str]:
    """Values of the varied field, as texts; an empty one where nothing varies."""
    return [varied_text(value) for value in comparison_of(regime).varied_values]


def _varied(regime: str, ledger: Ledger) -> dict[str, RegimeScores]:
    """Value of the varied field -> scores, of values that have any."""
    found = {value: ledger.of(regime, value) for value in _varied_values(regime)}
    return {value: scores for value, scores in found.items() if scores.arms}


def _curves_text(regime: str, ledger: Ledger, steps: StepTable) -> str:
    """Heading, a row per arm over the values of a setting, and the picture; empty where nothing was run."""
    comparison, found = comparison_of(regime), _varied(regime, ledger)
    if not found:
        return ""
    seeds = sorted({seed for scores in found.values() for arm in scores.arms for seed in scores.values(arm, ALL)})
    codes = sorted({code for scores in found.values() for code in scores.codes})
    rows = [
        (
            f"Scores over all clients; `{comparison.varied_key}` in the columns; seeds"
            f" {', '.join(map(str, seeds))}; code {', '.join(code[:8] for code in codes)}."
        ),
        "",
        *(f"{said}\n" for said in [_of_other_sizes(regime, found.values(), steps)] if said),
        "| arm | " + " | ".join(found) + " |",
        "|---" * (1 + len(found)) + "|",
        *(
            f"| {arm} | {' | '.join(_spread(scores, arm, ALL) for scores in found.values())} |"
            for arm in comparison.methods
        ),
        "",
        f"![{CURVES[regime]}: scores against the setting and against costs](figures/results-{regime}.png)",
    ]
    return f"### {CURVES[regime]}\n\n" + "\n".join(rows) + "\n\n"


def _tables(regime: str, ledger: Ledger, steps: StepTable) -> Iterator[str]:
    comparison = comparison_of(regime)
    scores = ledger.of(regime)
    if not scores.arms:
        yield NOT_RUN
        return
    seeds = sorted({seed for arm in scores.arms for seed in scores.values(arm, ALL)})
    yield (
        f"Seeds {', '.join(map(str, seeds))}; differences to *{comparison.reference}*; code"
        f" {', '.join(code[:8] for code in scores.codes)}."
    )
    lacking = [arm for arm in comparison.methods if arm not in scores.arms]
    if lacking:
        yield f"Not run yet: {'; '.join(lacking)}."
    if said := _of_other_sizes(regime, [scores], steps):
        yield said
    yield "\n".join(_table(scores, comparison, test_per_train(regime, ledger)))


def _of_other_sizes(regime: str, scores: Iterable[RegimeScores], steps: StepTable) -> str:
    """Sentence on arms whose scores are of step sizes that a later search replaced; empty: there are none."""
    made = {(arm, sizes) for one in scores for arm in one.arms for sizes in one.sizes(arm)}
    chosen = {arm: tuple(sizes.values()) for arm, sizes in steps_of(REGIMES[regime], steps).items()}
    arms = sorted({arm for arm, sizes in made if sizes != chosen.get(arm, sizes)})
    return f"Of step sizes that a later search replaced, and to be made again: {'; '.join(arms)}." if arms else ""


def _table(scores: RegimeScores, comparison: Comparison, ratio: float) -> Iterator[str]:
    """A row per arm: means and standard deviations, difference over all clients, and what a run costs."""
    found = against(scores, comparison.reference, ratio) if comparison.reference in scores.arms else {}
    heads = ["arm", "n", *scores.groups, f"less {comparison.reference}", "p (Holm)", "", "MB", "simulated s", "J"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for arm in (arm for arm in comparison.methods if arm in scores.arms):
        cells = [_spread(scores, arm, group) for group in scores.groups]
        costs = scores.costs(arm)
        said = _said(found.get((arm, ALL)))
        n = len(scores.values(arm, ALL))
        spent = (f"{costs['megabytes']:.0f}", f"{costs['virtual_s']:.1f}", f"{costs['joules']:.0f}")
        yield f"| {' | '.join([arm, str(n), *cells, *said, *spent])} |"


def _spread(scores: RegimeScores, arm: str, group: str) -> str:
    values = list(scores.values(arm, group).values())
    if not values:
        return "-"
    spread = f"±{without_zero(f'{stdev(values):.3f}')}" if len(values) > 1 else ""
    return without_zero(f"{mean(values):.3f}") + spread


def _said(one: Difference | None) -> tuple[str, str, str]:
    if one is None:
        return "", "", ""
    return str(one), p_value_text(one.p_holm), one.marked


def _steps_text(steps: StepTable, search: str) -> Iterator[str]:
    if not steps.arms(search):
        yield NOT_RUN
        return
    how = SEARCHES[search]
    first, *others = how.seeds
    edits = "".join(f", {key} = {value}" for key, value in (how.edits or {}).items())
    edges = "; ".join(at_the_edge(steps, search)) or "none"
    lacking = "; ".join(lack_part(how, search, steps))
    alike = "".join(f" *{arm}* has those of *{other}*." for arm, other in how.alike.items())
    more = f"; the {how.finalists} best of an arm also with seed {', '.join(map(str, others))}" if others else ""
    grid = " x ".join("{" + ", ".join(f"{value:g}" for value in values) + "}" for values in how.grid.values())
    yield (
        f"Validation samples of seed {first}{edits}{more}. Every arm tries {grid} (encoder x head), and goes on where"
        f" an edge is better than the rest by more than {GAIN:g}. Chosen at an edge, by no more than that:"
        f" {edges}.{alike}{f' Part of the grid is to be tried yet by: {lacking}.' if lacking else ''}"
    )
    yield steps.markdown(search)


if __name__ == "__main__":
    main()
